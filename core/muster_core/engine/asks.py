"""Asks arrive, are replaced, and are taken back (seed 003, AllocationAsk; semantics 3)."""

from __future__ import annotations

from typing import Final

from muster_core.engine import affinity, gangs, ledger, lifecycle, recommendations
from muster_core.model.effects import AllocationAnswer, AskRelease, Effect, Refusal
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


def add(partition: Partition, spec: AskSpec, now_ns: int) -> list[Effect]:
    """Let the ask wait, in place of an older one of the same key; or refuse it with a reason."""
    app = partition.applications.get(spec.application)
    if app is None:
        if _completed_meanwhile(partition, spec.application, now_ns):
            return _return(partition, spec, f"application {spec.application} completed before the ask came")
        return _reject(partition, spec, f"application {spec.application} is not known")
    if spec.placeholder and _is_late(app, spec):
        # Nothing is wrong with it: it may have been asked before the resource manager knew, on another stream.
        why = f"the reservation of application {app.id} is over: a placeholder comes too late"
        return _return(partition, spec, why)
    reason = _refusal(app, spec) or affinity.read(partition, spec)
    if reason:
        return _reject(partition, spec, reason)
    tags = partition.nodes.occupants.tags.project(spec.tags)
    known = app.asks.get(spec.key)
    if known is not None:
        if _is_like(known, spec, tags):
            known.spec = spec
            return []
        _forget(partition, app, known, Detail.APP_REQUEST)
    effects = recommendations.note_refusals(partition, spec, now_ns) if spec.avoid else []
    effects += _wake(partition, app, spec, now_ns)
    kind = app.newest = class_like(app.newest, spec, as_usual=spec.placeholder or not spec.group, tags=tags)
    asked_ns = min(spec.created_ns or now_ns, now_ns)
    ledger.add_ask(partition, app, Ask(spec, kind, spec.max_allocations, asked_ns=asked_ns))
    return effects + gangs.await_asks(partition, app, now_ns) if spec.placeholder else effects


def release(world: World, partition: Partition, event: AskReleased, now_ns: int) -> list[Effect]:
    """Drop one ask, or all of the application; STOPPED_BY_RM is confirmed, the rest are confirmations."""
    app = partition.applications.get(event.application)
    if app is None:
        world.ignore("release of an ask of an unknown application")
        return []
    keys = [event.key] if event.key is not None else list(app.asks)
    gone = [app.asks[key] for key in keys if key in app.asks and not app.asks[key].spec.podless]
    if not gone:
        world.ignore("release of an unknown ask")
        return []
    for ask in gone:
        _forget(partition, app, ask, Detail.REQUEST_CANCEL)
    effects: list[Effect] = []
    if event.termination is Termination.STOPPED_BY_RM:
        releases = tuple(
            AskRelease(partition.id, app.id, ask.spec.key, Termination.STOPPED_BY_RM, event.message) for ask in gone
        )
        effects.append(AllocationAnswer(partition.rm, released_asks=releases))
    if app.is_reserving:
        # The last missing member may just have been called off (semantics 9).
        effects += gangs.after_placing(partition, app, now_ns)
    if app.is_reserving:
        gangs.stop_claiming(partition, app)
        effects += _await_anew(partition, app, gone, now_ns)
    if any(not ask.spec.placeholder for ask in gone):
        effects += lifecycle.complete_if_done(partition, app, now_ns)
    return effects


def _is_late(app: Application, spec: AskSpec) -> bool:
    """Whether the gang has no use for a placeholder any more; one of the core's own places never had."""
    is_over = app.gang.over or app.spec.is_podless
    return is_over and app.state not in _ENDING and spec.key not in app.ids


def _await_anew(partition: Partition, app: Application, gone: list[Ask], now_ns: int) -> list[Effect]:
    """A member that was called off may be asked for again: its time begins now."""
    if not app.gang.allocated and any(ask.spec.placeholder for ask in gone):
        app.gang.clock = 0
    return gangs.await_asks(partition, app, now_ns)


def _is_like(known: Ask, spec: AskSpec, tags: Tags) -> bool:
    """Whether a plan sees no difference, so that the ask keeps its turn, its swap and the room that is held for it."""
    is_same_class = class_of(spec, as_usual=known.kind.as_usual, tags=tags) == known.kind
    return is_same_class and spec.max_allocations == known.spec.max_allocations


def _forget(partition: Partition, app: Application, ask: Ask, why: Detail) -> None:
    """A parked ask's placeholder was told to go already: it is simply gone (semantics 14)."""
    ledger.unlink(partition, app, ask.spec.key)
    ledger.remove_ask(partition, app, ask, why)
    partition.stir_one(app)


def _wake(partition: Partition, app: Application, spec: AskSpec, now_ns: int) -> list[Effect]:
    match app.state:
        case ApplicationState.NEW:
            return lifecycle.accept(partition, app, now_ns)
        case ApplicationState.COMPLETING if not spec.placeholder:
            return lifecycle.run(partition, app, now_ns)
        case _:
            return []


def _refusal(app: Application, spec: AskSpec) -> str:
    if app.state in _ENDING:
        return f"application {app.id} is {app.state}"
    if app.spec.is_podless and is_podless_key(app.id, spec.key):
        return f"ask {spec.key} is the scheduler's own"
    if spec.key in app.ids:
        return f"ask {spec.key} is allocated already; release its allocation first"
    if not spec.placeholder:
        return ""
    if not app.spec.is_gang:
        return f"application {app.id} came without a placeholderAsk: it has no place for placeholders"
    return ""


def _completed_meanwhile(partition: Partition, name: ApplicationId, now_ns: int) -> bool:
    """Whether it ended well so lately that the resource manager may not have known when it asked."""
    for app in reversed(partition.history):
        if app.ended_ns < now_ns - _MOMENT_NS:
            return False
        if app.id == name:
            return app.state is ApplicationState.COMPLETED
    return False


def _return(partition: Partition, spec: AskSpec, why: str) -> list[Effect]:
    """Nothing is wrong with the ask: it is given back, to be asked again with a new application."""
    gone = AskRelease(partition.id, spec.application, spec.key, Termination.TIMEOUT, why)
    return [AllocationAnswer(partition.rm, released_asks=(gone,))]


def _reject(partition: Partition, spec: AskSpec, reason: str) -> list[Effect]:
    refusal = Refusal(spec.application, spec.key, reason)
    return [AllocationAnswer(partition.rm, rejected_asks=(refusal,))]
