"""Measures of a simulation: waits, slowdown, utilization, fragmentation, preemption and fairness.

docs/operate/simulation.md defines them. Times are in seconds, resources in the units of the core.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from muster_core.foresight.outside import JobRecord, JobState
from muster_core.foresight.simulation import Run
from muster_core.foresight.workload import SECOND

#: Jobs shorter than this count as this long in the bounded slowdown.
_SHORTEST_S: Final = 10.0

#: Reasons of a summary.
_MOST_REASONS: Final = 100


@dataclass(frozen=True, slots=True)
class Distribution:
    """Mean and percentiles of some values; all 0 without values."""

    mean: float
    p50: float
    p95: float
    p99: float
    max: float

    @staticmethod
    def of(values: Iterable[float]) -> Distribution:
        """Returns the distribution of these values."""
        found = np.array(list(values) or [0.0])
        p50, p95, p99 = (float(one) for one in np.percentile(found, (50, 95, 99)))
        return Distribution(float(found.mean()), p50, p95, p99, float(found.max()))


@dataclass(frozen=True, slots=True)
class GroupMeasures:
    """The jobs of one queue or user.

    `service`: running time divided by time from submission to end, weighted by resources. `finish_time_ratio`: time
    from submission to end divided by the running time in an equal share of the cluster.
    """

    name: str
    jobs: int
    wait_s: Distribution
    bounded_slowdown: Distribution
    service: float
    finish_time_ratio: Distribution


@dataclass(frozen=True, slots=True)
class UnstartedJobs:
    """Jobs of one state at the end that have the same reason."""

    state: str
    reason: str
    jobs: int


@dataclass(frozen=True, slots=True)
class Summary:
    """Measures of one run. Shares are of the capacity from the first submission to the end, 0 to 1, by resource.

    `jobs`: number of jobs by state at the end. `reasons`: why they did not start, by state and reason, the most
    frequent first. `idle`: allocated to jobs that do not run. `unused`: free while a
    waiting job would fit by its amounts. `fragmented` and `reserved`: of the resource `main`. `lost`: amounts times
    seconds.
    """

    jobs: Mapping[str, int]
    reasons: Sequence[UnstartedJobs]
    main: str
    wait_s: Distribution
    bounded_slowdown: Distribution
    makespan_s: float
    utilization: Mapping[str, float]
    idle: Mapping[str, float]
    unused: Mapping[str, float]
    fragmented: float
    reserved: float
    preemptions: int
    lost: Mapping[str, float]
    jain_queues: float
    jain_users: float
    queues: Sequence[GroupMeasures]
    users: Sequence[GroupMeasures]


def wait_s(record: JobRecord) -> float:
    """Returns the time from the submission until all pods run for the first time. The job must have started."""
    return (record.started_ns - record.job.submit_ns) / SECOND


def run_s(record: JobRecord) -> float:
    """Returns the running time of the job without interruption. The job must have an end."""
    return (record.job.run_ns or 0) / SECOND


def slowdown(record: JobRecord) -> float:
    """Returns the bounded slowdown of a completed job."""
    total_s = (record.ended_ns - record.job.submit_ns) / SECOND
    return max(1.0, total_s / max(run_s(record), _SHORTEST_S))


def summary(run: Run) -> Summary:
    """Returns the measures of a run."""
    timeline, records = run.timeline, run.records
    span_ns = max(timeline.now_ns - timeline.start_ns, 1)
    started = [record for record in records if record.started_ns]
    completed = [record for record in records if record.state is JobState.COMPLETED]
    capacity, main = timeline.capacity, timeline.main
    requested = sorted({name for record in records for one in record.job.pod_sets for name in one.request.resources})

    def shares(integral: Mapping[str, int]) -> dict[str, float]:
        return {name: integral.get(name, 0) / (capacity[name] * span_ns) for name in requested if capacity[name]}

    reasons = Counter((record.state.value, record.reason) for record in records if record.reason)
    states: dict[str, int] = {state.value: 0 for state in JobState}
    lost: dict[str, float] = defaultdict(float)
    for record in records:
        states[record.state] += 1
        for name, amount_ns in record.lost.items():
            lost[name] += amount_ns / SECOND
    total = max(capacity[main], 1)
    fragmented = float(np.mean([sample.fragmented for sample in timeline.samples] or [0.0])) / total
    queues, users = _groups(run, "queue"), _groups(run, "user")
    return Summary(
        jobs=states,
        reasons=[UnstartedJobs(*key, jobs) for key, jobs in reasons.most_common(_MOST_REASONS)],
        main=main,
        wait_s=Distribution.of(wait_s(record) for record in started),
        bounded_slowdown=Distribution.of(slowdown(record) for record in completed),
        makespan_s=(max((record.ended_ns for record in completed), default=timeline.start_ns) - timeline.start_ns)
        / SECOND,
        utilization=shares(timeline.used_ns),
        idle=shares(timeline.idle_ns),
        unused=shares(timeline.unused_ns),
        fragmented=fragmented,
        reserved=timeline.reserved_ns / (total * span_ns),
        preemptions=sum(record.preemptions for record in records),
        lost=dict(lost),
        jain_queues=jain(group.service for group in queues),
        jain_users=jain(group.service for group in users),
        queues=queues,
        users=users,
    )


def jain(values: Iterable[float]) -> float:
    """Returns Jain's fairness index: 1 = all values are equal, 1/n = one has everything."""
    found = list(values)
    squares = sum(value * value for value in found)
    return sum(found) ** 2 / (len(found) * squares) if squares else 1.0


def _groups(run: Run, by: str) -> list[GroupMeasures]:
    members: dict[str, list[JobRecord]] = defaultdict(list)
    for record in run.records:
        if record.state not in (JobState.REJECTED, JobState.UNSUBMITTED):
            members[record.queue if by == "queue" else record.job.application.user].append(record)
    share = run.timeline.capacity[run.timeline.main] / max(len(members), 1)
    return [_group(name, members[name], run, share) for name in sorted(members)]


def _group(name: str, records: Sequence[JobRecord], run: Run, share: float) -> GroupMeasures:
    main, end_ns = run.timeline.main, run.timeline.now_ns
    completed = [record for record in records if record.state is JobState.COMPLETED]
    served = demanded = 0.0
    for record in records:
        amount = record.job.resources[main]
        until_ns = record.ended_ns or end_ns
        demanded += amount * (until_ns - record.job.submit_ns) / SECOND
        if record.state is JobState.COMPLETED:
            served += amount * run_s(record)
        elif record.running_since_ns and not record.ended_ns:
            served += amount * (until_ns - record.running_since_ns) / SECOND
    ratios = [
        (record.ended_ns - record.job.submit_ns)
        / SECOND
        / (max(run_s(record), 1.0) * max(1.0, record.job.resources[main] / max(share, 1.0)))
        for record in completed
    ]
    return GroupMeasures(
        name=name,
        jobs=len(records),
        wait_s=Distribution.of(wait_s(record) for record in records if record.started_ns),
        bounded_slowdown=Distribution.of(slowdown(record) for record in completed),
        service=served / demanded if demanded else 1.0,
        finish_time_ratio=Distribution.of(ratios),
    )
