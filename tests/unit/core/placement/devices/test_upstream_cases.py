"""The cases of Kubernetes' own allocator tests (allocatortesting of 1.37.2) give the same devices.

The file has those that need no further feature than admin access, prioritized lists and taints, as documents for the
core, with the results of kube-scheduler's allocator. A case of which claims cannot be allocated has no results.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from muster_core.model.devices import DeviceAllocation, DeviceClaim, DeviceId, NodeAccess
from muster_core.placement.devices.allocation import allocate
from muster_core.placement.devices.filter import reach_rows
from muster_core.si.storage import read_cluster_object
from muster_core.state.devices import Refusal
from muster_si import keys, muster_pb2
from tests.unit.builders import a_node
from tests.unit.core.placement.tables import a_table

CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("upstream_cases.json").read_text())
Fact = muster_pb2.Fact


def facts(kind: Fact.Kind.ValueType, documents: dict[str, Any]) -> list[Any]:
    sent = [
        Fact(kind=kind, name=name, attributes={keys.FACT_OBJECT: json.dumps(document)})
        for name, document in documents.items()
    ]
    taken, rejected = read_cluster_object(sent)
    assert not rejected
    return list(taken)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_same_devices_are_allocated(case: dict[str, Any]) -> None:
    table = a_table(a_node(case["node"]["name"], labels=case["node"]["labels"]))
    devices = table.pods_on_nodes.devices
    for fact in facts(Fact.DEVICE_CLASS, case["classes"]) + facts(Fact.DEVICE_SLICE, case["slices"]):
        devices.update(fact)
    claims: list[DeviceClaim] = facts(Fact.DEVICE_CLAIM, case["claims"])
    if any(one.unsupported for one in claims):
        assert case["results"] is None
        return
    devices.build_views(table.facts_epoch, table.rows, lambda reach: reach_rows(table, reach))
    devices.used.update({DeviceId(*one): 1 for one in case["allocated"]})
    view = devices.views[devices.view_of.item(0)]
    found = allocate(view, [one.demand for one in claims], devices.classes, devices)
    if case["results"] is None:
        assert isinstance(found, Refusal)
        return
    assert not isinstance(found, Refusal), found
    assert [[[one.request, *one.device, one.admin] for one in each.results] for each in found] == case["results"]
    assert [terms(each) for each in found] == case["nodes"]


def terms(allocation: DeviceAllocation) -> list[list[Any]] | None:
    """Return the requirements for nodes, sorted; None = none."""
    match allocation.reach:
        case NodeAccess(node=None, terms=None):
            return None
        case NodeAccess(node=None, terms=(term,)):
            every = [*term.expressions, *term.fields]
            return sorted([one.key, one.operator, sorted(one.values)] for one in every)
        case NodeAccess(node=node):
            return [["metadata.name", "In", [node]]]
