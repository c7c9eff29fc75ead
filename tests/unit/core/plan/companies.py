"""Pods with terms on nodes with zones, for the tests of inter-pod affinity."""

from __future__ import annotations

from collections.abc import Iterable

from muster_core.model.company import NAMESPACE, Company, PodTerm, Selector, WeighedTerm
from muster_core.model.facts import NO_FACTS, Occupant, PodFacts
from muster_core.model.ids import NodeId
from muster_core.model.placement import Target, TargetOperator
from muster_core.plan.shape import Shape
from muster_core.world.nodes import NodeTable
from tests.unit.builders import a_node, resources
from tests.unit.core.plan.tables import a_table, keep_tags

APP, TIER = "kubernetes.io/label/app", "kubernetes.io/label/tier"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def selecting(**labels: str) -> Selector:
    """A label selector that asks for these labels."""
    return tuple(Target(f"kubernetes.io/label/{key}", values=(value,)) for key, value in labels.items())


def among(key: str, *values: str, operator: TargetOperator = TargetOperator.IN) -> Selector:
    """A namespace selector."""
    return (Target(key, operator, values),)


def term(app: str = "web", topology: str = ZONE, namespaces: Iterable[str] = ("red",), of: Selector = None) -> PodTerm:
    """Pods with this label in the namespaces, and in those that `of` selects."""
    return PodTerm(topology, selecting(app=app), tuple(namespaces), of)


def company(
    near: Iterable[PodTerm] = (), apart: Iterable[PodTerm] = (), preferred: Iterable[tuple[int, PodTerm]] = ()
) -> Company:
    """The terms of a pod."""
    return Company(tuple(near), tuple(apart), tuple(WeighedTerm(weight, one) for weight, one in preferred))


def a_pod(
    app: str = "web",
    *,
    namespace: str = "red",
    near: Iterable[PodTerm] = (),
    apart: Iterable[PodTerm] = (),
    preferred: Iterable[tuple[int, PodTerm]] = (),
) -> Occupant:
    """A pod as others see it."""
    terms = company(near, apart, preferred)
    facts = PodFacts(terms) if terms != Company() else NO_FACTS
    return Occupant(((APP, app), (NAMESPACE, namespace)), facts)


def wanting(pod: Occupant, vcore: int = 1000) -> Shape:
    """Pods like this one, to be placed."""
    return Shape(resources(vcore=vcore), occupant=pod)


def zones(*names: str) -> NodeTable:
    """n0, n1, ... with 8 cores, one in each of these zones; an empty name = without one."""
    specs = [
        a_node(f"n{index}", vcore=8000, labels={HOST: f"n{index}"} | ({ZONE: name} if name else {}))
        for index, name in enumerate(names)
    ]
    table = a_table(*specs)
    keep_tags(table, (APP, NAMESPACE))
    return table


def put(table: NodeTable, node: str, *pods: Occupant) -> None:
    """They are there; their room is not taken."""
    for pod in pods:
        table.occupants.add(table.rows.row(NodeId(node)), pod)
