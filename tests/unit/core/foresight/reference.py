"""FIFO, greedy and EASY scheduling of a flat capacity, written independently of Muster: a witness for the simulator.

Each job needs some processors of one pool for a time. FIFO: no job starts before an earlier one. Greedy: at each event,
the waiting jobs are tried in the order of submission, and each one that fits starts. EASY (Lifka 1995): the first job
that does not fit gets a reservation at the earliest time at which enough running jobs have ended by their estimates;
later jobs start if they do not delay it.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Policy(Enum):
    """See the module."""

    FIFO = "fifo"
    GREEDY = "greedy"
    EASY = "easy"


@dataclass(frozen=True)
class Rigid:
    """A job that needs `size` processors for `run_s`; its user expects `estimate_s`."""

    submit_s: int
    run_s: int
    size: int
    estimate_s: int = 0


def waits(jobs: Sequence[Rigid], capacity: int, policy: Policy) -> list[int]:
    """Return the wait of each job. The jobs are ordered by submission, and each fits the capacity."""
    free, arrived = capacity, 0
    queue: list[int] = []
    running: list[tuple[int, int, int]] = []
    found = [0] * len(jobs)
    while arrived < len(jobs) or running:
        times = [jobs[arrived].submit_s] if arrived < len(jobs) else []
        now = min([*times, *(end for end, _, _ in running[:1])])
        while running and running[0][0] <= now:
            free += jobs[heapq.heappop(running)[1]].size
        while arrived < len(jobs) and jobs[arrived].submit_s <= now:
            queue.append(arrived)
            arrived += 1
        left: list[int] = []
        shadow_s, spare = 0, 0
        for number in queue:
            job = jobs[number]
            is_free = job.size <= free
            if left and policy is Policy.FIFO:
                is_free = False
            elif left and policy is Policy.EASY and now + max(job.run_s, job.estimate_s) > shadow_s:
                is_free = job.size <= min(free, spare)
                spare -= job.size if is_free else 0
            if is_free:
                free -= job.size
                found[number] = now - job.submit_s
                heapq.heappush(running, (now + job.run_s, number, now + max(job.run_s, job.estimate_s)))
            else:
                if not left:
                    shadow_s, spare = _reservation(job, jobs, free, running)
                left.append(number)
        queue = left
    return found


def _reservation(
    head: Rigid, jobs: Sequence[Rigid], free: int, running: Sequence[tuple[int, int, int]]
) -> tuple[int, int]:
    """Return when the head job can start by the estimates, and how many processors it leaves free then."""
    for estimated_s, number in sorted((estimated_s, number) for _, number, estimated_s in running):
        free += jobs[number].size
        if free >= head.size:
            return estimated_s, free - head.size
    raise AssertionError("the job does not fit the capacity")
