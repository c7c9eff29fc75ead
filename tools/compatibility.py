"""Writes ``docs/compatibility.md`` from ``docs/compatibility.yaml`` and the ``Differs:`` remarks of the product.

The YAML lists what a user or a resource manager may rely on, each row with the test that shows it; tests compare it
with the running thing. Called by ``make diagrams``; a test fails when the page is stale.
"""

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict

from tools.differs import differences

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "docs" / "compatibility.yaml"
PAGE = ROOT / "docs" / "compatibility.md"


class Row(BaseModel):
    """One name, what becomes of it here, and the test that fails when that is no longer so."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    how: str = ""
    #: `path::name`; empty where there is nothing to show, and `differs` says why.
    test: str = ""
    #: In what it is not as there.
    differs: str = ""
    #: Of an event.
    number: int | None = None
    #: Of a metric.
    type: str = ""
    labels: tuple[str, ...] = ()
    #: Of what the seeds name: its kind, the seeds that have it, and where it lives now.
    kind: str = ""
    seeds: tuple[str, ...] = ()
    where: tuple[str, ...] = ()


class Group(BaseModel):
    """Rows under one heading; a section with one group needs none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str = ""
    rows: tuple[Row, ...]


class Section(BaseModel):
    """`id` is what tests ask for, `title` and `intro` (Markdown) what people read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    title: str
    intro: str = ""
    groups: tuple[Group, ...]

    @property
    def rows(self) -> list[Row]:
        """All rows of all groups."""
        return [row for group in self.groups for row in group.rows]

    @property
    def names(self) -> list[str]:
        """The names of all rows, as often as they are there."""
        return [row.name for row in self.rows]


class Compatibility(BaseModel):
    """The whole list."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    intro: str
    sections: tuple[Section, ...]

    def section(self, name: str) -> Section:
        """The section of that id. Raises KeyError."""
        found = {section.id: section for section in self.sections}
        return found[name]


@cache
def load() -> Compatibility:
    """What the YAML says. Raises pydantic.ValidationError for rows of another form."""
    return Compatibility.model_validate(yaml.safe_load(SOURCE.read_text()))


def rendered(compatibility: Compatibility) -> str:
    """The page."""
    return "\n".join(_lines(compatibility)) + "\n"


def _lines(compatibility: Compatibility) -> Iterator[str]:
    yield "<!-- generated from compatibility.yaml by `make diagrams` -->"
    yield "# Compatibility"
    yield ""
    yield compatibility.intro.strip()
    for section in compatibility.sections:
        yield from ("", f"## {section.title}", "")
        if section.intro:
            yield from (section.intro.strip(), "")
        for number, group in enumerate(section.groups):
            if group.title:
                yield from (*([""] if number else []), f"### {group.title}", "")
            yield from ("| Name | Here | Test |", "|---|---|---|")
            yield from (f"| `{row.name}` | {_cell(row)} | {_test(row)} |" for row in group.rows)
    yield from ("", "## Differences from YuniKorn", "")
    yield "Rules that differ are marked in [semantics.md](semantics.md): 10 and 15. The code marks the rest:"
    yield ""
    yield from (f"- {text} (`{module}`)" for module, text in differences())


def _cell(row: Row) -> str:
    number = f"{row.number}" if row.number is not None else ""
    labels = ", ".join(f"`{label}`" for label in row.labels)
    where = ", ".join(f"`{place}`" for place in row.where)
    differs = f"Differs: {row.differs}" if row.differs else ""
    parts = [number, " ".join((row.kind or row.type, labels)).strip(), where, row.how, differs]
    return ". ".join(" ".join(part.split()).removesuffix(".") for part in parts if part).replace("|", "\\|")


def _test(row: Row) -> str:
    return f"`{row.test.rpartition('::')[2]}`" if row.test else "none"


def main() -> int:
    """Renews the page if it is stale, and says so; ``--check`` only says so, with exit code 1."""
    page = rendered(load())
    if PAGE.exists() and PAGE.read_text() == page:
        return 0
    print(f"{PAGE.relative_to(ROOT)} is stale: make diagrams" if "--check" in sys.argv else PAGE.relative_to(ROOT))
    if "--check" in sys.argv:
        return 1
    PAGE.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
