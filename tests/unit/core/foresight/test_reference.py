"""The simulator agrees with an independent implementation of FIFO and greedy scheduling."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from muster_core.config.load import load
from muster_core.foresight import measures
from muster_core.foresight.simulation import Run, simulate
from muster_core.foresight.workload import SECOND, START_NS, TraceOptions, read_nodes, read_trace
from tests.unit.core.foresight.reference import Rigid, waits

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


def expected(*, fifo: bool) -> list[int]:
    jobs = [
        Rigid((job.submit_ns - START_NS) // SECOND, (job.run_ns or 0) // SECOND, job.pods) for job in read_trace(LINES)
    ]
    return waits(jobs, CAPACITY, fifo=fifo)


@pytest.mark.parametrize("queues", [STRICT, OPEN], ids=["fifo", "greedy"])
def test_every_wait_equals_that_of_an_independent_scheduler(queues: str) -> None:
    reference = expected(fifo=queues is STRICT)
    assert max(reference) > 3600
    run = simulated(queues)
    assert [measures.wait_s(record) for record in run.records] == reference


def test_the_policies_differ_on_this_trace() -> None:
    assert sum(expected(fifo=True)) > 1.05 * sum(expected(fifo=False))
