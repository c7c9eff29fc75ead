"""Each filter accepts what Kubernetes documents, and a node is counted under the first filter that rejects it."""

from dataclasses import replace

import pytest

from muster_core.model.constraints import ANYWHERE, Constraints, Requirement, Taint, Term, Toleration
from muster_core.model.ids import NodeId
from muster_core.placement.node_search import unschedulable_reason
from muster_core.placement.plugins import node_properties
from muster_core.placement.plugins.tables import is_resolvable
from muster_core.state.snapshot import RequestShape, Snapshot
from tests.unit.builders import a_node, resources
from tests.unit.core.placement.tables import a_table, having, labelled, named, tainted

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
