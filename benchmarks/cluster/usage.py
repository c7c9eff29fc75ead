"""What processes cost: CPU seconds since a mark, those of everybody else on the machine too, and resident memory."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import psutil

from devcluster.process import Process

OTHERS = "others"
"""Processes that are not part of the benchmark: how busy the machine was with something else."""
OURSELVES = "load generator"


@dataclass(frozen=True, slots=True)
class Mark:
    """CPU seconds used so far, by name of the process, and by the whole machine."""

    seconds: Mapping[str, float]
    machine: float

    def since(self, processes: Iterable[Process]) -> dict[str, float]:
        """CPU seconds used since this mark."""
        now = mark(processes)
        used = {name: seconds - self.seconds.get(name, 0.0) for name, seconds in now.seconds.items()}
        used[OTHERS] = max(0.0, now.machine - self.machine - sum(used.values()))
        return {name: round(seconds, 2) for name, seconds in used.items()}


class Stopwatch:
    """Where the seconds of a run go; ``laps`` by name."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.monotonic()

    def lap(self, name: str) -> None:
        """What was done since the last lap."""
        now = time.monotonic()
        self.laps[name] = round(now - self._last, 1)
        self._last = now


def mark(processes: Iterable[Process]) -> Mark:
    """What these processes, this one, and the machine have used up to now."""
    used = {process.name: _seconds(psutil.Process(process.pid)) for process in processes if process.pid is not None}
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    return Mark({**used, OURSELVES: _seconds(psutil.Process())}, float(sum(times) - idle))


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
