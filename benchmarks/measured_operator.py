"""The operator with instrumentation: `python -m benchmarks.measured_operator FILE [options of the operator]`.

It runs like `python -m muster_operator`. In addition, the loop records the delay of events that contain the time of
their writing. A task records how late it wakes up: the longest pause for a probe or a lease renewal. SIGUSR1 writes the
values since the last report to FILE. SIGUSR2 starts a comparison of pods and nodes with a list.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path
from typing import Any, ClassVar, Final

import orjson

from benchmarks.peak import peak_mib
from benchmarks.stand_in import STAMP
from muster_operator import running as product
from muster_operator.main import app
from muster_operator.model.cluster_events import ClusterEvent
from muster_operator.runtime.inputs import EventReceived, Input
from muster_operator.runtime.loop import Inbox, Loop
from muster_operator.translate.pod_classes import PartialPod
from muster_operator.translate.values import Raw

BEAT_S: Final = 0.002
_MARK: Final = f'"{STAMP}":"'.encode()


class Notes:
    """The values since the last report."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.lags_ms: list[float] = []
        self.pauses_ms: list[float] = []
        self.busy_ms: list[float] = []

    def report(self) -> None:
        """Write the values and reset them."""
        lags, pauses = sorted(self.lags_ms), sorted(self.pauses_ms)
        self._path.with_suffix(".new").write_bytes(
            orjson.dumps(
                {
                    "events": len(lags),
                    "lag_ms": {"p50": at(lags, 0.5), "p99": at(lags, 0.99), "max": at(lags, 1.0)},
                    "pause_ms": {"p99": at(pauses, 0.99), "max": at(pauses, 1.0), "longest": pauses[-8:]},
                    "busy_ms": max(self.busy_ms, default=0.0),
                    "peak_rss_mib": peak_mib(),
                    "cpu_s": time.process_time(),
                }
            )
        )
        self._path.with_suffix(".new").rename(self._path)
        self.lags_ms, self.pauses_ms, self.busy_ms = [], [], []


def at(ordered: list[float], share: float) -> float:
    """Return the value at this share of sorted values; 0 = there is none."""
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 3) if ordered else 0.0


def _stamp(json: bytes) -> bytes:
    """Find the time of writing in the bytes, because the product does not decode it."""
    at = json.find(_MARK) + len(_MARK)
    return json[at : at + 20] if at >= len(_MARK) else b""


class Stamped(EventReceived, frozen=True, gc=False):
    """An event with the time at which the server wrote its object, in nanoseconds of the monotonic clock."""

    written_ns: int


class MeasuredInbox(Inbox):
    """The product's inbox, with time stamps on events of stamped objects."""

    stamp = b""
    stamps: ClassVar[dict[int, bytes]] = {}

    def _take_in(self, plural: str, kind: str | None, raw: Raw | PartialPod) -> None:
        if isinstance(raw, PartialPod):
            self.stamp = _stamp(bytes(raw.json)) if raw.is_event else b""
        else:
            self.stamp = str((raw["metadata"].get("annotations") or {}).get(STAMP, "")).encode()
        super()._take_in(plural, kind, raw)

    def _put_fact(self, plural: str, key: str, fact: ClusterEvent) -> None:
        if self.stamp:
            self.stamps[id(fact)] = self.stamp
        super()._put_fact(plural, key, fact)

    def take(self) -> Input | None:
        """Take an input and its time stamp, if it has one."""
        item = super().take()
        if isinstance(item, EventReceived) and (stamp := self.stamps.pop(id(item.fact), b"")):
            return Stamped(item.fact, int(stamp))
        return item


class MeasuredLoop(Loop):
    """The product's loop. `notes` is set before it is created."""

    notes: Notes

    def _handle(self, *args: Any) -> None:  # the revisions that are compared pass different ones
        super()._handle(*args)
        for item in args:
            if isinstance(item, Stamped):
                self.notes.lags_ms.append((time.monotonic_ns() - item.written_ns) / 1e6)

    async def run(self) -> None:
        """Run the loop and the task that records pauses."""
        heart = asyncio.create_task(_beat(self.notes))
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self.notes.report)
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, lambda: self._inbox.suspect("pods", "nodes"))
        try:
            await super().run()
        finally:
            heart.cancel()


async def _beat(notes: Notes) -> None:
    """Record how late this task wakes up. `busy` is the part in which the loop's thread used the CPU."""
    while True:
        before, worked = time.perf_counter(), time.thread_time()
        await asyncio.sleep(BEAT_S)
        late = (time.perf_counter() - before - BEAT_S) * 1000
        notes.pauses_ms.append(late)
        notes.busy_ms.append(min(late, (time.thread_time() - worked) * 1000))


if __name__ == "__main__":
    MeasuredLoop.notes = Notes(Path(sys.argv.pop(1)))
    product.Inbox = MeasuredInbox  # type: ignore[attr-defined] # the same seam
    product.Loop = MeasuredLoop  # type: ignore[attr-defined] # the only seam: the product wires its own loop
    app()
