"""Writes the tables of ``docs/reference/events.md`` from the catalogues of messages and from the alert rules.

The catalogues are ``model/messages.py``, ``problems.py`` and ``device_problems.py`` of the operator, and
``model/messages.py`` of the core.
Called by ``make diagrams``; a test fails if the page is stale.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import yaml

from muster_core.model import messages as of_core
from muster_operator.model import device_problems, messages, problems
from muster_operator.model.commands import Subject
from muster_operator.model.event_texts import GANG, EventText
from tools.tables import put

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "events.md"
RULES = ROOT / "deploy" / "monitoring" / "alerts.yaml"
VALUE = re.compile(r"\{\{ \$(?:labels\.)?(\w+)(?: \| \w+)? \}\}")
NOTHING = "none"
VALUES = {"quantity", "resource_name"}
"""Functions of the core's catalogue that write a value and not a message."""
EVENTS_HEAD = "| Reason | Type | Message | Meaning and what to do |\n|---|---|---|---|\n"
OTHERS_HEAD = "| Reason | Type, object | Message | Meaning and what to do |\n|---|---|---|---|\n"
GANGS_HEAD = "| Action | Type | Message | Meaning and what to do |\n|---|---|---|---|\n"
ALERTS_HEAD = "| Alert | Severity | After | Meaning and what to do |\n|---|---|---|---|\n"
CONDITIONS_HEAD = "| Reason | Condition | Meaning | What to do |\n|---|---|---|---|\n"
FAILURES_HEAD = "| Reason | Meaning | What to do |\n|---|---|---|\n"
TEXTS_HEAD = "| Message | Meaning | What to do |\n|---|---|---|\n"


class Placeholder(str):
    """The name of a value in braces, which replaces the value in a message whatever its format."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        return str(self)

    def __getitem__(self, part: object) -> "Placeholder":
        return self


def tables() -> dict[str, str]:
    """Return the Markdown tables by their headings."""
    return {
        "## Pod events": EVENTS_HEAD + "".join(events(Subject.POD)),
        "## Gang events": GANGS_HEAD + "".join(gang_events()),
        "## Events of other objects": OTHERS_HEAD + "".join(events(*(set(Subject) - {Subject.POD}))),
        "## Condition reasons": CONDITIONS_HEAD + "".join(conditions()),
        "## Condition messages": TEXTS_HEAD + "".join(texts(messages)),
        "## Reasons of failed pods": FAILURES_HEAD + "".join(failures()),
        "## Messages from the core": TEXTS_HEAD + "".join(texts(of_core)),
        "## Problems in messages": TEXTS_HEAD + "".join([*texts(problems), *texts(device_problems)]),
        "## Alerts": ALERTS_HEAD + "".join(alerts()),
    }


def event_texts() -> dict[str, EventText[...]]:
    """Return the events of the operator by the names of their functions, in the order of the catalogue."""
    return {name: found for name, found in vars(messages).items() if isinstance(found, EventText)}


def functions(module: ModuleType) -> dict[str, Callable[..., str]]:
    """Return the texts of a catalogue that are not events, by their names, in the order of the catalogue."""
    found = {name: one for name, one in vars(module).items() if inspect.isfunction(one) and name[0] != "_"}
    return {name: one for name, one in found.items() if one.__module__ == module.__name__ and name not in VALUES}


def template(text: Callable[..., str]) -> str:
    """Return the message with the names of its values in braces."""
    return text(*(Placeholder(f"{{{name}}}") for name in inspect.signature(text).parameters))


def explanation(text: Callable[..., str]) -> tuple[str, str]:
    """Return the meaning and what to do, from the paragraphs of the docstring."""
    meaning, _, remedy = (inspect.getdoc(text) or "").partition("\n\n")
    return one_line(meaning), one_line(remedy) or NOTHING


def both(text: Callable[..., str]) -> str:
    """Return the meaning and what to do as one cell."""
    meaning, remedy = explanation(text)
    return meaning if remedy == NOTHING else f"{meaning}. {remedy}"


def one_line(text: str) -> str:
    """Return the text as the cell of a table: one line without the full stop at its end."""
    return " ".join(text.split()).rstrip(".")


def row(*cells: str) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(cells)} |\n"


def events(*subjects: Subject) -> Iterator[str]:
    """Yield a row per event about these objects, except for events of gangs, sorted by reason."""
    found = (one for one in event_texts().values() if one.kind.subject in subjects and one.kind.reason != GANG)
    for one in sorted(found, key=lambda one: (one.kind.reason, one.kind.subject)):
        kind, text = one.kind, one.text
        about = kind.type if kind.subject is Subject.POD else f"{kind.type}, {kind.subject}"
        yield row(f"`{kind.reason}`", about, code(template(text)), both(text))


def gang_events() -> Iterator[str]:
    """Yield a row per event of gangs, in the order of the catalogue."""
    for one in event_texts().values():
        if one.kind.reason == GANG:
            yield row(f"`{one.kind.action}`", one.kind.type, code(template(one.text)), both(one.text))


def conditions() -> Iterator[str]:
    """Yield a row per condition reason."""
    for one in messages.CONDITIONS:
        yield row(f"`{one.reason}`", f"`{one.condition}`", one_line(one.meaning), one_line(one.remedy))


def failures() -> Iterator[str]:
    """Yield a row per reason of failed pods."""
    for reason, meaning, remedy in messages.FAILURES:
        yield row(f"`{reason}`", one_line(meaning), one_line(remedy))


def texts(module: ModuleType) -> Iterator[str]:
    """Yield a row per text of a catalogue that is not an event."""
    for text in functions(module).values():
        yield row(code(template(text)), *explanation(text))


def alerts() -> Iterator[str]:
    """Yield a row per alert rule, in file order."""
    for group in yaml.safe_load(RULES.read_text())["spec"]["groups"]:
        for rule in (rule for rule in group["rules"] if "alert" in rule):
            annotations = {key: VALUE.sub(r"*\1*", text) for key, text in rule["annotations"].items()}
            meaning = f"**{annotations['summary']}.** {annotations['description']}"
            anchor = f'<a id="{rule["alert"].lower()}"></a>'  # of the annotation runbook_url in the chart
            yield row(f"{anchor}`{rule['alert']}`", rule["labels"]["severity"], rule.get("for", "immediately"), meaning)


def code(text: str) -> str:
    """Return the text as code in a table."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def main() -> None:
    """Write the page."""
    PAGE.write_text(put(PAGE.read_text(), tables()))


if __name__ == "__main__":
    main()
