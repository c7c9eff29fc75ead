"""Applications arrive and are taken away by their resource manager.

Refusals of seed 000 are made here: a gang in a FAIR leaf, a placeholderAsk
that no moment could satisfy. An application that already had bound pods
(`forced`) is never refused: what runs is counted, wherever it has to be.
"""

from __future__ import annotations

from muster_core.engine import ledger, lifecycle
from muster_core.model.config import QueueConfig
from muster_core.model.effects import (
    AllocationAnswer,
    ApplicationAccepted,
    ApplicationRejected,
    AskRelease,
    Effect,
    Release,
)
from muster_core.model.events import ApplicationRemoved, ClockKind
from muster_core.model.ids import QueuePath
from muster_core.model.policies import ApplicationOrder
from muster_core.model.release import Termination
from muster_core.model.resources import UNLIMITED
from muster_core.model.specs import ApplicationSpec
from muster_core.plan.placement import Chosen, choose_queue
from muster_core.world.applications import Application
from muster_core.world.queues import Queue
from muster_core.world.world import Partition, World


def add(partition: Partition, spec: ApplicationSpec, now_ns: int) -> list[Effect]:
    """Find the application its leaf queue, or refuse it with a reason."""
    known = partition.applications.get(spec.id)
    if known is not None:
        return _reject(partition, spec, f"application {spec.id} exists already, its state is {known.state}")
    chosen = choose_queue(partition.queues, partition.config.rules, spec)
    if not isinstance(chosen, Chosen):
        return _reject(partition, spec, chosen)
    reason = _gang_refusal(partition, spec, chosen.path)
    if reason:
        return _reject(partition, spec, reason)
    leaf = _open_queues(partition, chosen)
    app = Application(spec, leaf, partition.next_number(), spec.created_ns or now_ns)
    app.state_log.append((now_ns, app.state))
    partition.applications[spec.id] = app
    leaf.applications[spec.id] = None
    effects: list[Effect] = [ApplicationAccepted(partition.rm, spec.id)]
    wait_ns = spec.wait_timeout_ns or partition.timing.wait_timeout_ns
    if spec.is_gang and wait_ns:
        effects.append(lifecycle.set_clock(partition, app, ClockKind.WAIT, app.sequence, app.submitted_ns + wait_ns))
    return effects


def remove(world: World, partition: Partition, event: ApplicationRemoved, now_ns: int) -> list[Effect]:
    """Take the application away with all it has and wants; that is confirmed (semantics 4)."""
    app = partition.applications.get(event.application)
    if app is None:
        world.ignore("removal of an unknown application")
        return []
    why = "the application was removed"
    released: list[Release] = []
    asks = tuple(AskRelease(partition.id, app.id, key, Termination.STOPPED_BY_RM, why) for key in list(app.asks))
    for key in list(app.asks):
        ledger.unlink(partition, app, key)
    for allocation in list(app.allocations.values()):
        ledger.drop(partition, app, allocation)
        released.append(
            Release(partition.id, app.id, allocation.spec.key, allocation.id, Termination.STOPPED_BY_RM, why)
        )
    lifecycle.leave(partition, app)
    partition.history.append(app)
    if not released and not asks:
        return []
    return [AllocationAnswer(partition.rm, released=tuple(released), released_asks=asks)]


def quota_refusal(leaf: Queue, spec: ApplicationSpec) -> str:
    """Why no moment could satisfy the placeholderAsk on this queue's path; empty = one could."""
    for queue in leaf.path_up():
        excess = queue.max.excess(spec.placeholder_ask)
        if excess:
            name = min(excess)
            asked, bound = spec.placeholder_ask[name], queue.max.get(name)
            return (
                f"the gang asks for {name}={asked} in all (placeholderAsk), the maximum of queue {queue.path} is "
                f"{name}={bound}: it could never be scheduled; lower minMember or minResource, or raise the maximum"
            )
    return ""


def _gang_refusal(partition: Partition, spec: ApplicationSpec, path: QueuePath) -> str:
    if not spec.is_gang or spec.forced:
        return ""
    queue = partition.queues.get(path)
    if queue is not None and queue.is_leaf and queue.policies.order is ApplicationOrder.FAIR:
        return (
            f"queue {path} sorts its applications by fair share: a gang needs a leaf with application.sort.policy fifo"
        )
    while queue is None:  # a queue that is to be made: its nearest existing parent bounds it
        path = QueuePath(path.rpartition(".")[0])
        queue = partition.queues.get(path)
    return quota_refusal(queue, spec)


def _open_queues(partition: Partition, chosen: Chosen) -> Queue:
    for path in chosen.create:
        above, _, name = path.rpartition(".")
        parent = partition.queues.by_path[QueuePath(above)]
        is_parent = path != chosen.path
        partition.queues.add(parent, QueueConfig(name, parent=is_parent, max=UNLIMITED), managed=False)
    return partition.queues.by_path[chosen.path]


def _reject(partition: Partition, spec: ApplicationSpec, reason: str) -> list[Effect]:
    return [ApplicationRejected(partition.rm, spec.id, reason)]
