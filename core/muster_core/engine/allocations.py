"""Allocations that exist already, and allocations that end (seed 003; semantics 3, 4, 7, 14, 17)."""

from __future__ import annotations

from muster_core.engine import affinity, commit, gangs, growth, ledger, lifecycle, notes, podless, quota, revising
from muster_core.model.effects import AllocationAnswer, Effect, Refusal, Release
from muster_core.model.events import AllocationReleased
from muster_core.model.ids import AllocationId, AllocationKey, NodeId, allocation_id, is_podless_key
from muster_core.model.notes import Detail
from muster_core.model.release import Termination
from muster_core.model.specs import AllocationSpec, AskSpec
from muster_core.model.states import ApplicationState
from muster_core.world.applications import Allocation, Application, lacking
from muster_core.world.gangs import GroupCount
from muster_core.world.world import Partition, World


def report(partition: Partition, spec: AllocationSpec, now_ns: int) -> list[Effect]:
    """Count an allocation that exists; it needs no room: it has it. One that is known is told anew (semantics 3)."""
    if spec.node not in partition.nodes:
        return _reject(partition, spec, f"node {spec.node} is not known")
    if spec.foreign or not spec.application:
        return _report_foreign(partition, spec)
    app = partition.applications.get(spec.application)
    if app is None:
        return _reject(partition, spec, f"application {spec.application} is not known")
    known = app.allocations.get(_identity(spec))
    waiting = app.asks.get(spec.key)
    is_own = app.spec.is_podless and is_podless_key(app.id, spec.key)
    if is_own or (known is not None and known.spec.podless):
        return _reject(partition, spec, f"{spec.key} is the scheduler's own key")
    if known is not None:
        refusal = _contradiction(known.spec.key, known.node, spec)
        return _reject(partition, spec, refusal) if refusal else revising.revise(partition, app, known, spec, now_ns)
    if waiting is not None:
        ledger.unlink(partition, app, spec.key)
        ledger.remove_ask(partition, app, waiting, Detail.REQUEST_ALLOC)
    told = podless.give_way(partition, app, spec, now_ns)
    _enter(partition, app, spec, now_ns)
    over = [effect for queue in app.queue.path_up() for effect in quota.went_over(partition, queue, now_ns)]
    return told + _after_report(partition, app, spec, now_ns) + over


def release(world: World, partition: Partition, event: AllocationReleased, now_ns: int) -> list[Effect]:
    """The resource manager says that allocations are gone, of its own or as we asked."""
    app = partition.applications.get(event.application)
    gone = _meant(app, event) if app is not None else []
    if app is None or not gone:
        return _release_foreign(world, partition, event)
    effects: list[Effect] = []
    if event.termination is Termination.STOPPED_BY_RM:
        confirmed = tuple(
            Release(partition.id, app.id, gone_one.spec.key, gone_one.id, Termination.STOPPED_BY_RM, event.message)
            for gone_one in gone
        )
        effects.append(AllocationAnswer(partition.rm, released=confirmed))
    for allocation in gone:
        effects += end(partition, app, allocation, now_ns)
    return effects


def end(
    partition: Partition, app: Application, allocation: Allocation, now_ns: int, *, node_removed: bool = False
) -> list[Effect]:
    """An allocation is gone: a swap that waited for it goes on, or the ledgers shrink."""
    successor = app.asks.get(allocation.successor) if allocation.successor else None
    if successor is not None and successor.swap is not None:
        effects = commit.confirm_swap(partition, app, allocation, successor, now_ns)
        return effects + lifecycle.settle(partition, app, now_ns)
    was = allocation.releasing
    ledger.drop(partition, app, allocation, now_ns, node_removed=node_removed)
    if allocation.spec.placeholder:
        if app.is_reserving and app.gang.pledge:
            ledger.set_pledge(partition, app, lacking(app), backed=app.gang.backed)
        more = gangs.lost_placeholder(partition, app, was, now_ns)
    else:
        more = lifecycle.complete_if_done(partition, app, now_ns)
    return more + lifecycle.settle(partition, app, now_ns)


def _meant(app: Application, event: AllocationReleased) -> list[Allocation]:
    """Of those that the resource manager was told of."""
    if event.key is not None and event.id is None:
        return [app.allocations[identity] for identity in app.ids.get(event.key, ())]
    found = app.allocations.values() if event.id is None else filter(None, [app.allocations.get(event.id)])
    return [allocation for allocation in found if not allocation.spec.podless]


def _identity(spec: AllocationSpec) -> AllocationId:
    return spec.id or allocation_id(spec.key, 0)


def _enter(partition: Partition, app: Application, spec: AllocationSpec, now_ns: int) -> None:
    ask = _ask_of(spec)
    affinity.read(partition, ask)
    allocation = Allocation(ask, _identity(spec), spec.node, spec.allocated_ns or now_ns)
    if ask.placeholder:
        group = app.gang.groups.setdefault(ask.group, GroupCount(ask.resources))
        group.count += 1
    ledger.book(partition, app, allocation)
    ledger.count_in(partition, app, ask, 1)
    notes.places_came(partition, app, (allocation,), asked=False)
    partition.nodes.take(spec.node, ask.resources)
    for queue in app.queue.path_up():
        queue.excused = queue.excused or not queue.max.allows(queue.allocated)
    growth.path_shrank(partition, app)


def _contradiction(key: AllocationKey, node: NodeId, spec: AllocationSpec) -> str:
    """Why this cannot be said of an allocation of the same identity; empty = it can."""
    if key != spec.key:
        return f"allocation {spec.id} is known already, of ask {key}"
    if node != spec.node:
        return f"allocation {spec.key} is on node {node} already: release it there before it is on node {spec.node}"
    return ""


def _ask_of(spec: AllocationSpec) -> AskSpec:
    """The ask that an existing allocation would have had (seed 000, "Application recovery")."""
    return AskSpec(
        partition=spec.partition,
        application=spec.application,
        key=spec.key,
        resources=spec.resources,
        group=spec.group,
        placeholder=spec.placeholder,
        originator=spec.originator,
        priority=spec.priority,
        namespace=spec.namespace,
        tags=spec.tags,
        facts=spec.facts,
        required_node=spec.required_node,
        allow_preempt_self=spec.allow_preempt_self,
        allow_preempt_other=spec.allow_preempt_other,
        created_ns=spec.created_ns,
    )


def _after_report(partition: Partition, app: Application, spec: AllocationSpec, now_ns: int) -> list[Effect]:
    effects: list[Effect] = []
    if app.state is ApplicationState.FAILING:
        return gangs.take_back_everything(partition, app, "the application has failed", now_ns)
    if spec.placeholder and (app.state is ApplicationState.RESUMING or app.ending):
        return gangs.take_back_placeholders(partition, app, "the reservation of the application is over", now_ns)
    if app.state is ApplicationState.NEW:
        effects += lifecycle.accept(partition, app, now_ns)
    since_ns = spec.allocated_ns or now_ns
    if not spec.placeholder:
        return effects + _after_real(partition, app, since_ns, now_ns)
    app.gang.recovered = True
    effects += _recover_clock(partition, app, since_ns)
    effects += gangs.after_placing(partition, app, now_ns)
    if app.is_reserving and partition.partial is None:
        partition.partial = app.id
    return effects


def _after_real(partition: Partition, app: Application, since_ns: int, now_ns: int) -> list[Effect]:
    """One bound real member means that the gang ran already: no placeholder is made any more (semantics 17)."""
    effects: list[Effect] = []
    if app.is_reserving and app.spec.is_podless:
        effects += _after_member(partition, app, since_ns)
    elif app.is_reserving:
        gangs.finish(partition, app)
        effects += gangs.call_off(partition, app, "a member of the gang is bound already")
    is_earlier = since_ns < (app.started_ns or now_ns + 1)
    if is_earlier:
        app.started_ns = since_ns
    if app.state in (ApplicationState.ACCEPTED, ApplicationState.COMPLETING):
        return effects + lifecycle.run(partition, app, now_ns)
    return effects + lifecycle.run_clock(partition, app, now_ns) if is_earlier else effects


def _after_member(partition: Partition, app: Application, since_ns: int) -> list[Effect]:
    """A Direct gang ran, so it had its places: those that are left are held anew, by the clock of that time."""
    app.gang.recovered = True
    effects = _recover_clock(partition, app, since_ns)
    if gangs.is_reserved(app):
        gangs.finish(partition, app)
    return effects


def _recover_clock(partition: Partition, app: Application, since_ns: int) -> list[Effect]:
    """The placeholder clock goes on from the earliest placeholder's moment (semantics 10)."""
    gang = app.gang
    if gang.clock and gang.since_ns <= since_ns:
        return []
    return [gangs.start_clock(partition, app, since_ns)]


def _report_foreign(partition: Partition, spec: AllocationSpec) -> list[Effect]:
    identity = _identity(spec)
    known = partition.foreign.get(identity)
    if known is not None:
        refusal = _contradiction(known.key, known.node, spec)
        if refusal:
            return _reject(partition, spec, refusal)
        revising.revise_foreign(partition, identity, spec)
        return []
    affinity.read(partition, spec)
    partition.foreign[identity] = spec
    ledger.enter(partition, spec.node, spec)
    partition.nodes.record(spec.node).foreigners[identity] = None
    partition.nodes.take(spec.node, spec.resources, foreign=True)
    return []


def _release_foreign(world: World, partition: Partition, event: AllocationReleased) -> list[Effect]:
    released: list[Release] = []
    for identity in _foreigners_meant(partition, event):
        spec = partition.foreign.pop(identity)
        ledger.leave(partition, spec.node, spec)
        partition.nodes.give_back(spec.node, spec.resources, foreign=True)
        del partition.nodes.record(spec.node).foreigners[identity]
        termination = Termination.STOPPED_BY_RM
        released.append(Release(partition.id, spec.application, spec.key, identity, termination, event.message))
    if not released:
        world.ignore("release of an unknown allocation")
    if not released or event.termination is not Termination.STOPPED_BY_RM:
        return []
    return [AllocationAnswer(partition.rm, released=tuple(released))]


def _foreigners_meant(partition: Partition, event: AllocationReleased) -> list[AllocationId]:
    """By identity, or all of the key; the application has to be the one they were reported with, if any."""
    foreign = partition.foreign
    identity = event.id or (allocation_id(event.key, 0) if event.key else None)
    if identity in foreign:
        found = [identity]
    elif event.id is None:
        found = [one for one, spec in foreign.items() if spec.key == event.key]
    else:
        found = []
    return [one for one in found if foreign[one].application == event.application]


def _reject(partition: Partition, spec: AllocationSpec, reason: str) -> list[Effect]:
    refusal = Refusal(spec.application, spec.key, reason)
    return [AllocationAnswer(partition.rm, rejected_allocations=(refusal,))]
