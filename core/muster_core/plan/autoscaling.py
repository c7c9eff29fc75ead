"""What is outstanding for lack of nodes: what an autoscaler may help with (seed 001, AutoScalingMetrics).

Asks that a queue's quota, a limit or another's turn holds back are left out, and
so are those that no node lacks a resource for (their own constraints refuse
every node): more nodes of the same kinds would not help them. Computed from
classes, on demand. Pure: reads the world, changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from muster_core.model.ids import PartitionId
from muster_core.model.placement import Target, TargetOperator
from muster_core.model.resources import Resources
from muster_core.model.shortfall import Lack, Shortfall
from muster_core.plan.feasibility import resources_fit
from muster_core.world.applications import Application, AskClass
from muster_core.world.world import Partition

_LACKS_NODES: Final = (Lack.NODES, Lack.CLUSTER)
#: Labels, and the attribute, by which an ask names the kind of machine it wants.
_INSTANCE_KEYS: Final = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type", "si/instance-type")


@dataclass(frozen=True, slots=True)
class Outstanding:
    """`count` places of one shape that no node has. `instance`: the kind of machine asked for; empty = any."""

    partition: PartitionId
    resources: Resources
    instance: str
    count: int
    applications: int

    @property
    def id(self) -> str:
        """Unique in a partition, and the same as long as shape and instance are."""
        amounts = ",".join(f"{name}={amount}" for name, amount in sorted(self.resources.items()))
        return f"{amounts}@{self.instance}" if self.instance else amounts


def outstanding(partition: Partition) -> list[Outstanding]:
    """Per shape and kind of machine, sorted by id."""
    counts: dict[tuple[Resources, str], int] = {}
    apps: dict[tuple[Resources, str], int] = {}
    for path in partition.waiting:
        for name in partition.queues.by_path[path].waiting:
            app = partition.applications[name]
            for kind, count in _short_of_nodes(app):
                key = (kind.resources, _instance(kind))
                counts[key] = counts.get(key, 0) + count
                apps[key] = apps.get(key, 0) + 1
    found = [
        Outstanding(partition.id, resources, instance, count, apps[resources, instance])
        for (resources, instance), count in counts.items()
    ]
    return sorted(found, key=lambda one: one.id)


def _short_of_nodes(app: Application) -> list[tuple[AskClass, int]]:
    """The classes of the application that wait for nodes, and how many places each."""
    return [
        (kind, _wanted(app, kind))
        for kind, why in app.refusals.items()
        if why.lack in _LACKS_NODES and _is_about_resources(kind, why)
    ]


def _wanted(app: Application, kind: AskClass) -> int:
    keys = app.waiting[kind]
    return sum(app.asks[key].left for key in keys) if app.has_multiple else len(keys)


def _is_about_resources(kind: AskClass, why: Shortfall) -> bool:
    """Some node has too little of what is asked, or there is none at all."""
    if not why.nodes:
        return True
    reasons = {resources_fit.reason(name) for name in kind.resources}
    return any(reason in reasons for reason, _ in why.counts)


def _is_one(target: Target) -> bool:
    return target.operator is TargetOperator.IN and len(target.values) == 1


def _instance(kind: AskClass) -> str:
    """What the ask's node selector, or its placement constraint, says of the kind of machine."""
    wanted = dict(kind.constraints.node_selector)
    if kind.placement is not None:
        wanted |= {target.key: target.values[0] for target in kind.placement.nodes if _is_one(target)}
    return next((wanted[key] for key in _INSTANCE_KEYS if key in wanted), "")
