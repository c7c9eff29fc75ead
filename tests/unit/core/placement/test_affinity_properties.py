"""Placement by constraints on other allocations agrees with a simple search, one member after the other."""

from collections import Counter
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from muster_core.model.config import NodeOrder, NodeSort
from muster_core.model.constraints import (
    UNBOUNDED,
    AllocationAffinity,
    PlacementConstraint,
    Tags,
    Target,
    TargetOperator,
    matches,
)
from muster_core.model.ids import NodeId
from muster_core.model.specs import PodOnNode
from muster_core.placement.node_search import allowed, place, unschedulable_reason
from muster_core.state.nodes import NodeTable
from muster_core.state.snapshot import RequestShape, Snapshot
from tests.unit.builders import a_node, resources
from tests.unit.core.placement.tables import keep_tags

KEYS = ("app", "tier")
VALUES = ("x", "y")
tags = st.fixed_dictionaries({}, optional={key: st.sampled_from(VALUES) for key in KEYS}).map(
    lambda found: tuple(sorted(found.items()))
)
targets = st.builds(
    lambda key, operator, value: Target(key, operator, (value,) if operator.endswith("IN") else ()),
    st.sampled_from(KEYS),
    st.sampled_from(TargetOperator),
    st.sampled_from(VALUES),
)


@dataclass
class Plain:
    """A node in the simple search: its capacity and its allocations."""

    zone: str
    capacity: int
    there: list[Tags] = field(default_factory=list)
    used: int = 0


nodes = st.lists(
    st.builds(Plain, st.sampled_from(["", "a", "b", "c"]), st.integers(0, 4), st.lists(tags, max_size=2)),
    min_size=1,
    max_size=6,
)
affinities = st.builds(
    AllocationAffinity,
    st.sampled_from(["zone", "hostname"]),
    st.lists(targets, min_size=1, max_size=2).map(tuple),
    st.integers(0, 2),
    st.sampled_from([2, 3, UNBOUNDED]),
    st.booleans(),
)


def table_of(plain: list[Plain]) -> NodeTable:
    """One core per slot; existing allocations use none."""
    table = NodeTable()
    keep_tags(table, KEYS)
    for index, node in enumerate(plain):
        spec = a_node(f"n{index}", vcore=8000)
        row = table.add(replace(spec, attributes={"zone": node.zone} if node.zone else {}), draining=False)
        table.take(spec.id, resources(vcore=8000 - 1000 * node.capacity))
        for one in node.there:
            table.pods_on_nodes.tags.add(row, one)
    return table


def group(index: int, node: Plain, scope: str) -> str:
    return f"n{index}" if scope == "hostname" else node.zone


def holds(plain: list[Plain], index: int, affinity: AllocationAffinity, mine: Tags) -> bool:
    """Whether the constraint permits one more allocation with these tags on the node."""
    found = Counter(
        group(i, node, affinity.scope)
        for i, node in enumerate(plain)
        for one in node.there
        if matches(affinity.targets, dict(one))
    )
    del found[""]
    here = group(index, plain[index], affinity.scope)
    itself = matches(affinity.targets, dict(mine))
    if here and found[here] + itself > affinity.at_most:
        return False
    if not affinity.at_least:
        return True
    total = found.total()
    begins = itself and total < affinity.at_least and found[here] == total
    return bool(here) and (found[here] >= affinity.at_least or begins)


def one_by_one(plain: list[Plain], shape: RequestShape, affinity: AllocationAffinity, count: int) -> list[int]:
    """The node of each, in their order: the least used of those that may, then the first by name."""
    chosen: list[int] = []
    for _ in range(count):
        fitting = [index for index, node in enumerate(plain) if node.capacity > node.used]
        best = [index for index in fitting if holds(plain, index, affinity, shape.pod_on_node.tags)]
        if not best and not affinity.required:
            best = fitting
        if not best:
            break
        index = min(best, key=lambda i: (8 - plain[i].capacity + plain[i].used, i))
        plain[index].used += 1
        plain[index].there.append(shape.pod_on_node.tags)
        chosen.append(index)
    return chosen


@settings(max_examples=150)
@given(nodes, affinities, tags, st.integers(1, 8))
def test_placing_together_equals_placing_one_by_one(
    plain: list[Plain], affinity: AllocationAffinity, mine: Tags, count: int
) -> None:
    shape = RequestShape(
        resources(vcore=1000), placement=PlacementConstraint((), affinity), pod_on_node=PodOnNode(mine)
    )
    snapshot = Snapshot(table_of(plain))
    placed = dict(place(snapshot, shape, count, NodeSort(NodeOrder.FAIR, (("vcore", 1.0),))))
    expected = Counter(NodeId(f"n{index}") for index in one_by_one(plain, shape, affinity, count))
    assert placed == dict(expected)
    # The snapshot of the plan contains its placements, so the next feasible nodes are equal, too.
    if affinity.required:
        may = {snapshot.nodes.rows.at(row) for row in allowed(snapshot, shape).nonzero()[0].tolist()}
        assert may == {NodeId(f"n{i}") for i in range(len(plain)) if holds(plain, i, affinity, mine)}
        if len(expected) and expected.total() < count:
            why = unschedulable_reason(snapshot, shape)
            assert sum(number for _, number in why.counts) == len(plain)
