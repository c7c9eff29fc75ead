"""What becomes of all applications of a copy in some virtual time: which start, wait, are rejected or are preempted.

`muster plan` compares two outlooks of one cluster, `muster apply --dry-run` reads one application of an outlook. The
core decides; here its state and effects are only read. Releases are confirmed at once, no pod ends by itself, and
preempted pods are not replaced.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple, assert_never

from muster_core.foresight.unblocking import HORIZON_NS, has_started, settle
from muster_core.foresight.virtual_core import VirtualCore
from muster_core.model.effects import AllocationResponse, ApplicationRejected, Effect
from muster_core.model.events import Event
from muster_core.model.ids import AllocationKey, ApplicationId, NodeId, PartitionId, Termination
from muster_core.model.resources import Limit, Resources
from muster_core.model.states import ApplicationState
from muster_core.state.applications import Application
from muster_core.state.queues import Queue
from muster_core.state.scheduler_state import Partition
from muster_core.state.users import LimitSubjectKind

_FAILED: Final = (ApplicationState.FAILING, ApplicationState.FAILED)


class Fate(StrEnum):
    """What an application is at the end. Started: all its requests have nodes, and its gang is complete."""

    STARTED = "started"
    WAITING = "waiting"
    REJECTED = "rejected"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod that was preempted. `key`: the UID of the pod. `node`: where it ran."""

    application: ApplicationId
    key: AllocationKey
    node: NodeId


class ApplicationOutlook(NamedTuple):
    """One application at the end. `reason`: why it waits, was rejected or failed. `is_unplaced`: no rule places it.

    `nodes`: where its pods and reserved slots got a node in this time, by the number of them. `waited_ns`: until the
    last of them. `preempted`: its pods.
    """

    id: ApplicationId
    name: str
    namespace: str
    user: str
    queue: str
    fate: Fate
    reason: str
    is_unplaced: bool
    nodes: Mapping[NodeId, int]
    waited_ns: int
    preempted: int


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage under a maximum. `user`, `group`: whose limit in the queue it is; empty = the maximum of the queue.

    Only resources with a maximum. The amount `applications` is the number of running applications.
    """

    queue: str
    user: str
    group: str
    used: Mapping[str, int]
    max: Mapping[str, int]


APPLICATIONS: Final = "applications"


@dataclass(frozen=True, slots=True)
class Outlook:
    """All applications at the end.

    `excesses`: only what is above its maximum, at the beginning, before anything was preempted. `limits`: all maximums
    that apply to an application of interest, leaf first.
    """

    applications: Mapping[ApplicationId, ApplicationOutlook]
    excesses: tuple[Usage, ...]
    victims: tuple[Victim, ...]
    limits: Mapping[ApplicationId, tuple[Usage, ...]]


@dataclass(slots=True)
class _Effects:
    """What the effects of a core told since `start_ns`. `nodes`: by request, its node."""

    start_ns: int
    rejected: dict[ApplicationId, str] = field(default_factory=dict)
    nodes: dict[ApplicationId, dict[AllocationKey, NodeId]] = field(default_factory=lambda: defaultdict(dict))
    victims: dict[AllocationKey, Victim] = field(default_factory=dict)
    placed: dict[tuple[ApplicationId, AllocationKey], NodeId] = field(default_factory=dict)
    waited_ns: dict[ApplicationId, int] = field(default_factory=dict)

    def read(self, effects: Iterable[Effect], now_ns: int) -> None:
        for effect in effects:
            if isinstance(effect, ApplicationRejected):
                self.rejected[effect.application] = effect.reason
            if not isinstance(effect, AllocationResponse):
                continue
            for new in effect.new:
                self.nodes[new.ask.application][new.ask.key] = new.node
                self.placed[new.ask.application, new.ask.key] = new.node
                self.waited_ns[new.ask.application] = now_ns - self.start_ns
            for replaced in effect.released:
                if replaced.termination is Termination.PLACEHOLDER_REPLACED:
                    self.nodes[replaced.application].pop(replaced.key, None)
            for one in effect.released:
                if one.termination is Termination.PREEMPTED_BY_SCHEDULER:
                    node = self.placed.get((one.application, one.key), NodeId(""))
                    self.victims[one.key] = Victim(one.application, one.key, node)


def outlook(  # noqa: PLR0913  # a question is its inputs
    core: VirtualCore,
    partition_id: PartitionId,
    events: Iterable[Event],
    span_ns: int = HORIZON_NS,
    may_go_on: Callable[[], bool] = lambda: True,
    of_interest: Iterable[ApplicationId] = (),
    *,
    other_than: Outlook | None = None,
) -> Outlook | None:
    """Applies the events and lets the time pass, but not after all applications of interest have started.

    The result has only these and the owners of victims, or all applications and excesses if none is of interest.
    `other_than`: without the applications whose fate is the same there. The core is changed. None = it may not go on.
    """
    interest = list(of_interest)
    partition = core.scheduler_state.partitions[partition_id]
    seen = _Effects(core.now_ns)
    apps = partition.applications
    seen.placed = {(app.id, one.spec.key): one.node for app in apps.values() for one in app.allocations.values()}
    end_ns = core.now_ns + span_ns
    effects = core.apply(events)
    excesses = () if interest else tuple(_excesses(partition))
    effects += core.send(())
    while True:
        effects += settle(core, effects)
        seen.read(effects, core.now_ns)
        if not may_go_on():
            return None
        if interest and all(has_started(apps.get(name)) for name in interest):
            break
        next_ns = core.timers.next_ns()
        if next_ns is None or next_ns > end_ns:
            break
        core.now_ns = max(core.now_ns, next_ns)
        effects = core.send(())
    limits = {name: tuple(_limits(partition, apps[name])) for name in interest if name in apps}
    shown = {*interest, *(victim.application for victim in seen.victims.values())} if interest else None
    known = other_than.applications if other_than else {}
    return Outlook(_applications(partition, seen, shown, known), excesses, tuple(seen.victims.values()), limits)


def _applications(
    partition: Partition,
    seen: _Effects,
    shown: Container[ApplicationId] | None,
    known: Mapping[ApplicationId, ApplicationOutlook],
) -> dict[ApplicationId, ApplicationOutlook]:
    """`shown`: None = all."""
    lost = Counter(victim.application for victim in seen.victims.values())
    found = {}
    for app in (*partition.ended_applications.values(), *partition.applications.values()):
        if app.removed or (shown is not None and app.id not in shown):
            continue
        fate, before = _fate(app, seen), known.get(app.id)
        if before is not None and fate is before.fate and lost[app.id] == before.preempted:
            continue
        held = seen.nodes.get(app.id, {}).items()
        nodes = Counter(node for key, node in held if key not in seen.victims)
        reason = _reason(app, fate, seen)
        if fate is Fate.WAITING and lost[app.id]:
            reason = reason or "its pods are preempted"
        found[app.id] = ApplicationOutlook(
            app.id,
            app.name,
            app.spec.namespace,
            app.spec.user,
            app.queue.path,
            fate,
            reason,
            app.queue.is_recovery,
            dict(sorted(nodes.items())),
            seen.waited_ns.get(app.id, 0),
            lost[app.id],
        )
    return found


def _fate(app: Application, seen: _Effects) -> Fate:
    if app.id in seen.rejected or app.state is ApplicationState.REJECTED:
        return Fate.REJECTED
    if app.state in _FAILED:
        return Fate.FAILED
    return Fate.STARTED if has_started(app) else Fate.WAITING


def _reason(app: Application, fate: Fate, seen: _Effects) -> str:
    match fate:
        case Fate.REJECTED:
            return seen.rejected.get(app.id) or app.rejected_message
        case Fate.FAILED:
            return app.failure_message
        case Fate.WAITING:
            return waiting_reason(app)
        case Fate.STARTED:
            return ""
        case _:
            assert_never(fate)


def waiting_reason(app: Application) -> str:
    """Why it waits, in one line; empty = not known."""
    texts = [why.text() for why in app.refusals.values()]
    return app.withheld or app.gang.impossible or next(filter(None, texts), "")


# --- maximums ---------------------------------------------------------------------------------------------------------


def _excesses(partition: Partition) -> Iterator[Usage]:
    found = [_of_queue(queue) for queue in partition.queues.by_path.values()]
    seen = {
        (one.queue, one.user, one.group): one
        for app in partition.applications.values()
        for one in _of_user(partition, app)
    }
    for one in (*found, *seen.values()):
        above = [name for name, used in one.used.items() if used > one.max[name]]
        if above:
            yield replace(
                one, used={name: one.used[name] for name in above}, max={name: one.max[name] for name in above}
            )


def _limits(partition: Partition, app: Application) -> Iterator[Usage]:
    of_user = list(_of_user(partition, app))
    for queue in app.queue.path_up:
        yield from (one for one in (_of_queue(queue), *of_user) if one.queue == queue.path and one.max)


def _of_queue(queue: Queue) -> Usage:
    return _usage(queue.path, "", "", queue.allocated, queue.max, (queue.running, queue.max_applications))


def _of_user(partition: Partition, app: Application) -> Iterator[Usage]:
    for holder, limit, account in partition.users.limits(app):
        user, group = (holder.name, "") if holder.kind is LimitSubjectKind.USER else ("", holder.name)
        running = account.running, limit.max_applications
        yield _usage(holder.path, user, group, account.allocated, limit.max, running)


def _usage(queue: str, user: str, group: str, used: Resources, limit: Limit, running: tuple[int, int]) -> Usage:
    amounts, bounds = {name: used[name] for name, _ in limit.items()}, dict(limit.items())
    if running[1]:
        amounts[APPLICATIONS], bounds[APPLICATIONS] = running
    return Usage(queue, user, group, amounts, bounds)
