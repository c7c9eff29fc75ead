"""Nodes in zones, pods with labels and spread constraints, in few words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from muster_core.model.company import NAMESPACE, TERMINATING, Company, Selector, Spread
from muster_core.model.constraints import ANYWHERE, Constraints, Taint
from muster_core.model.facts import Occupant, PodFacts
from muster_core.model.ids import NodeId
from muster_core.model.placement import Tags, Target
from muster_core.plan.shape import Shape
from muster_core.world.nodes import NodeTable
from tests.unit.builders import a_node, resources
from tests.unit.core.plan.tables import keep_tags

HOST, ZONE = "kubernetes.io/hostname", "zone"
KEYS = ("app", NAMESPACE, TERMINATING)
WEB = (Target("app", values=("web",)),)
DEDICATED = Taint("dedicated", "batch", "NoSchedule")


def a_pod(app: str = "web", namespace: str = "ns", *, terminating: bool = False) -> Tags:
    """The tags that are read of it."""
    tags = (("app", app), (NAMESPACE, namespace))
    return (*tags, (TERMINATING, "true")) if terminating else tags


def spread(
    topology: str = ZONE,
    *,
    skew: int = 1,
    selector: Selector = WEB,
    required: bool = True,
    domains: int = 1,
    honors_affinity: bool = True,
    honors_taints: bool = False,
) -> Spread:
    """Of a pod in the namespace `ns`."""
    return Spread(topology, skew, selector, "ns", required, domains, honors_affinity, honors_taints)


def spreading(*constraints: Spread, app: str = "web", where: Constraints = ANYWHERE) -> Shape:
    """A pod of one core with these constraints."""
    return Shape(resources(vcore=1000), where, occupant=Occupant(a_pod(app), PodFacts(Company(spread=constraints))))


def zones(*names: str, labels: Mapping[str, str] | None = None, vcore: int = 100_000) -> NodeTable:
    """Nodes n0, n1, … in these zones, empty = in none; each has its name as its host's."""
    table = NodeTable()
    keep_tags(table, KEYS)
    for index, zone in enumerate(names):
        spec = a_node(f"n{index}", vcore=vcore)
        own = {HOST: spec.id, **({ZONE: zone} if zone else {}), **(labels or {})}
        table.add(replace(spec, labels=own), draining=False)
    return table


def put(table: NodeTable, node: str, *pods: Tags) -> None:
    """They run on the node."""
    for pod in pods:
        table.occupants.add(table.rows.row(NodeId(node)), Occupant(pod))
