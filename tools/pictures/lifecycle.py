"""Draws a state table: a column per state, a row per event, and dots at the states in which the event may occur.

Arrows lead to the next state. A ring at the end of a column marks a final state. Unlike a graph, the picture stays
readable with many rows.
"""

from collections.abc import Mapping, Sequence

from tools.pictures.svg import BLUE, BOLD, END, INK, PALE, PAPER, RULE, SMALL, STRIPE, Picture, width_of

COLUMN, ROW, MARGIN = 62, 26, 16
SLOPE = 0.64
"""Names of states are drawn diagonally: ratio of their height to their width."""

Edge = tuple[str, str, str]


def svg(title: str, edges: Sequence[Edge]) -> str:
    """Return the SVG text for rows (state, event, next state). The first state is the initial one."""
    states = list(dict.fromkeys(state for edge in edges for state in (edge[0],)))
    states += [state for state in dict.fromkeys(edge[2] for edge in edges) if state not in states]
    rows: dict[tuple[str, str], list[str]] = {}
    for source, event, target in edges:
        rows.setdefault((event, target), []).append(source)
    left = MARGIN + max(width_of(event) for event, _ in rows) + 24
    top = MARGIN + 16 + max(width_of(state) for state in states) * SLOPE
    right = max(left + COLUMN * at + width_of(state) * 0.78 for at, state in enumerate(states))
    size = (max(right, left + COLUMN * len(states)) + MARGIN, top + ROW * len(rows) + 34)
    picture = Picture(*size, title)
    columns = {state: left + COLUMN * at + 8 for at, state in enumerate(states)}
    bottom = top + ROW * len(rows)
    for number in range(0, len(rows), 2):
        picture.box((1, top + ROW * number), (size[0] - 2, ROW), STRIPE, STRIPE)
    _heads(picture, columns, (top, bottom), {edge[0] for edge in edges})
    for number, ((event, target), sources) in enumerate(rows.items()):
        y = top + ROW * number + ROW / 2
        picture.text((left - 16, y + 4.5), event, form=END)
        _row(picture, columns, (sources, target), y)
    return picture.written()


def _heads(picture: Picture, columns: Mapping[str, float], ends: tuple[float, float], sources: set[str]) -> None:
    top, bottom = ends
    for number, (state, x) in enumerate(columns.items()):
        picture.line((x, top - 6), (x, bottom + 8), RULE)
        picture.text((x + 2, top - 12), state, form=f'{BOLD} transform="rotate(-40 {x + 2:g} {top - 12:g})"')
        if number == 0:
            picture.dot((x, top - 4), 4.5)
        if state not in sources:
            picture.dot((x, bottom + 14), 6, INK, PAPER)
            picture.dot((x, bottom + 14), 3)
    picture.text((16, bottom + 18), "● begins   ◉ ends", PALE, SMALL)


def _row(picture: Picture, columns: Mapping[str, float], edge: tuple[list[str], str], y: float) -> None:
    sources, target = edge
    goal = columns[target]
    for outer, side in ((min, -1), (max, 1)):
        between = [columns[one] for one in sources if (columns[one] - goal) * side > 0]
        if between:
            picture.arrow((outer(between), y), (goal + side * 2, y), BLUE)
    for one in sources:
        picture.dot((columns[one], y), 4, BLUE)
    if target in sources:
        picture.text((goal + 7, y + 5), "↻", BLUE, BOLD)
