"""What becomes of all applications of a copy in some virtual time: which start, wait, are rejected or are preempted.

`muster plan` compares two outlooks of one cluster, `muster apply --dry-run` reads one application of an outlook. The
core decides; here its state and effects are only read. Releases are confirmed at once, no pod ends by itself, and
preempted pods are not replaced.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from muster_core.foresight.unblocking import HORIZON_NS, has_started, settle
from muster_core.foresight.virtual_core import VirtualCore
from muster_core.model.effects import AllocationResponse, ApplicationRejected, Effect
from muster_core.model.events import Event
from muster_core.model.ids import AllocationKey, ApplicationId, NodeId, PartitionId, Termination
from muster_core.model.resources import Limit, Resources
from muster_core.model.states import ApplicationState
from muster_core.state.applications import Application
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


@dataclass(frozen=True, slots=True)
class ApplicationOutlook:
    """One application at the end. `reason`: why it waits, was rejected or failed. `is_unplaced`: no rule places it.

    `nodes`: where its pods and reserved slots got a node in this time, by the number of them. `preempted`: its pods.
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
    preempted: int


@dataclass(frozen=True, slots=True)
class Excess:
    """Usage above a maximum. `user`, `group`: whose limit in the queue it is; empty = the maximum of the queue.

    Only the resources above their maximum. The amount `applications` is the number of running applications.
    """

    queue: str
    user: str
    group: str
    used: Mapping[str, int]
    max: Mapping[str, int]


APPLICATIONS: Final = "applications"


@dataclass(frozen=True, slots=True)
class Outlook:
    """All applications at the end, and the usage above maximums at the beginning, before anything was preempted."""

    applications: Mapping[ApplicationId, ApplicationOutlook]
    excesses: tuple[Excess, ...]
    victims: tuple[Victim, ...]


@dataclass(slots=True)
class _Effects:
    """What the effects of a core told. `nodes`: by request, its node."""

    rejected: dict[ApplicationId, str] = field(default_factory=dict)
    nodes: dict[ApplicationId, dict[AllocationKey, NodeId]] = field(default_factory=lambda: defaultdict(dict))
    victims: dict[AllocationKey, Victim] = field(default_factory=dict)
    placed: dict[tuple[ApplicationId, AllocationKey], NodeId] = field(default_factory=dict)

    def read(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, ApplicationRejected):
                self.rejected[effect.application] = effect.reason
            if not isinstance(effect, AllocationResponse):
                continue
            for new in effect.new:
                self.nodes[new.ask.application][new.ask.key] = new.node
                self.placed[new.ask.application, new.ask.key] = new.node
            for one in effect.released:
                if one.termination is Termination.PREEMPTED_BY_SCHEDULER:
                    node = self.placed.get((one.application, one.key), NodeId(""))
                    self.victims[one.key] = Victim(one.application, one.key, node)


def outlook(
    core: VirtualCore,
    partition_id: PartitionId,
    events: Iterable[Event],
    span_ns: int = HORIZON_NS,
    may_go_on: Callable[[], bool] = lambda: True,
) -> Outlook | None:
    """Applies the events and lets the time pass. The core is changed. None = it may not go on."""
    partition = core.scheduler_state.partitions[partition_id]
    seen = _Effects()
    for app in partition.applications.values():
        seen.placed |= {(app.id, one.spec.key): one.node for one in app.allocations.values()}
    end_ns = core.now_ns + span_ns
    effects = core.apply(events)
    excesses = tuple(_excesses(partition))
    effects += core.send(())
    while True:
        effects += settle(core, effects)
        seen.read(effects)
        if not may_go_on():
            return None
        next_ns = core.timers.next_ns()
        if next_ns is None or next_ns > end_ns:
            break
        core.now_ns = max(core.now_ns, next_ns)
        effects = core.send(())
    return Outlook(_applications(partition, seen), excesses, tuple(seen.victims.values()))


def _applications(partition: Partition, seen: _Effects) -> dict[ApplicationId, ApplicationOutlook]:
    lost: dict[ApplicationId, int] = defaultdict(int)
    for victim in seen.victims.values():
        lost[victim.application] += 1
    found = {}
    for app in (*partition.ended_applications.values(), *partition.applications.values()):
        if app.removed:
            continue
        nodes: dict[NodeId, int] = defaultdict(int)
        for key, node in seen.nodes.get(app.id, {}).items():
            if key not in seen.victims:
                nodes[node] += 1
        fate, reason = _fate(app, seen.rejected.get(app.id))
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
            lost[app.id],
        )
    return found


def _fate(app: Application, rejection: str | None) -> tuple[Fate, str]:
    if rejection is not None or app.state is ApplicationState.REJECTED:
        return Fate.REJECTED, rejection or app.rejected_message
    if app.state in _FAILED:
        return Fate.FAILED, app.failure_message
    if has_started(app):
        return Fate.STARTED, ""
    return Fate.WAITING, waiting_reason(app)


def waiting_reason(app: Application) -> str:
    """Why it waits, in one line; empty = not known."""
    texts = [why.text() for why in app.refusals.values()]
    return app.withheld or app.gang.impossible or next(filter(None, texts), "")


# --- usage above maximums ---------------------------------------------------------------------------------------------


def _excesses(partition: Partition) -> Iterator[Excess]:
    for queue in partition.queues.by_path.values():
        used, bounds = _above(queue.allocated, queue.max, queue.running, queue.max_applications)
        if used:
            yield Excess(queue.path, "", "", used, bounds)
    found: dict[tuple[str, str, str], Excess] = {}
    for app in partition.applications.values():
        for holder, limit, account in partition.users.limits(app):
            user, group = (holder.name, "") if holder.kind is LimitSubjectKind.USER else ("", holder.name)
            key = (holder.path, user, group)
            if key not in found:
                used, bounds = _above(account.allocated, limit.max, account.running, limit.max_applications)
                found[key] = Excess(holder.path, user, group, used, bounds)
    yield from (one for one in found.values() if one.used)


def _above(used: Resources, limit: Limit, running: int, most_running: int) -> tuple[dict[str, int], dict[str, int]]:
    above = {name: used[name] for name, bound in limit.items() if used[name] > bound}
    bounds = {name: bound for name, bound in limit.items() if name in above}
    if most_running and running > most_running:
        above[APPLICATIONS], bounds[APPLICATIONS] = running, most_running
    return above, bounds
