"""When a waiting application would start: a copy of the cluster runs forward, with expected run times.

Run times are declared (`activeDeadlineSeconds`, the estimate of a trace) or come from ended applications: those of the
same user and name, else of the user, else of the queue. The estimate is a range: with short run times, and with long
ones. What is submitted later is unknown, so a start can be later than the range.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from muster_core.foresight.outside import JobRecord, JobState, Latencies, Outside, Pod
from muster_core.foresight.timeline import Timeline
from muster_core.foresight.unblocking import OnCopy, has_started
from muster_core.foresight.virtual_core import VirtualCore
from muster_core.foresight.workload import Job, PodSet
from muster_core.model.effects import AllocationResponse, ApplicationUpdated, Effect
from muster_core.model.ids import ApplicationId, PartitionId
from muster_core.model.resources import NOTHING
from muster_core.model.states import ApplicationState
from muster_core.state.applications import Application

#: Longest virtual time of a forecast: 30 days.
LONGEST_NS: Final = 30 * 86_400 * 1_000_000_000
_FOREVER_NS: Final = 10 * LONGEST_NS

#: Ended applications that a history needs, and most of one key that it keeps.
_LEAST: Final = 3
_MOST_KEPT: Final = 200

#: Separators of the parts of a name.
_SEPARATOR: Final = re.compile("[-_.]")
_ENDED: Final = (
    ApplicationState.COMPLETING,
    ApplicationState.COMPLETED,
    ApplicationState.FAILING,
    ApplicationState.FAILED,
    ApplicationState.REJECTED,
    ApplicationState.EXPIRED,
)


class RunTimeBasis(StrEnum):
    """Where an expected run time comes from."""

    DECLARED = "declared"
    NAME = "same user and name"
    USER = "same user"
    QUEUE = "same queue"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class RunTime:
    """Expected run time: short, usual and long. Unknown: it runs forever."""

    basis: RunTimeBasis
    short_ns: int = _FOREVER_NS
    usual_ns: int = _FOREVER_NS
    long_ns: int = _FOREVER_NS


_UNKNOWN: Final = RunTime(RunTimeBasis.UNKNOWN)


class RunTimeHistory:
    """Run times of ended applications, the newest of each user, name and queue."""

    def __init__(self) -> None:
        self._known: dict[tuple[RunTimeBasis, str, str], list[int]] = defaultdict(list)

    def add(self, name: str, user: str, queue: str, run_ns: int) -> None:
        """Adds an ended application. Older ones are added first."""
        for key in self._keys(name, user, queue):
            kept = self._known[key]
            kept.append(run_ns)
            if len(kept) > _MOST_KEPT:
                del kept[0]

    def expected(self, name: str, user: str, queue: str) -> RunTime:
        """Returns quartiles and median of the most similar applications, if there are enough of them."""
        for key in self._keys(name, user, queue):
            found = sorted(self._known.get(key, ()))
            if len(found) >= _LEAST:
                short, usual, long = (found[len(found) * part // 4] for part in (1, 2, 3))
                return RunTime(key[0], short, usual, long)
        return _UNKNOWN

    @staticmethod
    def _keys(name: str, user: str, queue: str) -> tuple[tuple[RunTimeBasis, str, str], ...]:
        return (RunTimeBasis.NAME, user, _stem(name)), (RunTimeBasis.USER, user, ""), (RunTimeBasis.QUEUE, queue, "")


def _stem(name: str) -> str:
    """The name without the parts at its end that have a digit, such as dates, numbers and most generated suffixes."""
    parts = _SEPARATOR.split(name)
    while len(parts) > 1 and any(character.isdigit() for character in parts[-1]):
        parts.pop()
    return "-".join(parts).rstrip("0123456789") or name


@dataclass(frozen=True, slots=True)
class Forecast:
    """Nanoseconds until the start with short, usual and long run times; None = not within `LONGEST_NS`.

    `basis`: by basis, the number of other applications that were expected to end.
    """

    early_ns: int | None
    usual_ns: int | None
    late_ns: int | None
    basis: Mapping[RunTimeBasis, int]


class Forecasts:
    """Estimated starts of the applications of one core, which is only read.

    A copy that runs until one application starts also shows when those before it start. These times are kept.
    """

    def __init__(self, core: VirtualCore, partition: PartitionId, run_times: Callable[[Application], RunTime]) -> None:
        apps = core.scheduler_state.partitions[partition].applications
        expected = {app.id: run_times(app) for app in apps.values() if app.state not in _ENDED}
        self._partition = partition
        self._basis = {name: found.basis for name, found in expected.items()}
        self._numbers = Counter(self._basis.values())
        cases = ("short_ns", "usual_ns", "long_ns")
        self._run_ns = [{name: int(getattr(found, case)) for name, found in expected.items()} for case in cases]
        self._cases = [self._run_ns.index(case) for case in self._run_ns]  # equal cases run once
        self._known = [_KnownStarts({}, is_over=False) for _ in cases]

    def of(self, target: ApplicationId, on_copy: OnCopy, may_go_on: Callable[[], bool] = lambda: True) -> Forecast:
        """Estimates the start of an application that waits. `on_copy`: copies the core."""

        def start_ns(case: int) -> int | None:
            known, run_ns = self._known[case], self._run_ns[case]
            if target not in known.after_ns and not known.is_over:
                least = 2 * len(known.after_ns)  # so that the next questions do not each run a little further
                found = on_copy(lambda copy: _starts(copy, self._partition, target, run_ns, least, may_go_on))
                known = self._known[case] = max(known, found, key=lambda one: (one.is_over, len(one.after_ns)))
            return known.after_ns.get(target)

        basis = Counter(self._numbers)
        if target in self._basis:
            basis[self._basis[target]] -= 1
        early_ns, usual_ns, late_ns = map(start_ns, self._cases)
        return Forecast(early_ns, usual_ns, late_ns, +basis)


@dataclass(frozen=True, slots=True)
class _KnownStarts:
    """Nanoseconds until applications started. `is_over`: no other one starts within `LONGEST_NS`."""

    after_ns: dict[ApplicationId, int]
    is_over: bool


def _starts(
    core: VirtualCore,
    partition_id: PartitionId,
    target: ApplicationId,
    run_ns: Mapping[ApplicationId, int],
    least: int,
    may_go_on: Callable[[], bool],
) -> _KnownStarts:
    """Lets the cluster run until the application, and at least so many, have started. The core is changed."""
    partition = core.scheduler_state.partitions[partition_id]
    began_ns = core.now_ns
    timeline = Timeline(began_ns, LONGEST_NS, NOTHING, "", Counter())
    outside = Outside((), partition, timeline, Latencies())
    for app in partition.applications.values():
        _adopt(outside, app, run_ns.get(app.id, _FOREVER_NS), began_ns)
    after_ns = {app.id: 0 for app in partition.applications.values() if has_started(app)}
    effects = core.send(())
    while may_go_on():
        changed = _changed(effects)
        while answers := outside.receive(effects):
            effects = core.send(answers)
            changed |= _changed(effects)
        for name in changed - after_ns.keys():
            if has_started(partition.applications.get(name)):
                after_ns[name] = core.now_ns - began_ns
        wanted = partition.applications.get(target)
        is_decided = target in after_ns or wanted is None or wanted.state in _ENDED
        if is_decided and len(after_ns) >= least:
            return _KnownStarts(after_ns, is_over=False)
        times = [at_ns for at_ns in (outside.next_ns(), core.timers.next_ns()) if at_ns is not None]
        if not times or min(times) > began_ns + LONGEST_NS:
            return _KnownStarts(after_ns, is_over=True)
        core.now_ns = max(core.now_ns, min(times))
        effects = core.send(outside.due(core.now_ns))
    return _KnownStarts(after_ns, is_over=False)


def _changed(effects: Iterable[Effect]) -> set[ApplicationId]:
    """The applications that the effects are about."""
    found: set[ApplicationId] = set()
    for effect in effects:
        if isinstance(effect, ApplicationUpdated):
            found.add(effect.application)
        elif isinstance(effect, AllocationResponse):
            found.update(new.ask.application for new in effect.new)
            found.update(one.application for one in effect.released)
            found.update(one.application for one in effect.released_asks)
    return found


def _adopt(outside: Outside, app: Application, run_ns: int, now_ns: int) -> None:
    """Gives the application with its present pods to the model of the outside."""
    pods = [Pod(ask.spec) for ask in app.asks.values() if not ask.spec.is_virtual]
    for one in app.allocations.values():
        if not one.spec.is_virtual:
            started_ns = 0 if one.spec.placeholder else one.allocated_ns or now_ns
            pods.append(Pod(one.spec, one.node, started_ns, one.releasing is not None))
    real = [pod for pod in pods if not pod.request.placeholder]
    templates = {(pod.request.group, pod.request.resources): pod.request for pod in pods}
    counts = Counter((pod.request.group, pod.request.resources) for pod in real or pods)
    pod_sets = tuple(PodSet(counts[key], template) for key, template in templates.items() if counts[key])
    record = JobRecord(Job(app.spec, pod_sets, app.submitted_ns, run_ns), JobState.WAITING, app.queue.path)
    record.pods = {pod.request.key: pod for pod in pods}
    record.unstarted = sum(not pod.started_ns for pod in real) if real else len(pods)
    record.unended = len(real or pods)
    if has_started(app):
        record.state = JobState.RUNNING
        record.started_ns = record.running_since_ns = max((pod.started_ns for pod in real), default=now_ns)
    ends: list[tuple[int, Pod | None]] = []
    if app.removed or app.state in _ENDED:
        record.state, record.pods = JobState.COMPLETED, {}
    elif not app.spec.is_gang:
        ends = [(_end_ns(pod.started_ns, run_ns, now_ns), pod) for pod in real if pod.started_ns]
    elif record.started_ns:
        ends = [(_end_ns(record.started_ns, run_ns, now_ns), None)]
    outside.adopt(record, ends)


def _end_ns(began_ns: int, run_ns: int, now_ns: int) -> int:
    """When something ends that runs since then. If it is overdue, as much time again is expected."""
    ends_ns = began_ns + run_ns
    return ends_ns if ends_ns > now_ns else now_ns + max(now_ns - began_ns, 1)
