"""The simulator agrees with an independent FIFO and greedy scheduler. Muster has no EASY backfill."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Final

import pytest

from muster_core.config.load import load
from muster_core.foresight import measures
from muster_core.foresight.simulation import Run, simulate
from muster_core.foresight.workload import SECOND, START_NS, TraceOptions, read_nodes, read_trace
from tests.unit.core.foresight.reference import Policy, Rigid, waits

LINES: Final = (Path(__file__).parent / "traces" / "hpc2n-400.csv").read_text().splitlines()
NODES: Final = ("name,cpu_milli,memory_mib,count", "node,2000,4096,120")
CAPACITY: Final = 240

#: A gang never overtakes an earlier gang that waits for quota, so a maximum of the capacity makes the queue strict.
QUEUES: Final = "partitions: [{queues: [{name: root, submitacl: '*', queues: [{name: default%s}]}]}]"
STRICT: Final = QUEUES % ", resources: {max: {vcore: '240'}}"
OPEN: Final = QUEUES % ""

#: Longer than the trace, so that no gang reserves nodes or quota because of its age.
NEVER: Final = {"gang.starvationAge": "10000h"}


def simulated(queues: str) -> Run:
    jobs = read_trace(LINES, options=TraceOptions(gang_from=1))
    return simulate(read_nodes(NODES), jobs, load(queues, NEVER).configuration)


def expected(policy: Policy, speed: int = 1) -> list[int]:
    estimates = [int(row["estimate_s"] or 0) for row in csv.DictReader(LINES)]
    jobs = [
        Rigid((job.submit_ns - START_NS) // SECOND // speed, (job.run_ns or 0) // SECOND, job.pods, estimate_s)
        for job, estimate_s in zip(read_trace(LINES), estimates, strict=True)
    ]
    return waits(jobs, CAPACITY, policy)


@pytest.mark.parametrize("queues", [STRICT, OPEN], ids=["fifo", "greedy"])
def test_every_wait_equals_that_of_an_independent_scheduler(queues: str) -> None:
    reference = expected(Policy.FIFO if queues is STRICT else Policy.GREEDY)
    assert max(reference) > 3600
    run = simulated(queues)
    assert [measures.wait_s(record) for record in run.records] == reference


def test_the_policies_differ_on_this_trace() -> None:
    assert sum(expected(Policy.FIFO)) > 1.05 * sum(expected(Policy.GREEDY))


def test_neither_policy_is_easy_backfill() -> None:
    """Muster cannot express it without estimates of run times. It differs with twice as many jobs per hour."""
    fifo, greedy, easy = (sum(expected(policy, speed=2)) for policy in Policy)
    assert fifo > 1.05 * easy
    assert abs(greedy - easy) > 0.01 * easy


def test_easy_never_delays_the_first_waiting_job() -> None:
    """The 3 and the 2 of the definition: one backfilled job ends before the reservation, one fits beside it."""
    jobs = [
        Rigid(0, 100, 6, 100),
        Rigid(1, 50, 8, 50),
        Rigid(2, 90, 4, 90),
        Rigid(3, 200, 4, 200),
        Rigid(4, 400, 2, 400),
    ]
    assert waits(jobs, 10, Policy.EASY) == [0, 99, 0, 147, 88]
    assert waits(jobs, 10, Policy.GREEDY)[1] > 99
