"""Applications arrive and are taken away by their resource manager.

Refusals of seed 000 are made here: a gang in a FAIR leaf, a placeholderAsk
that no moment could satisfy. An application that already had bound pods
(`forced`) is never refused: what runs is counted, wherever it has to be.
"""

from __future__ import annotations

from dataclasses import replace

from muster_core.engine import (
    affinity,
    history,
    ledger,
    lifecycle,
    notes,
    podless,
    queues,
    quota,
    recovered,
    user_groups,
)
from muster_core.model import limits
from muster_core.model.config import QueueConfig
from muster_core.model.effects import (
    ApplicationAccepted,
    ApplicationRejected,
    AskRelease,
    Release,
)
from muster_core.model.events import ApplicationRemoved, GroupsResolved
from muster_core.model.ids import QueuePath
from muster_core.model.notes import Notice
from muster_core.model.release import Termination
from muster_core.model.specs import ApplicationSpec, NamespaceQuota
from muster_core.model.states import APPLICATION, ApplicationEvent, follow
from muster_core.plan.impossible import bounds_of, gang_obstacle
from muster_core.plan.placement import Chosen, GroupsNeeded, choose_queue, recovery_queue
from muster_core.world.applications import Application
from muster_core.world.queues import Queue, nowhere
from muster_core.world.world import Partition, World


def add(partition: Partition, spec: ApplicationSpec, now_ns: int) -> None:
    """Find the application its leaf queue, or refuse it with a reason."""
    known = partition.applications.get(spec.id)
    undecided = partition.undecided.get(spec.id)
    if spec.is_renewal:
        if undecided is not None:
            partition.undecided[spec.id] = replace(undecided, quota=spec.quota)
        elif known is not None:
            _renew(partition, known, spec, now_ns)
    elif partition.is_closing:
        _reject(partition, spec, now_ns, f"partition {partition.id} is being removed")
    elif known is not None:
        _reject(partition, spec, now_ns, f"application {spec.name} exists already, its state is {known.state}")
    else:
        if undecided is not None:
            _forget_undecided(partition, undecided)
        _decide(partition, podless.summed(spec), now_ns)


def _decide(partition: Partition, spec: ApplicationSpec, now_ns: int) -> None:
    chosen = choose_queue(partition.queues, partition.config.rules, spec)
    if isinstance(chosen, GroupsNeeded):
        if not spec.forced:
            _put_off(partition, spec, chosen.reader, now_ns)
            return
        chosen = recovery_queue(partition.queues)
    if not isinstance(chosen, Chosen):
        _reject(partition, spec, now_ns, chosen)
        return
    on_demand = queues.leaf_on_demand(partition.queues, chosen.path, spec.quota) if chosen.create else None
    reader = user_groups.reader(partition, spec, queues.nearest(partition.queues, chosen.path))
    if reader and not spec.forced:
        _put_off(partition, spec, reader, now_ns)
    elif reason := _gang_refusal(partition, spec, chosen.path, on_demand):
        _reject(partition, spec, now_ns, reason)
    elif on_demand is not None:
        _enter(partition, queues.open_leaf(partition, chosen, on_demand), spec, now_ns)
    else:
        leaf = partition.queues.by_path[chosen.path]
        _enter(partition, leaf, spec, now_ns)
        _retune(partition, leaf, spec.quota, now_ns)


def _enter(partition: Partition, leaf: Queue, spec: ApplicationSpec, now_ns: int) -> None:
    app = Application(spec, leaf, partition.next_number(), spec.created_ns or now_ns)
    app.state_log.append((now_ns, app.state))
    leaf.applications[spec.id] = None
    partition.applications[spec.id] = app
    partition.outbox.put(ApplicationAccepted(partition.rm, spec.id))
    user_groups.note(partition, spec)
    recovered.withhold(partition, app)
    affinity.announce(partition, spec.members, spec.namespace)
    notes.app_came(partition, app)
    if spec.is_gang:
        lifecycle.set_wait_timer(partition, app, app.submitted_ns)
    if not spec.is_podless:
        return
    if podless.refusal(spec):  # it had bound pods when it came: it goes on without places
        app.gang.over = True
    else:
        podless.ask(partition, app, now_ns)


def _put_off(partition: Partition, spec: ApplicationSpec, reader: str, now_ns: int) -> None:
    """Neither accept nor reject the application before the groups of its user are known."""
    reason = user_groups.reason(spec, reader)
    if len(partition.undecided) >= limits.UNDECIDED_APPLICATIONS:
        _reject(
            partition,
            spec,
            now_ns,
            f"{reason}; the limit of {limits.UNDECIDED_APPLICATIONS} applications that wait for groups is reached",
        )
        return
    partition.undecided[spec.id] = spec
    user_groups.note(partition, spec)
    partition.note(Notice.APPLICATION, spec.id, message=reason)


def _forget_undecided(partition: Partition, spec: ApplicationSpec) -> None:
    del partition.undecided[spec.id]
    user_groups.forget(partition, spec.user, spec.id)


def resolve_groups(partition: Partition, event: GroupsResolved, now_ns: int) -> None:
    """The groups of a user are known now: decide on its applications, and let withheld requests go on."""
    for name in partition.unresolved.pop(event.user, {}):
        undecided, app = partition.undecided.pop(name, None), partition.applications.get(name)
        if undecided is not None:
            add(partition, replace(undecided, groups=event.groups, groups_unknown=""), now_ns)
        elif app is not None:
            app.spec = replace(app.spec, groups=event.groups, groups_unknown="")
            user_groups.regroup(partition, app)
            recovered.withhold(partition, app)
    recovered.place_again(partition)


def reconsider_groups(partition: Partition, now_ns: int) -> None:
    """Other rules, access lists and limits are in force: what waits for groups may not depend on them any more, and
    what did not may now.
    """
    for name in [name for names in partition.unresolved.values() for name in names]:
        app, undecided = partition.applications.get(name), partition.undecided.get(name)
        if app is not None:
            recovered.withhold(partition, app)
        elif undecided is not None:
            add(partition, undecided, now_ns)


def reject_undecided(partition: Partition, reason: str, now_ns: int) -> None:
    """Reject the applications that wait for groups: the partition accepts no new applications."""
    for spec in list(partition.undecided.values()):
        _forget_undecided(partition, spec)
        _reject(partition, spec, now_ns, reason)


def _renew(partition: Partition, app: Application, spec: ApplicationSpec, now_ns: int) -> None:
    """The namespace says something else: a leaf on demand becomes what it would be if it were made now. One that it
    shares with other namespaces keeps what this one does not say.

    Differs: YuniKorn hears of it with the next application, and of an annotation that was removed never.
    """
    leaf, said = app.queue, spec.quota
    sharers = (partition.applications[name].spec.namespace for name in leaf.applications)
    if all(namespace == spec.namespace for namespace in sharers):
        fresh = queues.leaf_on_demand(partition.queues, leaf.path, said)
        said = NamespaceQuota(max=fresh.max, guaranteed=fresh.guaranteed, max_applications=fresh.max_applications)
    _retune(partition, leaf, said, now_ns)


def _retune(partition: Partition, leaf: Queue, said: NamespaceQuota, now_ns: int) -> None:
    """Apply the namespace's quota to the leaf; no application fails by it (semantics 11)."""
    before, was = leaf.max, {leaf.path: quota.before(partition, leaf)}
    if queues.apply_quota(partition, leaf, said) and leaf.max != before:
        quota.reconsider(partition, was, now_ns)


def remove(world: World, partition: Partition, event: ApplicationRemoved, now_ns: int) -> None:
    """Take the application away with all it has and wants; that is confirmed (semantics 4)."""
    app = partition.applications.get(event.application)
    undecided = partition.undecided.get(event.application)
    if undecided is not None:
        _forget_undecided(partition, undecided)
        return
    if app is None:
        world.ignore("removal of an unknown application")
        return
    why = "the application was removed"
    answer = partition.outbox.answer(partition.rm)
    told = [key for key, ask in app.asks.items() if not ask.spec.podless]
    for key in list(app.asks):
        ledger.unlink(partition, app, key)
    for allocation in list(app.allocations.values()):
        ledger.drop(partition, app, allocation, now_ns)
        if not allocation.spec.podless:
            key = allocation.spec.key
            answer.released.append(Release(partition.id, app.id, key, allocation.id, Termination.STOPPED_BY_RM, why))
    lifecycle.conclude(partition, app, now_ns)
    lifecycle.leave(partition, app)
    answer.released_asks += [AskRelease(partition.id, app.id, key, Termination.STOPPED_BY_RM, why) for key in told]
    history.remember(partition, app, now_ns)


def _gang_refusal(partition: Partition, spec: ApplicationSpec, path: QueuePath, on_demand: QueueConfig | None) -> str:
    """Why a gang can never have its places there; `on_demand`: what a leaf that is to be made will be."""
    if not spec.is_gang or spec.forced:
        return ""
    if refused := podless.refusal(spec) or affinity.refusal(partition, spec):
        return refused
    if on_demand is not None:
        above = bounds_of(queues.nearest(partition.queues, path))
        return gang_obstacle(spec, on_demand.policies.order, [(path, on_demand.max), *above])
    leaf = partition.queues.by_path[path]
    most = queues.maximum(leaf, spec.quota)
    above = bounds_of(leaf.parent) if leaf.parent is not None else ()
    return gang_obstacle(spec, leaf.policies.order, [(path, most), *above])


def _reject(partition: Partition, spec: ApplicationSpec, now_ns: int, reason: str) -> None:
    """Refuse the application, and keep it for people to look at."""
    app = Application(spec, nowhere(spec.queue), partition.next_number(), spec.created_ns or now_ns)
    app.state = follow(APPLICATION, app.state, ApplicationEvent.REJECT)
    app.state_log.append((now_ns, app.state))
    app.rejected_message = reason
    partition.outbox.put(ApplicationRejected(partition.rm, spec.id, reason))
    notes.app_moved(partition, app, reason)
    history.remember(partition, app, now_ns)
