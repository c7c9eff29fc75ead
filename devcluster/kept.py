"""Records the processes and the folder of a cluster that ``KEEP=1`` or ``up`` left running, and stops them.

Each clone of the repository has its own record, so that no clone stops the cluster of another one.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson
import psutil

from devcluster.process import POLL_S, Process
from devcluster.programs import cache_root

CLONE = Path(__file__).resolve().parents[1]
"""The clone of the repository that this code belongs to."""

STOP_S = 1.0
"""Before SIGKILL. A kube-apiserver with open watches takes ten seconds to end, and its data is discarded anyway."""


@dataclass(frozen=True, slots=True)
class Running:
    """One process. ``started`` (Unix seconds) distinguishes it from a later process with the same id."""

    name: str
    pid: int
    started: float


@dataclass(frozen=True, slots=True)
class Kept:
    """A cluster that keeps running after its command has ended. ``processes`` is in stop order."""

    folder: Path
    kubeconfig: Path
    processes: tuple[Running, ...]

    def alive(self) -> list[psutil.Process]:
        """The processes that still run."""
        return [found for process in self.processes if (found := _find(process)) is not None]


def note_path() -> Path:
    """Path of this clone's record. It holds one kept cluster at a time."""
    return cache_root() / "kept" / f"{hashlib.sha256(str(CLONE).encode()).hexdigest()[:12]}.json"


def save(folder: Path, kubeconfig: Path, processes: Sequence[Process]) -> Kept:
    """Record a running cluster. ``processes`` is in start order."""
    running = [Running(p.name, p.pid, psutil.Process(p.pid).create_time()) for p in reversed(processes) if p.pid]
    kept = Kept(folder, kubeconfig, tuple(running))
    note_path().parent.mkdir(parents=True, exist_ok=True)
    note_path().write_bytes(orjson.dumps(asdict(kept), default=str))
    return kept


def load() -> Kept | None:
    """Return the recorded cluster, or None."""
    try:
        note = orjson.loads(note_path().read_bytes())
    except FileNotFoundError:
        return None
    processes = tuple(Running(**process) for process in note["processes"])
    return Kept(Path(note["folder"]), Path(note["kubeconfig"]), processes)


def stop(kept: Kept) -> None:
    """Stop every recorded process, then delete the folder and the record."""
    for process in kept.processes:
        for stop_signal in (psutil.Process.terminate, psutil.Process.kill):
            _stop_process(process, stop_signal)
    shutil.rmtree(kept.folder, ignore_errors=True)
    note_path().unlink(missing_ok=True)


def _stop_process(process: Running, send: Callable[[psutil.Process], None]) -> None:
    """Send the signal and wait up to STOP_S. A zombie counts as ended, because this process cannot reap it."""
    found = _find(process)
    if found is None:
        return
    send(found)
    until = time.monotonic() + STOP_S
    while _find(process) is not None and time.monotonic() < until:
        time.sleep(POLL_S)


def _find(process: Running) -> psutil.Process | None:
    try:
        found = psutil.Process(process.pid)
        same = abs(found.create_time() - process.started) < 1 and found.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return None
    return found if same else None
