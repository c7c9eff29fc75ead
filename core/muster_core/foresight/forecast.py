"""When a waiting application would start: a copy of the cluster runs forward, with expected run times.

Run times are declared (`activeDeadlineSeconds`, the estimate of a trace) or come from ended applications: those of the
same user and name, else of the user, else of the queue. The estimate is a range: with short run times, and with long
ones. What is submitted later is unknown, so a start can be later than the range.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from muster_core.foresight.outside import JobRecord, JobState, Latencies, Outside, Pod
from muster_core.foresight.timeline import Timeline
from muster_core.foresight.unblocking import OnCopy, has_started
from muster_core.foresight.virtual_core import VirtualCore
from muster_core.foresight.workload import Job, PodSet
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


def forecast(
    on_copy: OnCopy,
    core: VirtualCore,
    partition: PartitionId,
    target: ApplicationId,
    run_times: Callable[[Application], RunTime],
    may_go_on: Callable[[], bool] = lambda: True,
) -> Forecast:
    """Estimates the start of an application that waits. `core`: what `on_copy` copies; it is only read."""
    apps = core.scheduler_state.partitions[partition].applications
    expected = {app.id: run_times(app) for app in apps.values() if app.state not in _ENDED}

    known: dict[tuple[int, ...], int | None] = {}

    def start(attribute: str) -> int | None:
        run_ns = {name: int(getattr(found, attribute)) for name, found in expected.items()}
        key = tuple(run_ns.values())
        if key not in known:  # declared run times are the same in each case
            known[key] = on_copy(lambda copy: start_ns(copy, partition, target, run_ns, may_go_on))
        return known[key]

    basis = Counter(found.basis for name, found in expected.items() if name != target)
    return Forecast(start("short_ns"), start("usual_ns"), start("long_ns"), basis)


def start_ns(
    core: VirtualCore,
    partition_id: PartitionId,
    target: ApplicationId,
    run_ns: Mapping[ApplicationId, int],
    may_go_on: Callable[[], bool] = lambda: True,
) -> int | None:
    """Lets the cluster run until the application starts; returns the time until then, or None. The core is changed."""
    partition = core.scheduler_state.partitions[partition_id]
    began_ns = core.now_ns
    timeline = Timeline(began_ns, LONGEST_NS, NOTHING, "", Counter())
    outside = Outside((), partition, timeline, Latencies())
    for app in partition.applications.values():
        _adopt(outside, app, run_ns.get(app.id, _FOREVER_NS), began_ns)
    effects = core.send(())
    while may_go_on():
        while answers := outside.receive(effects):
            effects = core.send(answers)
        wanted = partition.applications.get(target)
        if has_started(wanted):
            return core.now_ns - began_ns
        times = [at_ns for at_ns in (outside.next_ns(), core.timers.next_ns()) if at_ns is not None]
        if wanted is None or wanted.state in _ENDED or not times or min(times) > began_ns + LONGEST_NS:
            return None
        core.now_ns = max(core.now_ns, min(times))
        effects = core.send(outside.due(core.now_ns))
    return None


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
