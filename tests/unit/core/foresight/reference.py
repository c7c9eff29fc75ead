"""FIFO and greedy scheduling of a flat capacity, written independently of Muster: a witness for the simulator.

Each job needs some processors of one pool for a time. `fifo`: no job starts before an earlier one. `greedy`: at each
event, the waiting jobs are tried in the order of submission, and each one that fits starts.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Rigid:
    """A job that needs `size` processors for `run_s`."""

    submit_s: int
    run_s: int
    size: int


def waits(jobs: Sequence[Rigid], capacity: int, *, fifo: bool) -> list[int]:
    """Return the wait of each job. The jobs are ordered by submission, and each fits the capacity."""
    free, arrived = capacity, 0
    queue: list[int] = []
    running: list[tuple[int, int]] = []
    found = [0] * len(jobs)
    while arrived < len(jobs) or running:
        times = [jobs[arrived].submit_s] if arrived < len(jobs) else []
        now = min([*times, *(end for end, _ in running[:1])])
        while running and running[0][0] <= now:
            free += heapq.heappop(running)[1]
        while arrived < len(jobs) and jobs[arrived].submit_s <= now:
            queue.append(arrived)
            arrived += 1
        left: list[int] = []
        for number in queue:
            job = jobs[number]
            if job.size <= free and not (fifo and left):
                free -= job.size
                found[number] = now - job.submit_s
                heapq.heappush(running, (now + job.run_s, job.size))
            else:
                left.append(number)
        queue = left
    return found
