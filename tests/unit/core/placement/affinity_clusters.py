"""Builders of pods with affinity terms and of nodes with zones, for the tests of inter-pod affinity."""

from collections.abc import Iterable

from muster_core.model.constraints import (
    NAMESPACE,
    InterPodConstraints,
    PodTerm,
    Selector,
    Target,
    TargetOperator,
    WeightedPodTerm,
)
from muster_core.model.ids import NodeId
from muster_core.model.specs import NO_PROPERTIES, PodOnNode, PodProperties
from muster_core.state.nodes import NodeTable
from muster_core.state.snapshot import RequestShape
from tests.unit.builders import a_node, resources
from tests.unit.core.placement.tables import a_table, keep_tags

APP, TIER = "kubernetes.io/label/app", "kubernetes.io/label/tier"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def selecting(**labels: str) -> Selector:
    """Return a label selector that requires these labels."""
    return tuple(Target(f"kubernetes.io/label/{key}", values=(value,)) for key, value in labels.items())


def among(key: str, *values: str, operator: TargetOperator = TargetOperator.IN) -> Selector:
    """Return a namespace selector with one expression."""
    return (Target(key, operator, values),)


def term(app: str = "web", topology: str = ZONE, namespaces: Iterable[str] = ("red",), of: Selector = None) -> PodTerm:
    """Return a term for pods with this label in the namespaces, and in those that `of` selects."""
    return PodTerm(topology, selecting(app=app), tuple(namespaces), of)


def inter_pod(
    affinity: Iterable[PodTerm] = (),
    anti_affinity: Iterable[PodTerm] = (),
    preferred: Iterable[tuple[int, PodTerm]] = (),
) -> InterPodConstraints:
    """Return the terms of a pod. `affinity`: affinity; `anti_affinity`: anti-affinity."""
    return InterPodConstraints(
        tuple(affinity), tuple(anti_affinity), tuple(WeightedPodTerm(weight, one) for weight, one in preferred)
    )


def a_pod(
    app: str = "web",
    *,
    namespace: str = "red",
    affinity: Iterable[PodTerm] = (),
    anti_affinity: Iterable[PodTerm] = (),
    preferred: Iterable[tuple[int, PodTerm]] = (),
) -> PodOnNode:
    """Return a pod on a node, as terms of other pods read it."""
    terms = inter_pod(affinity, anti_affinity, preferred)
    facts = PodProperties(terms) if terms != InterPodConstraints() else NO_PROPERTIES
    return PodOnNode(((APP, app), (NAMESPACE, namespace)), facts)


def wanting(pod: PodOnNode, vcore: int = 1000) -> RequestShape:
    """Return a request for pods like this one."""
    return RequestShape(resources(vcore=vcore), pod_on_node=pod)


def zones(*names: str) -> NodeTable:
    """Return nodes n0, n1, ... with 8 cores, one in each of these zones; an empty name means no zone."""
    specs = [
        a_node(f"n{index}", vcore=8000, labels={HOST: f"n{index}"} | ({ZONE: name} if name else {}))
        for index, name in enumerate(names)
    ]
    table = a_table(*specs)
    keep_tags(table, (APP, NAMESPACE))
    return table


def put(table: NodeTable, node: str, *pods: PodOnNode) -> None:
    """Put pods on the node without using its resources."""
    for pod in pods:
        table.pods_on_nodes.add(table.rows.row(NodeId(node)), pod)
