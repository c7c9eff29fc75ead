"""Draws a terminal with commands and output of an example. The end-to-end tests run them and compare the output."""

from html import escape
from pathlib import Path

from tools.pictures.svg import MONO
from tools.transcripts import steps

PAGE = Path(__file__).resolve().parents[2] / "examples" / "17-does-not-fit" / "README.md"
SHOWN = ("kubectl apply", "muster explain")
"""Starts of the commands that the picture shows, up to the first `muster explain`."""
COLUMNS, LINE, LETTER, MARGIN = 80, 21, 9.05, 22
"""The picture is shapes at the width at which pages show it, so that its text has the size of their text."""
PAPER, INK, PALE, GREEN, YELLOW = "#0d1117", "#e6edf3", "#8d96a0", "#3fb950", "#e3b341"
BOLD = ' font-weight="600"'
MARKED = {"Pending": YELLOW, "Suggestion": GREEN, "status": YELLOW}


def lines() -> list[str]:
    """Return commands and output."""
    found: list[str] = []
    for step in steps(PAGE.read_text()):
        if step.command.startswith(SHOWN):
            found += [f"$ {step.command}", *step.shown]
        if step.command.startswith(SHOWN[-1]):
            break
    return [part for line in found for part in _folded(line)]


def _folded(line: str) -> list[str]:
    """Break the line between words, as a terminal of that width."""
    parts = [""]
    for word in line.split(" "):
        if len(parts[-1]) + 1 + len(word) > COLUMNS:
            parts.append(word)
        else:
            parts[-1] += f" {word}" if parts[-1] else word or " "
    return parts


def svg() -> str:
    """Return the SVG text."""
    texts = lines()
    width, height = COLUMNS * LETTER + 2 * MARGIN, LINE * len(texts) + 2 * MARGIN
    shapes = "\n".join(
        f'<text x="{MARGIN}" y="{MARGIN + LINE * number + 15}" fill="{_ink(text)}" xml:space="preserve"'
        f"{BOLD if text.startswith('$') else ''}>{escape(text)}</text>"
        for number, text in enumerate(texts)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" width="{width:g}" '
        f'height="{height}" role="img" {MONO} font-size="15">\n'
        "<title>a terminal: a gang that waits, and the explanation of muster explain</title>\n"
        f'<rect width="{width:g}" height="{height}" rx="8" fill="{PAPER}"/>\n{shapes}\n</svg>\n'
    )


def _ink(text: str) -> str:
    return next((ink for word, ink in MARKED.items() if text.startswith(word)), PALE if set(text) == {"─"} else INK)
