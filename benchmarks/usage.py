"""What processes cost: CPU seconds since a mark, and resident memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import psutil

from devcluster.process import Process


@dataclass(frozen=True, slots=True)
class Mark:
    """CPU seconds used so far, by name of the process."""

    seconds: Mapping[str, float]

    def since(self, processes: Iterable[Process]) -> dict[str, float]:
        """CPU seconds used since this mark."""
        return {name: round(used - self.seconds.get(name, 0.0), 2) for name, used in mark(processes).seconds.items()}


def mark(processes: Iterable[Process]) -> Mark:
    """What these processes, and this one, have used up to now."""
    used = {process.name: _seconds(psutil.Process(process.pid)) for process in processes if process.pid is not None}
    return Mark({**used, "load generator": _seconds(psutil.Process())})


def resident_mib(processes: Iterable[Process]) -> dict[str, float]:
    """Resident memory, MiB."""
    return {
        process.name: round(psutil.Process(process.pid).memory_info().rss / 2**20, 1)
        for process in processes
        if process.pid is not None
    }


def _seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
