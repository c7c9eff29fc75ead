"""The operator with two instruments in it: `python -m benchmarks.measured_operator FILE [its own options]`.

Everything is as in `python -m muster_operator`, but the loop notes when it has handled an event that carries the time
of its writing, and a task notes how late it is woken: the longest pause that a probe or a renewal would meet. SIGUSR1
writes what was noted since the last time to FILE.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path
from typing import Final

import orjson

from benchmarks.peak import peak_mib
from benchmarks.stand_in import STAMP
from muster_operator import assembly as product
from muster_operator.link.inbox import Inbox, Input, Seen
from muster_operator.link.loop import Loop
from muster_operator.main import app
from muster_operator.model.outcome import Outcome
from muster_operator.translate.raw import Raw
from muster_operator.translate.sketch import Sketch

BEAT_S: Final = 0.002
_MARK: Final = f'"{STAMP}":"'.encode()


class Notes:
    """What was noted since the last report."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.lags_ms: list[float] = []
        self.pauses_ms: list[float] = []

    def report(self) -> None:
        """Write and begin anew."""
        lags, pauses = sorted(self.lags_ms), sorted(self.pauses_ms)
        self._path.with_suffix(".new").write_bytes(
            orjson.dumps(
                {
                    "events": len(lags),
                    "lag_ms": {"p50": _at(lags, 0.5), "p99": _at(lags, 0.99), "max": _at(lags, 1.0)},
                    "pause_ms": {"p99": _at(pauses, 0.99), "max": _at(pauses, 1.0), "longest": pauses[-8:]},
                    "peak_rss_mib": peak_mib(),
                    "cpu_s": time.process_time(),
                }
            )
        )
        self._path.with_suffix(".new").rename(self._path)
        self.lags_ms, self.pauses_ms = [], []


def _at(ordered: list[float], share: float) -> float:
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 3) if ordered else 0.0


def _stamp(json: bytes) -> bytes:
    """The time of writing, looked for and not decoded: the product does not read it."""
    at = json.find(_MARK) + len(_MARK)
    return json[at : at + 20] if at >= len(_MARK) else b""


class Stamped(Seen, frozen=True, gc=False):
    """A fact, and when the server wrote the object that it is from, nanoseconds of the monotonic clock."""

    written_ns: int


class MeasuredInbox(Inbox):
    """The product's inbox; facts of stamped objects are stamped."""

    def _take_in(self, plural: str, kind: str | None, raw: Raw | Sketch) -> None:
        super()._take_in(plural, kind, raw)
        stamp = _stamp(bytes(raw.json)) if isinstance(raw, Sketch) and raw.is_event else b""
        if stamp and self._waiting and isinstance(seen := self._waiting[-1], Seen):
            self._waiting[-1] = Stamped(seen.fact, int(stamp))


class MeasuredLoop(Loop):
    """The product's loop; `notes` is set before it is made."""

    notes: Notes

    def _handle(self, item: Input | None, out: Outcome, now: float) -> None:
        super()._handle(item, out, now)
        if isinstance(item, Stamped):
            self.notes.lags_ms.append((time.monotonic_ns() - item.written_ns) / 1e6)

    async def run(self) -> None:
        """Beside the heart."""
        heart = asyncio.create_task(_beat(self.notes))
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self.notes.report)
        try:
            await super().run()
        finally:
            heart.cancel()


async def _beat(notes: Notes) -> None:
    while True:
        before = time.perf_counter()
        await asyncio.sleep(BEAT_S)
        notes.pauses_ms.append((time.perf_counter() - before - BEAT_S) * 1000)


if __name__ == "__main__":
    MeasuredLoop.notes = Notes(Path(sys.argv.pop(1)))
    product.Inbox = MeasuredInbox  # type: ignore[attr-defined] # the same seam
    product.Loop = MeasuredLoop  # type: ignore[attr-defined] # the only seam: the product wires its own loop
    app()
