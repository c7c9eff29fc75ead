"""docs/compatibility.md has a row for every message, field and RPC of seed 003, with a test that exists."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from google.protobuf.descriptor import Descriptor

from muster_si import si_pb2
from tests.unit.repo.tree import ROOT, modules

PAGE = (ROOT / "docs/compatibility.md").read_text()
ROW = re.compile(r"^\| `(?P<field>[A-Za-z.]+)` \| (?P<handling>.+?) \| `(?P<test>test_\w+)` \|$", re.MULTILINE)
TEST = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)


def names() -> Iterator[str]:
    """What needs a row: each field, a message without fields, each RPC."""
    messages: Mapping[str, Descriptor] = si_pb2.DESCRIPTOR.message_types_by_name
    for name, message in messages.items():
        yield from [f"{name}.{field.name}" for field in message.fields] or [name]
    for service in si_pb2.DESCRIPTOR.services_by_name.values():
        yield from (f"{service.name}.{method.name}" for method in service.methods)


def test_every_field_of_the_interface_has_exactly_one_row() -> None:
    rows = Counter(match["field"] for match in ROW.finditer(PAGE))
    assert rows == Counter(names())


def test_every_row_names_a_test_that_exists() -> None:
    tests = {name for path in modules("tests") for name in TEST.findall(path.read_text())}
    assert [match["field"] for match in ROW.finditer(PAGE) if match["test"] not in tests] == []
