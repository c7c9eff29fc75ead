"""Requests that are pending because nodes are full: input for an autoscaler."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from muster_core.model.constraints import Target, TargetOperator
from muster_core.model.decisions import ReasonKind, UnschedulableReason
from muster_core.model.ids import ApplicationId, PartitionId
from muster_core.model.resources import Resources
from muster_core.placement.filters import resources
from muster_core.state.applications import Application
from muster_core.state.request_classes import AskClass
from muster_core.state.scheduler_state import Partition

_LACKS_NODES: Final = (ReasonKind.NODES, ReasonKind.CLUSTER)

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
    return next(found for found in outstanding_by_leaf(partition) if found is not None)


def outstanding_by_leaf(partition: Partition) -> Iterator[list[Outstanding] | None]:
    """None after each leaf, and at last what `outstanding` returns: in between the world may change."""
    found: dict[_Key, _Sum] = {}
    # Equal classes of many applications were refused for one and the same reason: asked once. The reason is kept,
    # lest another takes its identity.
    known: dict[tuple[AskClass, int], tuple[_Sum, UnschedulableReason]] = {}
    for path in list(partition.waiting):
        queue = partition.queues.by_path.get(path)
        for name in () if queue is None else queue.waiting:
            app = partition.applications[name]
            for kind, why in app.refusals.items():
                if why.lack not in _LACKS_NODES:
                    continue
                memo = kind, id(why)
                if memo not in known:
                    known[memo] = _sum_of(found, kind, why), why
                total, _ = known[memo]
                if total is not _NOWHERE:
                    total.count += _wanted(app, kind)
                    total.applications[name] = None
        yield None
    yield sorted(
        (
            Outstanding(partition.id, resources, instance, total.count, len(total.applications))
            for (resources, instance), total in found.items()
        ),
        key=lambda one: one.id,
    )


_Key = tuple[Resources, str]


@dataclass(slots=True)
class _Sum:
    """How many places of one shape, and who wants them."""

    count: int = 0
    applications: dict[ApplicationId, None] = field(default_factory=dict)


#: Of a class that is not counted.
_NOWHERE: Final = _Sum()


def _sum_of(found: dict[_Key, _Sum], kind: AskClass, why: UnschedulableReason) -> _Sum:
    """Where a class is counted."""
    if not _is_about_resources(kind, why):
        return _NOWHERE
    return found.setdefault((kind.resources, _instance(kind)), _Sum())


def _wanted(app: Application, kind: AskClass) -> int:
    keys = app.waiting[kind]
    return sum(app.asks[key].left for key in keys) if app.has_multiple else len(keys)


def _is_about_resources(kind: AskClass, why: UnschedulableReason) -> bool:
    """Some node has too little of what is asked, or there is none at all."""
    if not why.nodes:
        return True
    reasons = {resources.insufficient_resources(name) for name in kind.resources}
    return any(reason in reasons for reason, _ in why.counts)


def _is_one(target: Target) -> bool:
    return target.operator is TargetOperator.IN and len(target.values) == 1


def _instance(kind: AskClass) -> str:
    """What the ask's node selector, or its placement constraint, says of the kind of machine."""
    wanted = dict(kind.constraints.node_selector)
    if kind.placement is not None:
        wanted |= {target.key: target.values[0] for target in kind.placement.nodes if _is_one(target)}
    return next((wanted[key] for key in _INSTANCE_KEYS if key in wanted), "")
