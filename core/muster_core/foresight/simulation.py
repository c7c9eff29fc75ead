"""A simulation from beginning to end: jobs on nodes under a configuration.

    from muster_core.foresight import measures, workload
    from muster_core.foresight.simulation import simulate

    nodes = workload.read_nodes(open("nodes.csv"))
    jobs = workload.read_trace(open("trace.csv"))
    run = simulate(nodes, jobs, load(open("queues.yaml").read(), {}).configuration)
    print(measures.summary(run))

The result depends on the arguments only: the same input gives the same result on every machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from muster_core.foresight.outlook import waiting_reason
from muster_core.foresight.outside import JobRecord, JobState, Latencies, Outside
from muster_core.foresight.timeline import Timeline
from muster_core.foresight.virtual_core import VirtualCore
from muster_core.foresight.workload import GPU, GPU_SHARE, PARTITION, RM, SECOND, START_NS, Job
from muster_core.model.config import Configuration
from muster_core.model.events import ManagerRegistered, NodeAdded
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.specs import NodeSpec
from muster_si import keys

#: How long the timers of the core continue after everything else has ended, before the waiting jobs count as stuck.
_SETTLE_NS: Final = 24 * 3600 * SECOND

#: Samples of the time between the first and the last submission.
_SAMPLES: Final = 256

#: Calls of `progress` are at least this number of events apart.
_REPORTED: Final = 256

Progress = Callable[[int, int], None]


def no_progress(over: int, total: int) -> None:
    """Reports nothing."""


Observer = Callable[[VirtualCore, Outside], None]


def no_observer(core: VirtualCore, outside: Outside) -> None:
    """Observes nothing."""


@dataclass(frozen=True, slots=True)
class Run:
    """Result of a simulation. `nodes`: their number. `events`: events and timers of the core."""

    records: Sequence[JobRecord]
    timeline: Timeline
    nodes: int
    events: int


def simulate(
    nodes: Sequence[NodeSpec],
    jobs: Sequence[Job],
    configuration: Configuration,
    latencies: Latencies | None = None,
    progress: Progress = no_progress,
    observe: Observer = no_observer,
) -> Run:
    """Runs all jobs. `progress` is called with the number of jobs that are over, and of all jobs.

    `observe` is called after each instant, and only reads: for forecasts, and for tests.

    It ends when all jobs are over, or when nothing but timers has happened for a day of virtual time.
    """
    core = VirtualCore(START_NS)
    added = (NodeAdded(node, draining=node.cordoned) for node in nodes)
    core.send([ManagerRegistered(RM, replace(configuration, tracking=False)), *added])
    partition, timeline = core.scheduler_state.partitions[PARTITION], _timeline(nodes, jobs)
    outside = Outside(jobs, partition, timeline, latencies or Latencies())
    events, reported = 0, 0
    settled_ns = 0
    while outside.over < len(outside.records):
        happens_ns, rings_ns = outside.next_ns(), core.timers.next_ns()
        if happens_ns is not None:
            settled_ns = happens_ns + _SETTLE_NS
        now_ns = min(at_ns for at_ns in (happens_ns, rings_ns, settled_ns) if at_ns is not None)
        if happens_ns is None and now_ns >= settled_ns:
            break
        timeline.advance(now_ns, partition.nodes)
        core.now_ns = max(core.now_ns, now_ns)
        due = outside.due(now_ns)
        events += len(due)
        effects = core.send(due)
        while answers := outside.receive(effects):
            events += len(answers)
            effects = core.send(answers)
        observe(core, outside)
        if events - reported >= _REPORTED:
            reported = events
            progress(outside.over, len(outside.records))
    progress(outside.over, len(outside.records))
    for record in outside.records.values():
        if record.state is JobState.WAITING:
            record.reason = waiting_reason(partition.applications[record.job.id])
    return Run(tuple(outside.records.values()), timeline, len(nodes), events)


def _timeline(nodes: Sequence[NodeSpec], jobs: Sequence[Job]) -> Timeline:
    capacity = sum((node.capacity - node.occupied for node in nodes), NOTHING)
    mix: Counter[Resources] = Counter()
    for job in jobs:
        for pod_set in job.pod_sets:
            mix[pod_set.request.resources] += pod_set.count
    main = next((name for name in (GPU_SHARE, GPU) if any(shape[name] for shape in mix)), keys.CPU)
    span_ns = max((job.submit_ns for job in jobs), default=START_NS) - START_NS
    return Timeline(START_NS, span_ns // _SAMPLES, capacity, main, mix)
