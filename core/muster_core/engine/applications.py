"""Applications arrive and are taken away by their resource manager.

Refusals of seed 000 are made here: a gang in a FAIR leaf, a placeholderAsk
that no moment could satisfy. An application that already had bound pods
(`forced`) is never refused: what runs is counted, wherever it has to be.
"""

from __future__ import annotations

from muster_core.engine import affinity, gangs, history, ledger, lifecycle, notes, podless, queues, quota
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
from muster_core.model.release import Termination
from muster_core.model.specs import ApplicationSpec, NamespaceQuota
from muster_core.model.states import APPLICATION, ApplicationEvent, follow
from muster_core.plan.impossible import bounds_of, gang_obstacle, obstacle
from muster_core.plan.placement import Chosen, choose_queue
from muster_core.world.applications import Application
from muster_core.world.queues import Queue, nowhere
from muster_core.world.world import Partition, World


def add(partition: Partition, spec: ApplicationSpec, now_ns: int) -> list[Effect]:
    """Find the application its leaf queue, or refuse it with a reason."""
    known = partition.applications.get(spec.id)
    if spec.is_renewal:
        return _renew(partition, known, spec, now_ns) if known is not None else []
    if partition.is_closing:
        return _reject(partition, spec, now_ns, f"partition {partition.id} is being removed")
    if known is not None:
        return _reject(partition, spec, now_ns, f"application {spec.id} exists already, its state is {known.state}")
    spec = podless.summed(spec)
    chosen = choose_queue(partition.queues, partition.config.rules, spec)
    if not isinstance(chosen, Chosen):
        return _reject(partition, spec, now_ns, chosen)
    on_demand = queues.leaf_on_demand(partition.queues, chosen.path, spec.quota) if chosen.create else None
    reason = _gang_refusal(partition, spec, chosen.path, on_demand)
    if reason:
        return _reject(partition, spec, now_ns, reason)
    if on_demand is not None:
        return _enter(partition, queues.open_leaf(partition, chosen, on_demand), spec, now_ns)
    leaf = partition.queues.by_path[chosen.path]
    # It is in before a gang may leave: the leaf is never empty in between.
    return [*_enter(partition, leaf, spec, now_ns), *_retune(partition, leaf, spec.quota, now_ns)]


def _enter(partition: Partition, leaf: Queue, spec: ApplicationSpec, now_ns: int) -> list[Effect]:
    app = Application(spec, leaf, partition.next_number(), spec.created_ns or now_ns)
    app.state_log.append((now_ns, app.state))
    partition.applications[spec.id] = app
    affinity.announce(partition, spec.members)
    leaf.applications[spec.id] = None
    notes.app_came(partition, app)
    effects: list[Effect] = [ApplicationAccepted(partition.rm, spec.id)]
    wait_ns = spec.wait_timeout_ns or partition.timing.wait_timeout_ns
    if spec.is_gang and wait_ns:
        effects.append(lifecycle.set_clock(partition, app, ClockKind.WAIT, app.sequence, app.submitted_ns + wait_ns))
    if not spec.is_podless:
        return effects
    if podless.refusal(partition, spec):  # it had bound pods when it came: it goes on without places
        app.gang.over = True
        return effects
    return effects + podless.ask(partition, app, now_ns)


def _renew(partition: Partition, app: Application, spec: ApplicationSpec, now_ns: int) -> list[Effect]:
    """The namespace says something else: a leaf on demand becomes what it would be if it were made now. One that it
    shares with other namespaces keeps what this one does not say.

    Differs: YuniKorn hears of it with the next application, and of an annotation that was removed never.
    """
    leaf, said = app.queue, spec.quota
    sharers = (partition.applications[name].spec.namespace for name in leaf.applications)
    if all(namespace == spec.namespace for namespace in sharers):
        fresh = queues.leaf_on_demand(partition.queues, leaf.path, said)
        said = NamespaceQuota(max=fresh.max, guaranteed=fresh.guaranteed, max_applications=fresh.max_applications)
    return _retune(partition, leaf, said, now_ns)


def _retune(partition: Partition, leaf: Queue, said: NamespaceQuota, now_ns: int) -> list[Effect]:
    """Apply the namespace's quota to the leaf; a waiting gang that it makes impossible fails (semantics 11)."""
    before, was = leaf.max, {leaf.path: quota.before(partition, leaf)}
    if not queues.apply_quota(partition, leaf, said) or leaf.max == before:
        return []
    effects = quota.reconsider(partition, was, now_ns)
    for app in [partition.applications[name] for name in leaf.applications]:
        was_possible = before.allows(app.spec.placeholder_ask)
        if app.is_reserving and was_possible and (reason := obstacle(app)):
            effects += gangs.make_impossible(partition, app, now_ns, f"the quota of its namespace changed: {reason}")
    return effects


def remove(world: World, partition: Partition, event: ApplicationRemoved, now_ns: int) -> list[Effect]:
    """Take the application away with all it has and wants; that is confirmed (semantics 4)."""
    app = partition.applications.get(event.application)
    if app is None:
        world.ignore("removal of an unknown application")
        return []
    why = "the application was removed"
    released: list[Release] = []
    told = [key for key, ask in app.asks.items() if not ask.spec.podless]
    asks = tuple(AskRelease(partition.id, app.id, key, Termination.STOPPED_BY_RM, why) for key in told)
    for key in list(app.asks):
        ledger.unlink(partition, app, key)
    for allocation in list(app.allocations.values()):
        ledger.drop(partition, app, allocation, now_ns)
        if not allocation.spec.podless:
            key = allocation.spec.key
            released.append(Release(partition.id, app.id, key, allocation.id, Termination.STOPPED_BY_RM, why))
    lifecycle.leave(partition, app)
    kept = history.remember(partition, app, now_ns)
    if not released and not asks:
        return kept
    return [AllocationAnswer(partition.rm, released=tuple(released), released_asks=asks), *kept]


def _gang_refusal(partition: Partition, spec: ApplicationSpec, path: QueuePath, on_demand: QueueConfig | None) -> str:
    """Why a gang can never have its places there; `on_demand`: what a leaf that is to be made will be."""
    if not spec.is_gang or spec.forced:
        return ""
    if refused := podless.refusal(partition, spec):
        return refused
    if on_demand is not None:
        above = bounds_of(queues.nearest(partition.queues, path))
        return gang_obstacle(spec, on_demand.policies.order, [(path, on_demand.max), *above])
    leaf = partition.queues.by_path[path]
    most = queues.maximum(leaf, spec.quota)
    above = bounds_of(leaf.parent) if leaf.parent is not None else ()
    return gang_obstacle(spec, leaf.policies.order, [(path, most), *above])


def _reject(partition: Partition, spec: ApplicationSpec, now_ns: int, reason: str) -> list[Effect]:
    """Refuse the application, and keep it for people to look at."""
    app = Application(spec, nowhere(spec.queue), partition.next_number(), spec.created_ns or now_ns)
    app.state = follow(APPLICATION, app.state, ApplicationEvent.REJECT)
    app.state_log.append((now_ns, app.state))
    app.rejected_message = reason
    notes.app_moved(partition, spec.id, app.state, reason)
    return [ApplicationRejected(partition.rm, spec.id, reason), *history.remember(partition, app, now_ns)]
