"""Writes two reference pages, and the ``Differs:`` remarks of ``docs/internals/differences.md``.

``compatibility.md`` is for users of YuniKorn, ``scheduler-interface.md`` for authors of resource managers. The source
is ``docs/reference/compatibility.yaml``. It lists the interfaces that users and resource managers rely on, each with
the test that verifies it. The pages leave the tests out. Tests compare the list with the code. Called by
``make diagrams``; a test fails if a page is stale.
"""

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict

from tools.differs import differences

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "docs" / "reference" / "compatibility.yaml"
PAGES = {
    "user": ("Compatibility", ROOT / "docs" / "reference" / "compatibility.md"),
    "interface": ("Scheduler Interface", ROOT / "docs" / "reference" / "scheduler-interface.md"),
}
"""Title and path of each page."""
DIFFERENCES = ROOT / "docs" / "internals" / "differences.md"
BEGIN = "<!-- the differences: written by `make diagrams` -->\n"
END = "<!-- end of the differences -->\n"
SUBJECTS = {
    "muster_core.rest": "REST",
    "muster_core.metrics": "Metrics",
    "muster_core.si.events": "Events of REST",
    "muster_core.scheduling.records": "Events of REST",
    "muster_core.config": "Configuration and groups of users",
    "muster_core.scheduling.configuration": "Queues",
    "muster_core.scheduling.queues": "Queues",
    "muster_core.scheduling.applications": "Queues",
    "muster_core.scheduling.preemption": "Preemption and quotas",
    "muster_core.preemption": "Preemption and quotas",
    "muster_core.placement": "Order and nodes",
    "muster_operator.webhook": "Admission",
    "muster_operator.config": "Configuration and groups of users",
    "muster_operator": "Pods, placeholders and nodes",
    "muster_core": "REST",
}
"""Subject of a remark, by the longest matching prefix of its module name."""


class Row(BaseModel):
    """One name, its support in Muster, and the test that verifies it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    how: str = ""
    #: `path::name`; empty if there is nothing to test, with the reason in `differs`.
    test: str = ""
    #: How Muster differs.
    differs: str = ""
    #: The number of an event.
    number: int | None = None
    #: Type and labels of a metric.
    type: str = ""
    labels: tuple[str, ...] = ()
    #: For names of the specifications: the kind, the specifications that have it, and the modules that implement it.
    kind: str = ""
    versions: tuple[str, ...] = ()
    where: tuple[str, ...] = ()


class Group(BaseModel):
    """Rows under one heading. A section with one group needs no heading."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str = ""
    rows: tuple[Row, ...]


class Section(BaseModel):
    """A section of a page. Tests select it by `id`; `title` and `intro` are Markdown."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    title: str
    intro: str = ""
    page: Literal["user", "interface"] = "user"
    groups: tuple[Group, ...]

    @property
    def rows(self) -> list[Row]:
        """The rows of all groups."""
        return [row for group in self.groups for row in group.rows]

    @property
    def names(self) -> list[str]:
        """The names of all rows, including duplicates."""
        return [row.name for row in self.rows]


class Compatibility(BaseModel):
    """The content of compatibility.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: By page.
    intro: dict[str, str]
    sections: tuple[Section, ...]

    def section(self, name: str) -> Section:
        """Return the section with this id. Raises KeyError."""
        found = {section.id: section for section in self.sections}
        return found[name]


@cache
def load() -> Compatibility:
    """Read the YAML file. Raises pydantic.ValidationError for invalid rows."""
    return Compatibility.model_validate(yaml.safe_load(SOURCE.read_text()))


def rendered(compatibility: Compatibility, page: str) -> str:
    """Return one of the pages."""
    return "\n".join(_lines(compatibility, page)) + "\n"


def _lines(compatibility: Compatibility, page: str) -> Iterator[str]:
    yield "<!-- generated from compatibility.yaml by `make diagrams` -->"
    yield f"# {PAGES[page][0]}"
    yield ""
    yield compatibility.intro[page].strip()
    for section in compatibility.sections:
        if section.page != page:
            continue
        yield from ("", f"## {section.title}", "")
        if section.intro:
            yield from (section.intro.strip(), "")
        for number, group in enumerate(section.groups):
            if group.title:
                yield from (*([""] if number else []), f"### {group.title}", "")
            yield from ("| Name | In Muster |", "|---|---|")
            yield from (f"| `{row.name}` | {_cell(row)} |" for row in group.rows)


def differing(page: str) -> str:
    """Return the page of differences from YuniKorn with the current remarks, grouped by subject."""
    found: dict[str, list[str]] = {subject: [] for subject in SUBJECTS.values()}
    for module, text in differences():
        best = max((beginning for beginning in SUBJECTS if module.startswith(beginning)), key=len)
        remarks = (remark.strip() for remark in text.split("Differs:"))
        found[SUBJECTS[best]] += (f"* {remark[0].upper()}{remark[1:]} (`{module}`)" for remark in remarks)
    lines = [line for subject, remarks in found.items() if remarks for line in ("", f"### {subject}", "", *remarks)]
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + "\n".join(lines).lstrip("\n") + "\n\n" + END + rest.partition(END)[2]


def _cell(row: Row) -> str:
    number = f"{row.number}" if row.number is not None else ""
    labels = ", ".join(f"`{label}`" for label in row.labels)
    where = ", ".join(f"`{place}`" for place in row.where)
    differs = f"Differs: {row.differs}" if row.differs else ""
    parts = [number, " ".join((row.kind or row.type, labels)).strip(), where, row.how, differs]
    return ". ".join(" ".join(part.split()).removesuffix(".") for part in parts if part).replace("|", "\\|")


def fresh() -> dict[Path, str]:
    """Return the current content of all pages."""
    pages = {path: rendered(load(), page) for page, (_, path) in PAGES.items()}
    return {**pages, DIFFERENCES: differing(DIFFERENCES.read_text())}


def main() -> int:
    """Write stale pages and print their names. ``--check`` only prints the names; the exit code is then 1."""
    stale = {path: text for path, text in fresh().items() if not path.exists() or path.read_text() != text}
    for path, text in stale.items():
        print(path.relative_to(ROOT))
        if "--check" not in sys.argv:
            path.write_text(text)
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
