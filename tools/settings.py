"""Writes the tables of ``docs/reference/settings.md`` from the catalogue of settings.

Each table is below a heading of the catalogue. The text around it is written by hand. Called by ``make diagrams``; a
test fails if the page is stale.
"""

from pathlib import Path

from muster_operator.config.catalog import CATALOGUE, MEANINGLESS, Setting
from tools.tables import put

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "settings.md"
SETTINGS = "| Key | Default | Takes effect | Meaning |\n|---|---|---|---|\n"
MEANINGLESS_HEADING = "Keys of YuniKorn without effect"


def tables() -> dict[str, str]:
    """Return the Markdown tables by their headings."""
    made = {f"## {heading}": SETTINGS + "".join(map(row, settings)) for heading, settings in CATALOGUE.items()}
    idle = "".join(f"| `{key}` | {why} |\n" for key, why in MEANINGLESS.items())
    return made | {f"## {MEANINGLESS_HEADING}": "| Key | Instead |\n|---|---|\n" + idle}


def row(setting: Setting) -> str:
    """Return the table row of one setting."""
    default = f"`{setting.default}`" if setting.default else "none"
    return f"| `{setting.key}` | {default} | {setting.takes} | {setting.meaning} |\n"


def main() -> None:
    """Write the page."""
    PAGE.write_text(put(PAGE.read_text(), tables()))


if __name__ == "__main__":
    main()
