"""Writes the tables of ``docs/settings.md`` from the catalogue of settings.

A table stands below a heading of the catalogue; the words around it are written by hand. Called by ``make diagrams``;
a test fails when the page is stale.
"""

import re
from pathlib import Path

from muster_operator.link.config.catalogue import CATALOGUE, MEANINGLESS, Setting

PAGE = Path(__file__).resolve().parent.parent / "docs" / "settings.md"
SETTINGS = "| Key | Default | Takes effect | Meaning |\n|---|---|---|---|\n"
MEANINGLESS_HEADING = "Keys of YuniKorn without effect"


def tables() -> dict[str, str]:
    """By the heading that each stands under, in Markdown."""
    made = {heading: SETTINGS + "".join(map(row, settings)) for heading, settings in CATALOGUE.items()}
    idle = "".join(f"| `{key}` | {why} |\n" for key, why in MEANINGLESS.items())
    return made | {MEANINGLESS_HEADING: "| Key | Instead |\n|---|---|\n" + idle}


def row(setting: Setting) -> str:
    """One setting, for people."""
    default = f"`{setting.default}`" if setting.default else "none"
    return f"| `{setting.key}` | {default} | {setting.takes} | {setting.meaning} |\n"


def written(page: str) -> str:
    """The page with the tables of now. Raises LookupError where a heading is missing."""
    for heading, table in tables().items():
        head = f"\n## {heading}\n\n"
        if head not in page:
            raise LookupError(f"{PAGE.name} has no heading {heading!r}")
        before, after = page.split(head, 1)
        page = before + head + table + "\n" + re.sub(r"\A(?:\|.*\n)*\n*", "", after)
    return page.rstrip("\n") + "\n"


def main() -> None:
    """Write the page."""
    PAGE.write_text(written(PAGE.read_text()))


if __name__ == "__main__":
    main()
