"""Draws the times of gangs from the table of `docs/reference/performance.md`, relative to kube-scheduler."""

import re
from pathlib import Path

from tools.pictures.svg import BOLD, END, GREEN, INK, ORANGE, PALE, SMALL, Picture

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "performance.md"
ROWS = ("One gang of 100", "One gang of 1,000", "50 gangs of 100", "One gang of 5,000")
PEER = "kube-scheduler"
BARS = {"Muster `Auto`": ("Muster Auto", GREEN), "Muster `Reserve`": ("Muster Reserve", ORANGE), PEER: (PEER, PALE)}
"""Start of a column, its name and its color."""
LEFT, WIDTH, UNIT, BAR, GROUP, TOP = 152, 760, 230, 15, 66, 70


def times() -> dict[str, dict[str, str]]:
    """Return the cells of the rows, by row and column. Raises LookupError if one is missing."""
    table = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.read_text().splitlines() if "|" in line
    ]
    head = next(cells for cells in table if cells[0] == "Workload")
    found = {cells[0]: dict(zip(head, cells, strict=True)) for cells in table if cells[0] in ROWS}
    if missing := [row for row in ROWS if row not in found]:
        raise LookupError(f"{PAGE.name} has no row {missing[0]}")
    return found


def svg() -> str:
    """Return the SVG text."""
    picture = Picture(WIDTH, TOP + GROUP * len(ROWS) + 8, "times of gangs relative to kube-scheduler")
    picture.text(
        (16, 28), "Time until all members are bound, relative to kube-scheduler (shorter is better)", INK, BOLD
    )
    x = LEFT
    for words, ink in BARS.values():
        picture.box((x, 42), (22, 10), ink, ink)
        picture.text((x + 30, 51), words, INK, SMALL)
        x += 150
    for number, (row, cells) in enumerate(times().items()):
        _group(picture, row, cells, TOP + GROUP * number)
    return picture.written()


def _group(picture: Picture, row: str, cells: dict[str, str], y: float) -> None:
    found = {start: next(cell for column, cell in cells.items() if column.startswith(start)) for start in BARS}
    picture.text((LEFT - 12, y + 28), row, INK, END)
    for number, (start, (_, ink)) in enumerate(BARS.items()):
        top = y + (BAR + 3) * number
        width = UNIT * _seconds(found[start]) / _seconds(found[PEER])
        picture.box((LEFT, top), (width, BAR), ink, ink)
        picture.text((LEFT + width + 8, top + 12), found[start], INK, SMALL)


def _seconds(cell: str) -> float:
    (number,) = re.findall(r"[\d.]+", cell)
    return float(number)
