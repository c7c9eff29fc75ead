"""docs/reference/compatibility.yaml has every detail of an event record, its number and a test that sees it."""

from typing import Any

from muster_core.model.records import Detail
from muster_si import si_pb2
from tests.unit.repo.tree import ROOT
from tools import compatibility

ROWS: list[dict[str, Any]] = [
    row.model_dump(exclude_defaults=True) for row in compatibility.load().section("events").rows
]


def test_every_detail_of_the_interface_has_a_row_with_its_number() -> None:
    numbers = dict(si_pb2.EventRecord.ChangeDetail.items())
    del numbers["DETAILS_NONE"]
    assert {row["name"]: row["number"] for row in ROWS} == numbers


def test_every_detail_that_the_core_reports_has_a_test_and_the_others_a_reason() -> None:
    effects = {detail.value for detail in Detail} - {"DETAILS_NONE"}
    assert {row["name"] for row in ROWS if "test" in row} == effects
    assert [row["name"] for row in ROWS if "test" not in row and not row.get("differs")] == []


def test_every_row_names_an_existing_test_that_checks_the_detail() -> None:
    def checks_detail(row: dict[str, Any]) -> bool:
        path, _, name = row["test"].partition("::")
        _, found, rest = (ROOT / path).read_text().partition(f"def {name}(")
        helpers = (ROOT / path).read_text().partition("\ndef test_")[0]
        return bool(found) and f"Detail.{row['name']}" in rest.partition("\ndef test_")[0] + helpers

    assert [row["name"] for row in ROWS if "test" in row and not checks_detail(row)] == []
