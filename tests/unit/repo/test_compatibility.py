"""docs/reference/compatibility.yaml against YuniKorn's public names on one side and Muster's code on the other.

Every name of YuniKorn has a row, every row has a name in the code, every name in the code has a row, and the test
of every row exists.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf.descriptor import Descriptor
from pydantic import BaseModel

from muster_core.config import queues
from muster_core.config.schema import FileForm
from muster_core.model import states
from muster_core.model.ids import Termination
from muster_core.rest.routes import MOVED, ROUTES
from muster_operator.config.catalog import MEANINGLESS, SETTINGS
from muster_operator.model import messages
from muster_operator.model.states import AppState, TaskState
from muster_si import si_pb2
from tests.unit.repo.tree import ROOT, modules
from tools import compatibility, events

LIST = compatibility.load()
TEST = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)
STATES = {
    "application": states.ApplicationState,
    "queue": states.QueueState,
    "node": states.NodeState,
    "resource manager": states.ManagerState,
    "termination": Termination,
    "operator application": AppState,
    "operator task": TaskState,
}
#: The entry that is a file.
FILE = "<policyGroup>.yaml"


def si_names() -> Iterator[str]:
    """What of the interface needs a row: each field, a message without fields, each RPC."""
    messages: Mapping[str, Descriptor] = si_pb2.DESCRIPTOR.message_types_by_name
    for name, message in messages.items():
        yield from [f"{name}.{field.name}" for field in message.fields] or [name]
    for service in si_pb2.DESCRIPTOR.services_by_name.values():
        yield from (f"{service.name}.{method.name}" for method in service.methods)


def config_names() -> set[str]:
    """The keys of queues.yaml that the parser reads, each below the key of its mapping."""
    found: set[str] = set()
    todo: list[tuple[str, type[BaseModel]]] = [("", FileForm)]
    seen: set[type[BaseModel]] = set()
    while todo:
        prefix, form = todo.pop(0)
        if form in seen:
            continue
        seen.add(form)
        for key, field in form.model_fields.items():
            found.add(prefix + key)
            is_list = str(field.annotation).startswith("list")
            todo += [(f"{key}[]." if is_list else f"{key}.", inner) for inner in _forms(field.annotation)]
    return found


def _forms(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from _forms(inner)


@cache
def known_tests() -> frozenset[str]:
    """As rows name them: `path::name`."""
    return frozenset(
        f"{path.relative_to(ROOT)}::{name}" for path in modules("tests") for name in TEST.findall(path.read_text())
    )


def running() -> dict[str, list[str]]:
    """Section → the names that the code has."""
    return {
        "si": list(si_names()),
        "config": sorted(config_names()),
        "properties": sorted(queues._READERS),
        "settings": sorted({*SETTINGS, *MEANINGLESS, FILE}),
        "endpoints": [f"{route.method} {route.path}" for route in ROUTES] + [f"GET {path}" for path in MOVED],
        "event-types": list(si_pb2.EventRecord.Type.keys())[1:],
        "events": list(si_pb2.EventRecord.ChangeDetail.keys())[1:],
        "states": [
            *(f"{kind} {state.value}" for kind, table in STATES.items() for state in table),
            *(f"node action {name}" for name in si_pb2.NodeInfo.ActionFromRM.keys()[1:]),
        ],
    }


@pytest.mark.parametrize("section", running())
def test_the_list_matches_the_names_of_the_running_system(section: str) -> None:
    assert Counter(LIST.section(section).names) == Counter(running()[section])


#: Section → YuniKorn's names, of which some have a value: fields, labels, or a number.
YUNIKORN: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("yunikorn_names.yaml").read_text())


def names(section: str) -> set[str]:
    found = YUNIKORN[section]
    if section == "states":
        return {f"{kind} {name}" for kind, states in found.items() for name in states.split()}
    return set(found) - {"DETAILS_NONE"}


@pytest.mark.parametrize("section", YUNIKORN)
def test_every_name_of_the_contract_is_listed(section: str) -> None:
    assert names(section) - set(LIST.section(section).names) == set()


def test_every_row_names_an_existing_test_or_a_difference() -> None:
    rows = [row for section in LIST.sections for row in section.rows]
    assert [row.name for row in rows if not (row.test in known_tests() if row.test else row.differs)] == []


def test_every_object_has_a_row_with_its_field_names() -> None:
    documented = {row.name: set(re.findall(r"`(\w+)`", row.how)) for row in LIST.section("objects").rows}
    assert documented == {name: set(fields.split()) for name, fields in YUNIKORN["objects"].items()}


def test_the_rows_of_reasons_match_the_reasons_that_muster_writes() -> None:
    written = {one.kind.reason for one in events.event_texts().values()}
    written |= {one.reason for one in messages.CONDITIONS} | {reason for reason, _, _ in messages.FAILURES}
    claimed = {row.name: not row.how.startswith(("Not sent", "Sent as")) for row in LIST.section("reasons").rows}
    assert claimed == {name: name in written for name in claimed}


def test_event_numbers_match_the_contract() -> None:
    for section, enum in (("events", si_pb2.EventRecord.ChangeDetail), ("event-types", si_pb2.EventRecord.Type)):
        numbers = dict(enum.items())
        assert {name: numbers.get(name) for name in YUNIKORN[section]} == YUNIKORN[section]


def test_both_pages_are_generated_from_the_list_and_the_code_comments() -> None:
    assert [path.name for path, text in compatibility.fresh().items() if path.read_text() != text] == [], (
        "make diagrams"
    )
