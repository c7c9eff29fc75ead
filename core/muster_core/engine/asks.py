"""Asks arrive, are replaced, and are taken back (seed 003, AllocationAsk; semantics 3)."""

from __future__ import annotations

from typing import Final

from muster_core.engine import affinity, gangs, ledger, lifecycle, recommendations
from muster_core.model.effects import AllocationAnswer, AskRelease, Refusal
from muster_core.model.events import AskReleased
from muster_core.model.ids import ApplicationId, is_podless_key
from muster_core.model.notes import Detail
from muster_core.model.placement import Tags
from muster_core.model.release import Termination
from muster_core.model.specs import AskSpec
from muster_core.model.states import ApplicationState
from muster_core.world.applications import Application, Ask
from muster_core.world.classes import class_like, class_of
from muster_core.world.world import Partition, World

#: How long ago an application may have completed without its resource manager knowing.
_MOMENT_NS: Final = 60 * 1_000_000_000
_ENDING = (ApplicationState.FAILING, ApplicationState.FAILED)


def add(partition: Partition, spec: AskSpec, now_ns: int) -> None:
    """Let the ask wait, in place of an older one of the same key; or refuse it with a reason."""
    app = partition.applications.get(spec.application)
    if app is None:
        if _completed_meanwhile(partition, spec.application, now_ns):
            _return(partition, spec, f"application {spec.application} completed before the ask came")
            return
        is_undecided = spec.application in partition.undecided
        what = "is not accepted yet: the groups of its user are unknown" if is_undecided else "is not known"
        _reject(partition, spec, f"application {spec.application} {what}")
        return
    if spec.placeholder and _is_late(app, spec):
        # Nothing is wrong with it: it may have been asked before the resource manager knew, on another stream.
        _return(partition, spec, f"the reservation of application {app.name} is over: a placeholder comes too late")
        return
    reason = _refusal(app, spec) or affinity.refusal(partition, spec)
    if reason:
        _reject(partition, spec, reason)
        return
    affinity.read(partition, spec)
    tags = partition.nodes.occupants.tags.project(spec.tags)
    known = app.asks.get(spec.key)
    if known is not None:
        if _is_like(known, spec, tags):
            affinity.part(partition, known.spec)
            known.spec = spec
            affinity.join(partition, spec)
            return
        _forget(partition, app, known, Detail.APP_REQUEST)
    if spec.avoid:
        recommendations.note_refusals(partition, spec, now_ns)
    _wake(partition, app, spec, now_ns)
    kind = app.newest = class_like(app.newest, spec, as_usual=spec.placeholder or not spec.group, tags=tags)
    asked_ns = min(spec.created_ns or now_ns, now_ns)
    ledger.add_ask(partition, app, Ask(spec, kind, spec.max_allocations, asked_ns=asked_ns))
    if spec.placeholder:
        gangs.await_asks(partition, app, now_ns)


def release(world: World, partition: Partition, event: AskReleased, now_ns: int) -> None:
    """Drop one ask, or all of the application; STOPPED_BY_RM is confirmed, the rest are confirmations."""
    app = partition.applications.get(event.application)
    if app is None:
        world.ignore("release of an ask of an unknown application")
        return
    keys = [event.key] if event.key is not None else list(app.asks)
    gone = [app.asks[key] for key in keys if key in app.asks and not app.asks[key].spec.podless]
    if not gone:
        world.ignore("release of an unknown ask")
        return
    answer, was = partition.outbox.answer(partition.rm), event.termination
    for ask in gone:
        _forget(partition, app, ask, Detail.REQUEST_CANCEL)
        if was is Termination.STOPPED_BY_RM:
            answer.released_asks.append(AskRelease(partition.id, app.id, ask.spec.key, was, event.message))
    if app.is_reserving:
        # The last missing member may just have been called off (semantics 9).
        gangs.after_placing(partition, app, now_ns)
    if app.is_reserving:
        gangs.stop_claiming(partition, app)
        if any(ask.spec.placeholder for ask in gone):
            gangs.await_anew(partition, app, now_ns)
    if any(not ask.spec.placeholder for ask in gone):
        lifecycle.complete_if_done(partition, app, now_ns)


def _is_late(app: Application, spec: AskSpec) -> bool:
    """Whether the gang has no use for a placeholder any more; one of the core's own places never had."""
    is_over = app.gang.over or app.spec.is_podless
    return is_over and app.state not in _ENDING and spec.key not in app.ids


def _is_like(known: Ask, spec: AskSpec, tags: Tags) -> bool:
    """Whether a plan sees no difference, so that the ask keeps its turn, its swap and the room that is held for it."""
    is_same_class = class_of(spec, as_usual=known.kind.as_usual, tags=tags) == known.kind
    return is_same_class and spec.max_allocations == known.spec.max_allocations


def _forget(partition: Partition, app: Application, ask: Ask, why: Detail) -> None:
    """A parked ask's placeholder was told to go already: it is simply gone (semantics 14)."""
    ledger.unlink(partition, app, ask.spec.key)
    ledger.uncount_placeholder(app, ask.spec, ask.left)
    ledger.remove_ask(partition, app, ask, why)
    partition.stir_one(app)


def _wake(partition: Partition, app: Application, spec: AskSpec, now_ns: int) -> None:
    match app.state:
        case ApplicationState.NEW:
            lifecycle.accept(partition, app, now_ns)
        case ApplicationState.COMPLETING if not spec.placeholder:
            lifecycle.run(partition, app, now_ns)
        case _:
            pass


def _refusal(app: Application, spec: AskSpec) -> str:
    if app.state in _ENDING:
        return f"application {app.name} is {app.state}"
    if app.spec.is_podless and is_podless_key(app.id, spec.key):
        return f"ask {spec.key} is the scheduler's own"
    if spec.key in app.ids:
        return f"ask {spec.key} is allocated already; release its allocation first"
    if not spec.placeholder:
        return ""
    if not app.spec.is_gang:
        return f"application {app.name} came without a placeholderAsk: it has no place for placeholders"
    return ""


def _completed_meanwhile(partition: Partition, name: ApplicationId, now_ns: int) -> bool:
    """Whether it ended well so lately that the resource manager may not have known when it asked."""
    for app in reversed(partition.history):
        if app.ended_ns < now_ns - _MOMENT_NS:
            return False
        if app.id == name:
            return app.state is ApplicationState.COMPLETED
    return False


def _return(partition: Partition, spec: AskSpec, why: str) -> None:
    """Nothing is wrong with the ask: it is given back, to be asked again with a new application."""
    gone = AskRelease(partition.id, spec.application, spec.key, Termination.TIMEOUT, why)
    partition.outbox.put(AllocationAnswer(partition.rm, released_asks=(gone,)))


def _reject(partition: Partition, spec: AskSpec, reason: str) -> None:
    refusal = Refusal(spec.application, spec.key, reason)
    partition.outbox.put(AllocationAnswer(partition.rm, rejected_asks=(refusal,)))
