"""Builders of nodes in zones and of pods with labels and spread constraints."""

from collections.abc import Mapping
from dataclasses import replace

from muster_core.model.constraints import (
    ANYWHERE,
    NAMESPACE,
    TERMINATING,
    Constraints,
    InterPodConstraints,
    Selector,
    Tags,
    Taint,
    Target,
    TopologySpreadConstraint,
)
from muster_core.model.ids import NodeId
from muster_core.model.specs import PodOnNode, PodProperties
from muster_core.state.nodes import NodeTable
from muster_core.state.snapshot import RequestShape
from tests.unit.builders import a_node, resources
from tests.unit.core.placement.tables import keep_tags

HOST, ZONE = "kubernetes.io/hostname", "zone"
KEYS = ("app", NAMESPACE, TERMINATING)
WEB = (Target("app", values=("web",)),)
DEDICATED = Taint("dedicated", "batch", "NoSchedule")


def a_pod(app: str = "web", namespace: str = "ns", *, terminating: bool = False) -> Tags:
    """Return the tags of a pod."""
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
) -> TopologySpreadConstraint:
    """Return a spread constraint of a pod in the namespace `ns`."""
    return TopologySpreadConstraint(topology, skew, selector, "ns", required, domains, honors_affinity, honors_taints)


def spreading(*constraints: TopologySpreadConstraint, app: str = "web", where: Constraints = ANYWHERE) -> RequestShape:
    """Return a request for a pod of one core with these constraints."""
    return RequestShape(
        resources(vcore=1000),
        where,
        pod_on_node=PodOnNode(a_pod(app), PodProperties(InterPodConstraints(spread=constraints))),
    )


def zones(*names: str, labels: Mapping[str, str] | None = None, vcore: int = 100_000) -> NodeTable:
    """Return nodes n0, n1, … in these zones (empty: no zone). The hostname of each is its name."""
    table = NodeTable()
    keep_tags(table, KEYS)
    for index, zone in enumerate(names):
        spec = a_node(f"n{index}", vcore=vcore)
        own = {HOST: spec.id, **({ZONE: zone} if zone else {}), **(labels or {})}
        table.add(replace(spec, labels=own), draining=False)
    return table


def put(table: NodeTable, node: str, *pods: Tags) -> None:
    """Put pods on the node."""
    for pod in pods:
        table.pods_on_nodes.add(table.rows.row(NodeId(node)), PodOnNode(pod))
