"""CPU seconds of processes and of the rest of the machine since a mark, and resident memory."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import psutil

from devcluster.process import Process

OTHERS = "others"
"""Name for all processes that are not part of the benchmark."""
OURSELVES = "load generator"


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds used so far, by process name and by the complete machine."""

    seconds: Mapping[str, float]
    machine: float

    def since(self, processes: Iterable[Process]) -> dict[str, float]:
        """Return the CPU seconds used since this mark."""
        now = mark(processes)
        used = {name: seconds - self.seconds.get(name, 0.0) for name, seconds in now.seconds.items()}
        used[OTHERS] = max(0.0, now.machine - self.machine - sum(used.values()))
        return {name: round(seconds, 2) for name, seconds in used.items()}


class Stopwatch:
    """Measures the seconds of the phases of a run; ``phases`` has them by name."""

    def __init__(self) -> None:
        self.phases: dict[str, float] = {}
        self._last = time.monotonic()

    def end_phase(self, name: str) -> None:
        """Record the time since the previous phase under this name."""
        now = time.monotonic()
        self.phases[name] = round(now - self._last, 1)
        self._last = now


def mark(processes: Iterable[Process]) -> Usage:
    """Return the CPU seconds that these processes, this process and the machine have used."""
    used = {process.name: _seconds(psutil.Process(process.pid)) for process in processes if process.pid is not None}
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    return Usage({**used, OURSELVES: _seconds(psutil.Process())}, float(sum(times) - idle))


def resident_mib(processes: Iterable[Process]) -> dict[str, float]:
    """Return the resident memory in MiB by process name."""
    return {
        process.name: round(psutil.Process(process.pid).memory_info().rss / 2**20, 1)
        for process in processes
        if process.pid is not None
    }


def _seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
