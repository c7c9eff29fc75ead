"""Each filter accepts what Kubernetes documents, and a node is counted under the first filter that rejects it."""

from dataclasses import replace

import pytest

from muster_core.extensions.placement_constraints import TOO_FEW
from muster_core.model.config import NodeOrder, NodeSort
from muster_core.model.constraints import (
    ANYWHERE,
    Constraints,
    PlacementConstraint,
    Requirement,
    Taint,
    Target,
    TargetOperator,
    Term,
    Toleration,
)
from muster_core.model.ids import NodeId
from muster_core.model.specs import HostPort, NodeSpec, PodOnNode, PodProperties
from muster_core.placement import node_search
from muster_core.placement.node_search import TARGETS, allowed, place, unschedulable_reason
from muster_core.placement.plugins import node_properties
from muster_core.placement.plugins.hooks import TOO_MANY
from muster_core.placement.plugins.tables import is_resolvable
from muster_core.placement.search.backtracking import place_all
from muster_core.placement.search.requests import Places, Shortage
from muster_core.state.nodes import NodeTable
from muster_core.state.snapshot import RequestShape, Snapshot
from tests.unit.builders import a_node, an_affinity, resources
from tests.unit.core.placement.tables import a_table, having, keep_tags, labelled, named, tainted

ZONES = a_table(
    labelled("a1", zone="a", cpus="4"), labelled("a2", zone="a", cpus="16"), labelled("b1", zone="b"), labelled("none")
)


def term(*expressions: tuple[str, str, tuple[str, ...]]) -> Term:
    return Term(expressions=tuple(Requirement(*expression) for expression in expressions))


@pytest.mark.parametrize(
    "expression, nodes",
    [
        (("zone", "In", ("a",)), "a1 a2"),
        (("zone", "In", ("a", "b")), "a1 a2 b1"),
        (("zone", "In", ("elsewhere",)), ""),
        (("zone", "NotIn", ("a",)), "b1 none"),
        (("zone", "NotIn", ("elsewhere",)), "a1 a2 b1 none"),
        (("zone", "Exists", ()), "a1 a2 b1"),
        (("zone", "DoesNotExist", ()), "none"),
        (("cpus", "Gt", ("4",)), "a2"),
        (("cpus", "Gt", ("3",)), "a1 a2"),
        (("cpus", "Lt", ("16",)), "a1"),
        (("cpus", "Lt", ("+17",)), "a1 a2"),
        (("cpus", "Gt", ("-1",)), "a1 a2"),
        (("zone", "Gt", ("1",)), ""),
        (("unknown", "In", ("a",)), ""),
        (("unknown", "NotIn", ("a",)), "a1 a2 b1 none"),
        (("unknown", "DoesNotExist", ()), "a1 a2 b1 none"),
        (("unknown", "Exists", ()), ""),
        # What Kubernetes would refuse holds nowhere.
        (("zone", "In", ()), ""),
        (("zone", "NotIn", ()), ""),
        (("zone", "Exists", ("a",)), ""),
        (("zone", "DoesNotExist", ("a",)), ""),
        (("cpus", "Gt", ("four",)), ""),
        (("cpus", "Gt", ("1", "2")), ""),
        (("cpus", "Lt", ("99999999999999999999",)), ""),
        (("zone", "in", ("a",)), ""),
    ],
)
def test_a_match_expression_means_what_kubernetes_documents(
    expression: tuple[str, str, tuple[str, ...]], nodes: str
) -> None:
    assert (
        named(node_properties.matches_node_affinity(Constraints(affinity=(term(expression),)), ZONES), ZONES) == nodes
    )


def field(operator: str, *values: str, key: str = "metadata.name") -> Term:
    return Term(fields=(Requirement(key, operator, values),))


@pytest.mark.parametrize(
    "terms, nodes",
    [
        ((), ""),
        ((Term(),), ""),
        ((Term(), term(("zone", "In", ("b",)))), "b1"),
        ((term(("zone", "In", ("a",)), ("cpus", "Gt", ("4",))),), "a2"),
        ((term(("zone", "In", ("b",))), term(("cpus", "Gt", ("4",)))), "a2 b1"),
        ((field("In", "a1"),), "a1"),
        ((field("NotIn", "a1"),), "a2 b1 none"),
        ((field("In", "gone"),), ""),
        ((field("In", "a1", "a2"),), ""),
        ((field("Exists", "a1"),), ""),
        ((field("In", "a1", key="metadata.namespace"),), ""),
        ((Term(term(("zone", "In", ("a",))).expressions, field("NotIn", "a1").fields),), "a2"),
    ],
)
def test_terms_are_ored_and_what_is_in_one_is_anded(terms: tuple[Term, ...], nodes: str) -> None:
    assert named(node_properties.matches_node_affinity(Constraints(affinity=terms), ZONES), ZONES) == nodes


def test_node_selector_and_affinity_must_both_hold() -> None:
    constraints = Constraints((("zone", "a"), ("cpus", "4")), (term(("cpus", "Exists", ())),))
    assert named(node_properties.matches_node_affinity(constraints, ZONES), ZONES) == "a1"
    assert named(node_properties.matches_node_affinity(Constraints((("zone", "c"),)), ZONES), ZONES) == ""
    assert named(node_properties.matches_node_affinity(ANYWHERE, ZONES), ZONES) == "a1 a2 b1 none"


DEDICATED = Taint("dedicated", "ml", "NoSchedule")


@pytest.mark.parametrize(
    "toleration, covers",
    [
        (Toleration("dedicated", "Equal", "ml", "NoSchedule"), True),
        (Toleration("dedicated", "", "ml", "NoSchedule"), True),
        (Toleration("dedicated", "Equal", "ml", ""), True),
        (Toleration("dedicated", "Exists", "", "NoSchedule"), True),
        (Toleration("", "Exists", "", ""), True),
        (Toleration("", "Exists", "", "NoExecute"), False),
        (Toleration("dedicated", "Equal", "web", "NoSchedule"), False),
        (Toleration("dedicated", "Equal", "ml", "NoExecute"), False),
        (Toleration("other", "Exists", "", ""), False),
        (Toleration("dedicated", "Gt", "ml", ""), False),
    ],
)
def test_a_toleration_means_what_kubernetes_documents(toleration: Toleration, *, covers: bool) -> None:
    assert node_properties.tolerates(toleration, DEDICATED) is covers


def test_one_untolerated_hard_taint_is_enough_to_refuse() -> None:
    table = a_table(
        tainted("clean"),
        tainted("soft", ("x", "", "PreferNoSchedule")),
        tainted("ml", ("dedicated", "ml", "NoSchedule")),
        tainted("both", ("dedicated", "ml", "NoSchedule"), ("broken", "", "NoExecute")),
    )
    tolerant = Constraints(tolerations=(Toleration("dedicated", "Exists"),))
    assert named(node_properties.tolerates_taints(ANYWHERE, table), table) == "clean soft"
    assert named(node_properties.tolerates_taints(tolerant, table), table) == "clean ml soft"


def test_only_the_named_node_is_allowed() -> None:
    assert named(node_properties.has_name(Constraints(node_name="b1"), ZONES), ZONES) == "b1"
    assert named(node_properties.has_name(Constraints(node_name="gone"), ZONES), ZONES) == ""


CORDON = Toleration("node.kubernetes.io/unschedulable", "Exists", "", "NoSchedule")


def made_for(*nodes: str) -> tuple[Term, ...]:
    """What the controller of DaemonSets writes: one term, one node."""
    return tuple(Term(fields=(Requirement("metadata.name", "In", (node,)),)) for node in nodes)


@pytest.mark.parametrize(
    "constraints, found",
    [
        (Constraints(tolerations=(CORDON,)), "n2"),
        (Constraints(affinity=made_for("n1")), "n2"),
        (Constraints(affinity=made_for("n1"), tolerations=(CORDON,)), "n1 n2"),
        (Constraints(affinity=made_for("n1"), tolerations=(Toleration("", "Exists"),)), "n1 n2"),
        (Constraints(affinity=made_for("n1"), tolerations=(Toleration("other", "Exists"),)), "n2"),
        (Constraints(affinity=(*made_for("n1"), Term()), tolerations=(CORDON,)), "n2"),
        (Constraints(affinity=(), tolerations=(CORDON,)), "n2"),
    ],
)
def test_a_drained_node_accepts_only_daemon_pods_that_tolerate_a_cordon(constraints: Constraints, found: str) -> None:
    """ADR 0018. The node affinity selects the node of a pod."""
    table = a_table(a_node("n1"), a_node("n2"))
    table.set_draining(NodeId("n1"), draining=True)
    assert named(node_properties.is_schedulable(constraints, table), table) == found


@pytest.mark.parametrize(
    "toleration, found",
    [
        (CORDON, "cordoned open"),
        (Toleration("", "Exists"), "cordoned open"),
        (Toleration("node.kubernetes.io/unschedulable", "Equal", "", ""), "cordoned open"),
        (Toleration("node.kubernetes.io/unschedulable", "Exists", "", "NoExecute"), "open"),
        (Toleration("other", "Exists"), "open"),
    ],
)
def test_a_cordoned_node_takes_pods_that_tolerate_the_cordon(toleration: Toleration, found: str) -> None:
    table = a_table(replace(a_node("cordoned"), cordoned=True), a_node("open"))
    table.set_draining(NodeId("cordoned"), draining=True)
    constraints = Constraints(tolerations=(toleration,))
    assert named(node_properties.allowed(constraints, table), table) == found
    table.update(a_node("cordoned"))
    assert named(node_properties.allowed(constraints, table), table) == "open"


def test_the_filters_have_the_order_and_messages_of_kube_scheduler() -> None:
    assert [(entry.name, entry.reason) for entry in node_properties.FILTERS] == [
        ("NodeName", "node(s) didn't satisfy plugin(s) [NodeAffinity NodeName]"),
        ("NodeName", "node(s) didn't satisfy plugin(s) [NodeName]"),
        ("NodeAffinity", "node(s) didn't satisfy plugin(s) [NodeAffinity]"),
        ("NodeUnschedulable", "node(s) were unschedulable"),
        ("TaintToleration", "node(s) had untolerated taint(s)"),
        ("NodeAffinity", "node(s) didn't match Pod's node affinity/selector"),
        ("NodeDeclaredFeatures", "node(s) didn't match Pod's required features"),
    ]
    assert not any(is_resolvable(entry.reason) for entry in node_properties.FILTERS)


@pytest.mark.parametrize(
    "terms, nodes",
    [
        ((field("In", "a1"),), "a1"),
        ((field("In", "a1"), field("In", "b1", "gone")), "a1 b1"),
        ((Term(fields=(*field("In", "a1", "a2").fields, *field("In", "a2", "b1").fields)),), "a2"),
        ((Term(term(("zone", "In", ("b",))).expressions, field("In", "a1").fields),), "a1"),
        ((field("In", "gone"),), ""),
        ((field("In", "a1"), term(("zone", "In", ("b",)))), "a1 a2 b1 none"),
        ((field("NotIn", "a1"),), "a1 a2 b1 none"),
        ((), "a1 a2 b1 none"),
        (None, "a1 a2 b1 none"),
    ],
)
def test_other_nodes_are_not_candidates_when_every_term_names_nodes(terms: tuple[Term, ...] | None, nodes: str) -> None:
    constraints = Constraints(affinity=terms)
    assert named(node_properties.is_candidate(constraints, ZONES), ZONES) == nodes
    assert node_properties.conflict(constraints) == ""


def test_a_pod_with_named_nodes_gets_a_separate_reason_for_all_other_nodes() -> None:
    table = a_table(labelled("n1"), labelled("n2"), tainted("n3", ("dedicated", "ml", "NoSchedule")))
    table.set_draining(NodeId("n2"), draining=True)
    text = unschedulable_reason(
        Snapshot(table), RequestShape(resources(vcore=1), Constraints(affinity=made_for("n2")))
    ).text()
    reasons = "1 node(s) were unschedulable, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]"
    assert text == f"0/3 nodes are available: {reasons}."


def test_conflicting_node_names_in_a_term_are_reported_without_a_node_count() -> None:
    both = Term(fields=(*field("In", "a1").fields, *field("In", "b1").fields))
    why = unschedulable_reason(Snapshot(ZONES), RequestShape(resources(vcore=1), Constraints(affinity=(both,))))
    assert why.text() == "0/4 nodes are available: pod affinity terms conflict."


def test_a_node_has_to_declare_every_feature_that_the_pod_makes_use_of() -> None:
    table = a_table(
        replace(a_node("all"), features=frozenset({"A", "B", "C"})),
        replace(a_node("some"), features=frozenset({"A"})),
        a_node("none"),
    )
    assert named(node_properties.declares_features(Constraints(features=("A", "B")), table), table) == "all"
    assert named(node_properties.declares_features(ANYWHERE, table), table) == "all none some"
    table.update(replace(a_node("some"), features=frozenset({"A", "B"})))
    assert named(node_properties.allowed(Constraints(features=("A", "B")), table), table) == "all some"


def test_features_are_checked_last() -> None:
    table = a_table(having("small", {"vcore": 1}), having("large", {"vcore": 9}))
    why = unschedulable_reason(Snapshot(table), RequestShape(resources(vcore=2), Constraints(features=("A",))))
    expected = "1 Insufficient cpu, 1 node(s) didn't match Pod's required features"
    assert why.text() == f"0/2 nodes are available: {expected}."


def test_filter_results_are_cached_until_a_node_property_changes() -> None:
    table = a_table(labelled("n1", zone="a"))
    asked = Constraints((("zone", "b"),))
    first = node_properties.allowed(asked, table)
    table.take(NodeId("n1"), table.available(NodeId("n1")))
    assert node_properties.allowed(asked, table) is first
    assert named(first, table) == ""
    table.update(labelled("n1", zone="b"))
    assert named(node_properties.allowed(asked, table), table) == "n1"
    table.add(replace(labelled("n2", zone="b")), draining=False)
    assert named(node_properties.allowed(asked, table), table) == "n1 n2"


# -- NodePorts: which ports are equal and in use, also between members of one plan.

EVERY = "0.0.0.0"  # noqa: S104 - what ports say, nobody listens there
HTTP = HostPort(EVERY, "TCP", 80)
REASON = "node(s) didn't have free ports for the requested pod ports"


def with_ports(*ports: HostPort) -> PodOnNode:
    return PodOnNode(facts=PodProperties(ports=ports))


def shape(*ports: HostPort, vcore: int = 1) -> RequestShape:
    return RequestShape(resources(vcore=vcore), pod_on_node=with_ports(*ports))


def nodes(*names: str) -> NodeTable:
    return a_table(*(having(name, {"vcore": 4}) for name in names))


@pytest.mark.parametrize(
    "wanted, taken, free",
    [
        (HTTP, HTTP, False),
        (HTTP, HostPort("10.0.0.1", "TCP", 80), False),
        (HostPort("10.0.0.1", "TCP", 80), HTTP, False),
        (HostPort("10.0.0.1", "TCP", 80), HostPort("10.0.0.1", "TCP", 80), False),
        (HostPort("10.0.0.1", "TCP", 80), HostPort("10.0.0.2", "TCP", 80), True),
        (HTTP, HostPort(EVERY, "UDP", 80), True),
        (HTTP, HostPort(EVERY, "TCP", 81), True),
        # Only 0.0.0.0 stands for every address, as in Kubernetes.
        (HTTP, HostPort("::", "TCP", 80), False),
        (HostPort("::", "TCP", 80), HostPort("::1", "TCP", 80), True),
    ],
)
def test_a_port_conflicts_if_protocol_number_and_address_overlap(
    wanted: HostPort, taken: HostPort, *, free: bool
) -> None:
    table = nodes("n1", "n2")
    table.pods_on_nodes.add(table.rows.row(NodeId("n1")), with_ports(taken))
    snapshot = Snapshot(table)
    assert node_search.fits_on(snapshot, shape(wanted), NodeId("n1")) is free
    assert node_search.fits_on(snapshot, shape(wanted), NodeId("n2"))
    table.pods_on_nodes.remove(table.rows.row(NodeId("n1")), with_ports(taken))
    assert node_search.fits_on(Snapshot(table), shape(wanted), NodeId("n1"))


def test_one_port_out_of_several_is_enough() -> None:
    table = nodes("n1")
    table.pods_on_nodes.add(table.rows.row(NodeId("n1")), with_ports(HTTP))
    request = shape(HostPort(EVERY, "TCP", 443), HTTP)
    assert node_search.unschedulable_reason(Snapshot(table), request).text() == f"0/1 nodes are available: 1 {REASON}."


def test_at_most_one_pod_of_a_shape_is_placed_on_a_node() -> None:
    table, sort = nodes("n1", "n2", "n3"), NodeSort()
    snapshot = Snapshot(table)
    assert node_search.place(snapshot, shape(HTTP), 5, sort) == [("n1", 1), ("n2", 1), ("n3", 1)]
    # Members of another shape in the same plan conflict with them, and ports are reported before resources.
    other = shape(HostPort("10.0.0.1", "TCP", 80), vcore=9)
    assert node_search.unschedulable_reason(snapshot, other).counts == ((REASON, 3),)


def test_a_plan_may_use_the_host_port_of_an_assumed_victim() -> None:
    table = nodes("n1")
    row = table.rows.row(NodeId("n1"))
    table.pods_on_nodes.add(row, with_ports(HTTP))
    snapshot = Snapshot(table)
    assert not node_search.fits_on(snapshot, shape(HTTP), NodeId("n1"))
    snapshot.enter(row, with_ports(HTTP), -1)
    assert node_search.fits_on(snapshot, shape(HTTP), NodeId("n1"))


# -- PlacementConstraint: node targets, affinity to other allocations, and the reason when no node fits.

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
