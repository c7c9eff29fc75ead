"""docs/reference/compatibility.yaml has every metric as the registry has it, and names a test of it."""

from typing import Any

import pytest

from tests.unit.core.metrics.metrics_core import busy_core
from tools import compatibility

ROWS: list[dict[str, Any]] = [row.model_dump() for row in compatibility.load().section("metrics").rows]
THERE = [row for row in ROWS if row["type"]]


def registered_metrics() -> dict[str, tuple[str, set[str]]]:
    """Name as it is written → type and labels."""
    found: dict[str, tuple[str, set[str]]] = {}
    for metric in busy_core().collect():
        for sample in metric.samples:
            name = metric.name if metric.type == "histogram" else sample.name
            if sample.name != f"{metric.name}_created":
                found.setdefault(name, (metric.type, set()))[1].update(sample.labels.keys() - {"le"})
    return found


KNOWN = registered_metrics()


def concrete(name: str) -> str:
    return name.replace("<resource>", "vcore").replace("<queue>", "root_a")


@pytest.mark.parametrize("row", THERE, ids=[row["name"] for row in THERE])
def test_a_metric_of_the_contract_has_its_type_and_labels(row: dict[str, Any]) -> None:
    assert KNOWN.get(concrete(row["name"])) == (row["type"], set(row["labels"]))


def test_every_metric_with_a_name_of_yunikorn_has_a_row() -> None:
    resources = {concrete(row["name"]) for row in ROWS} | {
        row["name"].replace("<resource>", name) for row in ROWS for name in ("memory", "pods")
    }
    assert {name for name in KNOWN if name.startswith("yunikorn_")} <= resources


def test_an_unsupported_metric_has_a_reason_and_is_not_registered() -> None:
    absent = [row for row in ROWS if not row["type"]]
    assert [row["name"] for row in absent if not row["differs"] or row["name"] in KNOWN] == []


def test_every_metric_of_our_own_has_a_row() -> None:
    assert {name for name in KNOWN if name.startswith("muster_core_")} == set(
        compatibility.load().section("own-metrics").names
    )
