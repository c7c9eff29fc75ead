"""PlacementConstraint: node targets, affinity to other allocations, and the reason when no node fits."""

from dataclasses import replace

import pytest

from muster_core.extensions.placement_constraints import TOO_FEW
from muster_core.model.config import NodeOrder, NodeSort
from muster_core.model.constraints import PlacementConstraint, Target, TargetOperator
from muster_core.model.ids import NodeId
from muster_core.model.specs import NodeSpec, PodOnNode
from muster_core.placement.node_search import TARGETS, allowed, place, unschedulable_reason
from muster_core.placement.plugins.hooks import TOO_MANY
from muster_core.placement.search.backtracking import place_all
from muster_core.placement.search.requests import Places, Shortage
from muster_core.state.nodes import NodeTable
from muster_core.state.snapshot import RequestShape, Snapshot
from tests.unit.builders import a_node, an_affinity, resources
from tests.unit.core.placement.tables import a_table, keep_tags, named

FAIR = NodeSort()
WEB = (("app", "web"),)
DB = (("app", "db"),)
ONE_WEB, ONE_DB = PodOnNode(WEB), PodOnNode(DB)


def with_attributes(name: str, **attributes: str) -> NodeSpec:
    return replace(a_node(name), attributes=attributes, labels={"disk": "ssd"} if name == "n2" else {})


def zones(*names: str) -> NodeTable:
    """Nodes n1, n2, … in these zones; allocations are counted by the tag `app`."""
    table = a_table(*(with_attributes(f"n{index}", zone=zone) for index, zone in enumerate(names, 1)))
    keep_tags(table, ["app"])
    return table


def on_nodes(*targets: Target) -> RequestShape:
    return RequestShape(resources(vcore=1000), placement=PlacementConstraint(targets))


@pytest.mark.parametrize(
    "target, expected",
    [
        (Target("arch", values=("arm", "x86")), "n1 n2"),
        (Target("arch", TargetOperator.NOT_IN, ("arm",)), "n2 n3"),
        (Target("arch", TargetOperator.EXIST), "n1 n2"),
        (Target("arch", TargetOperator.NOT_EXIST), "n3"),
        (Target("disk", values=("ssd",)), "n2"),
        (Target("si/hostname", values=("n3",)), "n3"),
        (Target("nothing has it", TargetOperator.NOT_IN, ("a",)), "n1 n2 n3"),
    ],
)
def test_a_target_names_an_attribute_a_label_or_the_host(target: Target, expected: str) -> None:
    nodes = with_attributes("n1", arch="arm"), with_attributes("n2", arch="x86"), with_attributes("n3")
    table = a_table(*nodes)
    assert named(allowed(Snapshot(table), on_nodes(target)), table) == expected


def test_all_node_targets_must_match_and_changed_attributes_are_considered() -> None:
    table = a_table(with_attributes("n1", arch="arm"), with_attributes("n2", arch="arm"))
    shape = on_nodes(Target("arch", values=("arm",)), Target("disk", TargetOperator.EXIST))
    assert named(allowed(Snapshot(table), shape), table) == "n2"
    epoch = table.epoch
    table.update(replace(with_attributes("n1", arch="arm", disk="hdd")))
    assert table.epoch > epoch
    assert named(allowed(Snapshot(table), shape), table) == "n1 n2"
    table.update(with_attributes("n2", arch="x86"))
    assert named(allowed(Snapshot(table), shape), table) == "n1"
    table.remove(NodeId("n1"))
    table.add(with_attributes("n4", arch="arm", disk="hdd"), draining=False)
    assert named(allowed(Snapshot(table), shape), table) == "n4"


def test_the_documented_anti_affinity_example_places_one_pod_per_host() -> None:
    table = zones("a", "a", "b")
    shape = RequestShape(
        resources(vcore=1000), placement=an_affinity("app", "web", scope="hostname", most=1), pod_on_node=ONE_WEB
    )
    snapshot = Snapshot(table)
    assert place(snapshot, shape, 5, FAIR) == [(NodeId("n1"), 1), (NodeId("n2"), 1), (NodeId("n3"), 1)]
    assert unschedulable_reason(snapshot, shape).counts == ((TOO_MANY, 3),)


@pytest.mark.parametrize("order", list(NodeOrder))
def test_a_group_of_nodes_never_exceeds_its_maximum_with_any_node_order(order: NodeOrder) -> None:
    table = zones("a", "a", "b", "b")
    shape = RequestShape(resources(vcore=1000), placement=an_affinity("app", "web", most=3), pod_on_node=ONE_WEB)
    placed = dict(place(Snapshot(table), shape, 9, NodeSort(order)))
    assert placed[NodeId("n1")] + placed.get(NodeId("n2"), 0) == 3
    assert placed[NodeId("n3")] + placed.get(NodeId("n4"), 0) == 3


def test_an_ask_is_placed_only_next_to_the_allocations_that_it_requires() -> None:
    table = zones("a", "b")
    shape = RequestShape(resources(vcore=1000), placement=an_affinity("app", "db", least=1), pod_on_node=ONE_WEB)
    assert place(Snapshot(table), shape, 1, FAIR) == []
    assert unschedulable_reason(Snapshot(table), shape).counts == ((TOO_FEW, 2),)
    table.pods_on_nodes.tags.add(table.rows.row(NodeId("n2")), DB)
    assert place(Snapshot(table), shape, 2, FAIR) == [(NodeId("n2"), 2)]


def test_pods_with_affinity_to_each_other_stay_in_the_group_of_the_first_pod() -> None:
    table = zones("a", "b", "b")
    shape = RequestShape(resources(vcore=2000), placement=an_affinity("app", "web", least=2), pod_on_node=ONE_WEB)
    placed = dict(place(Snapshot(table), shape, 9, FAIR))
    assert placed == {NodeId("n1"): 2}


def test_a_preference_is_followed_if_possible_and_blocks_no_placement() -> None:
    table = zones("a", "b")
    shape = RequestShape(
        resources(vcore=1000),
        placement=an_affinity("app", "web", scope="hostname", most=1, required=False),
        pod_on_node=ONE_WEB,
    )
    assert dict(place(Snapshot(table), shape, 5, NodeSort(NodeOrder.BINPACKING))) == {NodeId("n1"): 4, NodeId("n2"): 1}
    near = RequestShape(resources(vcore=1000), placement=an_affinity("app", "db", least=1, required=False))
    table.pods_on_nodes.tags.add(table.rows.row(NodeId("n2")), DB)
    assert place(Snapshot(table), near, 1, FAIR) == [(NodeId("n2"), 1)]


def test_a_node_without_the_scope_is_in_no_group() -> None:
    table = zones("a")
    table.add(a_node("n2"), draining=False)
    few = RequestShape(resources(vcore=1000), placement=an_affinity("app", "web", most=1), pod_on_node=ONE_WEB)
    assert dict(place(Snapshot(table), few, 9, FAIR)) == {NodeId("n1"): 1, NodeId("n2"): 4}
    for node in ("n1", "n2"):
        table.pods_on_nodes.tags.add(table.rows.row(NodeId(node)), WEB)
    assert place(Snapshot(table), few, 1, FAIR) == [(NodeId("n2"), 1)]
    table.pods_on_nodes.tags.add(table.rows.row(NodeId("n2")), DB)
    near = RequestShape(resources(vcore=1000), placement=an_affinity("app", "db", least=1))
    assert place(Snapshot(table), near, 1, FAIR) == []


def test_members_of_one_gang_see_each_other_in_any_order() -> None:
    table = zones("a", "b")
    workers = RequestShape(resources(vcore=1000), placement=an_affinity("app", "db", least=1), pod_on_node=ONE_WEB)
    master = RequestShape(
        resources(vcore=4000), placement=an_affinity("app", "db", most=1, scope="hostname"), pod_on_node=ONE_DB
    )
    answer = place_all(Snapshot(table), [(workers, 2), (master, 1)], FAIR)
    assert isinstance(answer, Shortage)  # the master fills its node and is alone in its zone
    table.add(with_attributes("n3", zone="a"), draining=False)
    answer = place_all(Snapshot(table), [(workers, 2), (master, 1)], FAIR)
    assert isinstance(answer, Places)
    assert answer.per_demand == (((NodeId("n3"), 2),), ((NodeId("n1"), 1),))


def test_every_node_is_counted_once_under_what_refuses_it() -> None:
    table = zones("a", "b", "c")
    table.take(NodeId("n2"), resources(vcore=4000))
    table.pods_on_nodes.tags.add(table.rows.row(NodeId("n3")), WEB)
    constraint = replace(an_affinity("app", "web", most=0), nodes=(Target("zone", values=("b", "c")),))
    counts = dict(
        unschedulable_reason(Snapshot(table), RequestShape(resources(vcore=1000), placement=constraint)).counts
    )
    assert counts == {TARGETS: 1, "Insufficient cpu": 1, TOO_MANY: 1}
