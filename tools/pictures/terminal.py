"""Draws the terminal output of ``make demo``, with the demo's own tables and the reader's fonts."""

import io

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from devcluster.demo_view import summary, table
from tools.pictures.recorded import Run
from tools.pictures.svg import MONO

COLUMNS = 100
THEME = TerminalTheme((27, 31, 36), (225, 228, 232), [(88, 96, 105), (234, 74, 90), (52, 208, 88), (255, 234, 127),
    (33, 136, 255), (179, 146, 240), (57, 197, 207), (209, 213, 218)])  # fmt: skip
FORM = f"""<svg class="rich-terminal" viewBox="0 0 {{width}} {{height}}" width="{{width}}" height="{{height}}" xmlns="http://www.w3.org/2000/svg" role="img">
<title>a terminal with what make demo prints</title>
<style>
.{{unique_id}}-matrix {{{{ font-size: {{char_height}}px; line-height: {{line_height}}px; font-variant-east-asian: full-width; }}}}
{{styles}}
</style>
<defs><clipPath id="{{unique_id}}-clip-terminal"><rect x="0" y="0" width="{{terminal_width}}" height="{{terminal_height}}"/></clipPath>{{lines}}</defs>
<rect width="{{width}}" height="{{height}}" rx="8" fill="#1b1f24"/>
<g transform="translate({{terminal_x}}, {{terminal_y}})" clip-path="url(#{{unique_id}}-clip-terminal)">
{{backgrounds}}
<g class="{{unique_id}}-matrix" {MONO}>{{matrix}}</g>
</g>
</svg>
"""  # noqa: E501 the lines of the file that it makes


def svg(run: Run) -> str:
    """Return the SVG text."""
    console = Console(record=True, width=COLUMNS, force_terminal=True, color_system="truecolor", file=io.StringIO())
    view = run.view()
    console.print("[bold green]$[/] make demo", highlight=False)
    console.print(table(view))
    console.print(summary(view, 0.0, run.writes))
    console.print("nothing is left over")
    return console.export_svg(title="", theme=THEME, code_format=FORM, unique_id="demo") + "\n"
