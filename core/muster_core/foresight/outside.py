"""The model of everything around the core: job submission, kubelets that run pods, controllers that replace pods.

`simulation` asks for the events of an instant and passes the effects of the core. A pod starts some time after it got
its node, runs, and ends; a pod that the core releases ends after its grace period, and its job creates another one. No
pod fails by itself.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import count
from typing import Final

from muster_core.foresight.timeline import Timeline
from muster_core.foresight.workload import PARTITION, Job
from muster_core.model.effects import (
    AllocationResponse,
    ApplicationAccepted,
    ApplicationRejected,
    ApplicationUpdated,
    Effect,
    NewAllocation,
    Release,
)
from muster_core.model.events import AllocationReleased, ApplicationAdded, AskAdded, AskReleased, Event
from muster_core.model.ids import NO_NODE, AllocationId, AllocationKey, ApplicationId, NodeId, Termination
from muster_core.model.resources import Resources
from muster_core.model.specs import AskSpec, GangPlacement
from muster_core.model.states import ApplicationState
from muster_core.state.scheduler_state import Partition
from muster_si import keys


@dataclass(frozen=True, slots=True)
class Latencies:
    """Nanoseconds from the decision about a node until the pod runs (bind, images, containers), and from its deletion
    until it has ended.
    """

    start_ns: int = 0
    stop_ns: int = 0


class JobState(StrEnum):
    """What has become of a job."""

    UNSUBMITTED = "unsubmitted"
    WAITING = "waiting"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    REJECTED = "rejected"


@dataclass(slots=True, eq=False)
class Pod:
    """One pod. `node`: empty until it has one. `started_ns`: since when it runs; 0 = it does not run."""

    request: AskSpec
    node: NodeId = NO_NODE
    started_ns: int = 0
    is_stopping: bool = False


@dataclass(slots=True, eq=False)
class JobRecord:
    """One job with its pods. Times are 0 until they are known.

    `started_ns`: when it ran completely for the first time. `lost`: amount times nanoseconds of work that preemption
    threw away. `attempt`: grows when the job starts again from the beginning.
    """

    job: Job
    state: JobState = JobState.UNSUBMITTED
    queue: str = ""
    started_ns: int = 0
    ended_ns: int = 0
    preemptions: int = 0
    lost: dict[str, int] = field(default_factory=dict)
    reason: str = ""
    attempt: int = 0
    pods: dict[AllocationKey, Pod] = field(default_factory=dict)
    #: Pods that still have to start; pods that still have to end.
    unstarted: int = 0
    unended: int = 0
    running_since_ns: int = 0
    _made: int = 0

    @property
    def is_over(self) -> bool:
        """Whether nothing more happens to it."""
        return self.state in _OVER

    def new_pod(self, template: AskSpec, now_ns: int, *, placeholder: bool = False) -> Pod:
        """Creates a pod with a name of its own."""
        key = AllocationKey(f"{self.job.id}.{self._made}")
        request = replace(template, application=self.job.id, key=key, created_ns=now_ns, placeholder=placeholder)
        self._made += 1
        pod = self.pods[key] = Pod(request)
        return pod


_OVER: Final = (JobState.COMPLETED, JobState.FAILED, JobState.REJECTED)

#: Order of what happens at one instant: what ends comes before what begins.
_ENDS, _STARTS, _SUBMITS = range(3)
_Handler = Callable[[JobRecord, object], None]


class Outside:  # long: one method for each thing that can happen
    """All jobs and pods. `due` and `receive` are called with times that never decrease."""

    def __init__(self, jobs: Iterable[Job], partition: Partition, timeline: Timeline, latencies: Latencies) -> None:
        self.records = {job.id: JobRecord(job) for job in jobs}
        self.over = 0
        self._partition = partition
        self._timeline = timeline
        self._latencies = latencies
        self._order = count()
        self._pending: list[tuple[int, int, int, _Handler, JobRecord, object]] = []
        self._events: list[Event] = []
        self._now_ns = 0
        for record in self.records.values():
            self._plan(record.job.submit_ns, _SUBMITS, self._submit, record)

    def adopt(self, record: JobRecord, ends: Iterable[tuple[int, Pod | None]]) -> None:
        """Takes over a job that exists. `ends`: when which of its pods, or (None) the complete gang, has run."""
        self.records[record.job.id] = record
        for at_ns, pod in ends:
            if pod is None:
                self._plan(at_ns, _ENDS, self._complete, record, record.attempt)
            else:
                self._plan(at_ns, _ENDS, self._end_pod, record, pod)

    def next_ns(self) -> int | None:
        """Returns the time of the next happening, or None."""
        return self._pending[0][0] if self._pending else None

    def due(self, now_ns: int) -> list[Event]:
        """Lets everything happen that is due. Returns the events for the core."""
        self._now_ns, pending = now_ns, self._pending
        while pending and pending[0][0] <= now_ns:
            _, _, _, handler, record, subject = heapq.heappop(pending)
            handler(record, subject)
        return self._taken()

    def receive(self, effects: Iterable[Effect]) -> list[Event]:
        """Carries out what the core decided. Returns further events of the same instant."""
        for effect in effects:
            match effect:
                case AllocationResponse():
                    self._receive_response(effect)
                case ApplicationRejected():
                    self._reject(self.records[effect.application], effect.reason)
                case ApplicationUpdated():
                    self._update(self.records[effect.application], effect)
                case ApplicationAccepted():
                    record = self.records[effect.application]
                    record.queue = self._partition.applications[effect.application].queue.path
                case _:
                    pass
        return self._taken()

    def _taken(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _plan(self, at_ns: int, rank: int, handler: _Handler, record: JobRecord, subject: object = None) -> None:
        heapq.heappush(self._pending, (at_ns, rank, next(self._order), handler, record, subject))

    # --- jobs -------------------------------------------------------------------------------------------------------

    def _submit(self, record: JobRecord, _: object) -> None:
        job, timeline = record.job, self._timeline
        record.state = JobState.WAITING
        record.unstarted = record.unended = job.pods
        timeline.waiting += 1
        self._want(record, 1)
        self._events.append(ApplicationAdded(job.application))
        is_reserved = job.application.is_gang and job.application.gang_placement is GangPlacement.RESERVE
        self._create(record, placeholder=is_reserved)

    def _create(self, record: JobRecord, *, placeholder: bool = False) -> None:
        for pod_set in record.job.pod_sets:
            for _ in range(pod_set.count):
                pod = record.new_pod(pod_set.request, self._now_ns, placeholder=placeholder)
                self._events.append(AskAdded(pod.request))

    def _want(self, record: JobRecord, sign: int) -> None:
        """Counts what the job needs at once as wanted, or (-1) no longer."""
        wanted, job = self._timeline.wanted, record.job
        shapes = [job.resources] if job.application.is_gang else [one.request.resources for one in job.pod_sets]
        for shape in shapes:
            wanted[shape] += sign
            if not wanted[shape]:
                del wanted[shape]

    def _begin(self, record: JobRecord) -> None:
        """All pods of the job run."""
        if not record.started_ns:
            record.started_ns = self._now_ns
        record.state, record.running_since_ns = JobState.RUNNING, self._now_ns
        self._timeline.waiting -= 1
        self._timeline.running += 1
        self._want(record, -1)
        if record.job.application.is_gang:
            self._timeline.idle -= record.job.resources
            if record.job.run_ns is not None:
                self._plan(self._now_ns + record.job.run_ns, _ENDS, self._complete, record, record.attempt)

    def _interrupt(self, record: JobRecord) -> None:
        """The job no longer runs completely: it waits again. A gang loses its work."""
        record.attempt += 1
        record.state = JobState.WAITING
        self._timeline.waiting += 1
        self._timeline.running -= 1
        self._want(record, 1)
        if record.job.application.is_gang:
            self._lose(record, record.job.resources, record.running_since_ns)
            self._timeline.idle += record.job.resources

    def _lose(self, record: JobRecord, amounts: Resources, since_ns: int) -> None:
        for name, amount in amounts.items():
            record.lost[name] = record.lost.get(name, 0) + amount * (self._now_ns - since_ns)

    def _complete(self, record: JobRecord, attempt: object) -> None:
        """A gang has run for its time."""
        if record.attempt != attempt or record.is_over:
            return
        for pod in list(record.pods.values()):
            self._remove(record, pod)
        self._events.append(_released(record.job.id, None, None, Termination.STOPPED_BY_RM, keys.RELEASE_SUCCEEDED))
        self._end(record, JobState.COMPLETED)

    def _end(self, record: JobRecord, state: JobState, reason: str = "") -> None:
        if record.state is JobState.RUNNING:
            self._timeline.running -= 1
        elif record.state is JobState.WAITING:
            self._timeline.waiting -= 1
            self._want(record, -1)
        record.state, record.ended_ns, record.reason = state, self._now_ns, reason
        self.over += 1

    def _reject(self, record: JobRecord, reason: str) -> None:
        if not record.is_over:
            record.pods.clear()
            self._end(record, JobState.REJECTED, reason)

    def _update(self, record: JobRecord, effect: ApplicationUpdated) -> None:
        """Follows the state of the application: a gang with placeholders gets its pods, or fails."""
        if effect.state in (ApplicationState.FAILING, ApplicationState.FAILED):
            if not record.is_over:
                self._fail(record, effect.message)
            return
        is_resumed = effect.state is ApplicationState.RESUMING
        has_pods = record.is_over or any(not pod.request.placeholder for pod in record.pods.values())
        if not has_pods and (is_resumed or effect.state is ApplicationState.RUNNING):
            self._create(record)

    def _fail(self, record: JobRecord, reason: str) -> None:
        """The core fails the application: its pods are deleted. The core has released what it allocated itself."""
        for pod in list(record.pods.values()):
            if not pod.node:
                self._remove(record, pod)
        event = AskReleased(PARTITION, record.job.id, None, Termination.STOPPED_BY_RM)
        self._events.append(event)
        self._end(record, JobState.FAILED, reason)

    # --- pods -------------------------------------------------------------------------------------------------------

    def _receive_response(self, response: AllocationResponse) -> None:
        for new in response.new:
            self._bind(self.records[new.ask.application], new)
        for released in response.released:
            if released.termination is not Termination.STOPPED_BY_RM:
                self._stop(self.records[released.application], released)
        for cancelled in response.released_asks:
            record = self.records[cancelled.application]
            pod = record.pods.get(cancelled.key)
            if pod is not None and pod.request.placeholder:
                self._remove(record, pod)

    def _bind(self, record: JobRecord, new: NewAllocation) -> None:
        pod, timeline = record.pods[new.ask.key], self._timeline
        pod.node = new.node
        timeline.allocated += pod.request.resources
        timeline.idle += pod.request.resources
        if pod.request.placeholder:
            return
        if self._latencies.start_ns:
            self._plan(self._now_ns + self._latencies.start_ns, _STARTS, self._start, record, pod)
        else:
            self._start(record, pod)

    def _start(self, record: JobRecord, subject: object) -> None:
        pod = subject
        if not isinstance(pod, Pod) or pod.is_stopping or pod.request.key not in record.pods:
            return
        pod.started_ns = self._now_ns
        record.unstarted -= 1
        is_gang = record.job.application.is_gang
        if not is_gang:
            self._timeline.idle -= pod.request.resources
        if not record.unstarted and record.state is JobState.WAITING:
            self._begin(record)
        if not is_gang and record.job.run_ns is not None:
            self._plan(self._now_ns + record.job.run_ns, _ENDS, self._end_pod, record, pod)

    def _end_pod(self, record: JobRecord, subject: object) -> None:
        """A pod without a gang has run for its time."""
        pod = subject
        if not isinstance(pod, Pod) or pod.request.key not in record.pods:
            return
        self._remove(record, pod)
        key = pod.request.key
        self._events.append(_released(record.job.id, key, None, Termination.STOPPED_BY_RM, keys.RELEASE_SUCCEEDED))
        record.unended -= 1
        if not record.unended:
            self._end(record, JobState.COMPLETED)

    def _stop(self, record: JobRecord, released: Release) -> None:
        """The core wants the end of a pod."""
        pod = record.pods.get(released.key)
        if pod is not None:
            pod.is_stopping = True
        self._plan(self._now_ns + self._latencies.stop_ns, _ENDS, self._stopped, record, released)

    def _stopped(self, record: JobRecord, subject: object) -> None:
        released = subject
        if not isinstance(released, Release):
            return
        pod = record.pods.get(released.key)
        if pod is None:
            return  # it has ended by itself, and the core has received that
        self._events.append(_released(record.job.id, released.key, released.id, released.termination))
        was_started = bool(pod.started_ns)
        if was_started and record.state is JobState.RUNNING:
            self._interrupt(record)
        if was_started and not record.job.application.is_gang:
            self._lose(record, pod.request.resources, pod.started_ns)
        self._remove(record, pod)
        if pod.request.placeholder or record.is_over:
            return
        record.unstarted += was_started
        record.preemptions += 1
        template = record.job.pod_sets[0].request
        for pod_set in record.job.pod_sets:
            if pod_set.request.group == pod.request.group and pod_set.request.resources == pod.request.resources:
                template = pod_set.request
        self._events.append(AskAdded(record.new_pod(template, self._now_ns).request))

    def _remove(self, record: JobRecord, pod: Pod) -> None:
        del record.pods[pod.request.key]
        if not pod.node:
            return
        self._timeline.allocated -= pod.request.resources
        is_running = pod.started_ns and (not record.job.application.is_gang or record.state is JobState.RUNNING)
        if not is_running:
            self._timeline.idle -= pod.request.resources


def _released(
    application: ApplicationId,
    key: AllocationKey | None,
    identity: AllocationId | None,
    termination: Termination,
    message: str = "",
) -> AllocationReleased:
    return AllocationReleased(PARTITION, application, key, identity, termination, message)
