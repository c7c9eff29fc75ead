"""SVG shapes of the documentation's pictures.

A picture has its own background, which follows the reader's light or dark theme. It uses the reader's fonts.
"""

from dataclasses import dataclass, field
from html import escape

INK, PALE, PAPER, RULE, STRIPE = "#24292f", "#6e7781", "#ffffff", "#d0d7de", "#f6f8fa"
BLUE, GREEN, ORANGE, RED, VIOLET = "#0969da", "#1a7f37", "#bc4c00", "#cf222e", "#8250df"
DARK = {
    INK: "#e6edf3", PALE: "#8d96a0", PAPER: "#0d1117", RULE: "#30363d", STRIPE: "#161b22", "#d8dee4": "#3d444d",
    BLUE: "#4493f8", GREEN: "#3fb950", ORANGE: "#f0883e", RED: "#f85149", VIOLET: "#ab7df8",
}  # fmt: skip
"""Each color in a dark theme."""
FONT = "font-family=\"system-ui, 'Segoe UI', Helvetica, Arial, sans-serif\""
MONO = 'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"'
SMALL_LETTER, CAPITAL = 0.56, 0.76
"""Average widths of letters relative to the font size, because text cannot be measured here."""


def width_of(text: str, size: float = 13) -> float:
    """Return the approximate width of a text in pixels."""
    return size * sum(CAPITAL if letter.isupper() else SMALL_LETTER for letter in text)


@dataclass(slots=True)
class Picture:
    """Shapes in drawing order. Coordinates are pixels, with y downward."""

    width: float
    height: float
    title: str
    parts: list[str] = field(default_factory=list)

    def box(self, at: tuple[float, float], size: tuple[float, float], fill: str = PAPER, edge: str = RULE) -> None:
        """Add a rectangle with round corners; ``at`` is its upper left corner."""
        self.parts.append(
            f'<rect x="{at[0]:g}" y="{at[1]:g}" width="{size[0]:g}" height="{size[1]:g}" rx="4" '
            f'fill="{fill}" stroke="{edge}"/>'
        )

    def line(self, start: tuple[float, float], end: tuple[float, float], ink: str = PALE, dash: str = "") -> None:
        """Add a straight line."""
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<line x1="{start[0]:g}" y1="{start[1]:g}" x2="{end[0]:g}" y2="{end[1]:g}" stroke="{ink}" '
            f'stroke-width="1.5"{dashes}/>'
        )

    def arrow(self, start: tuple[float, float], end: tuple[float, float], ink: str = PALE, dash: str = "") -> None:
        """Add a horizontal arrow."""
        back = -7 if end[0] > start[0] else 7
        self.line(start, (end[0] + back / 2, end[1]), ink, dash)
        x, y = end
        points = f"{x:g},{y:g} {x + back:g},{y - 4.5:g} {x + back:g},{y + 4.5:g}"
        self.parts.append(f'<polygon points="{points}" fill="{ink}"/>')

    def dot(self, at: tuple[float, float], radius: float = 4, ink: str = INK, fill: str = "") -> None:
        """Add a disk, or a ring if ``fill`` differs."""
        self.parts.append(
            f'<circle cx="{at[0]:g}" cy="{at[1]:g}" r="{radius:g}" fill="{fill or ink}" stroke="{ink}" '
            'stroke-width="1.5"/>'
        )

    def text(self, at: tuple[float, float], words: str, ink: str = INK, form: str = "") -> None:
        """Add text on its baseline. `form`: additional SVG attributes such as `text-anchor="middle"`."""
        size = "" if "font-size" in form else 'font-size="13" '
        self.parts.append(f'<text x="{at[0]:g}" y="{at[1]:g}" {size}fill="{ink}" {form}>{escape(words)}</text>')

    def written(self) -> str:
        """Return the SVG text of the file."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width:g} {self.height:g}" '
            f'width="{self.width:g}" height="{self.height:g}" role="img" {FONT}>'
        )
        style = "<style>@media (prefers-color-scheme: dark) { " + "".join(
            f'[fill="{light}"] {{ fill: {dark} }} [stroke="{light}"] {{ stroke: {dark} }} '
            for light, dark in DARK.items()
        )
        paper = f'<rect width="{self.width:g}" height="{self.height:g}" rx="6" fill="{PAPER}" stroke="{RULE}"/>'
        title = f"<title>{escape(self.title)}</title>"
        return "\n".join([head, title, f"{style}}}</style>", paper, *self.parts, "</svg>", ""])


MIDDLE = 'text-anchor="middle"'
END = 'text-anchor="end"'
BOLD = 'font-weight="600"'
SMALL = 'font-size="11"'
