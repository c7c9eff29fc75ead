"""The core with instrumentation: `python -m benchmarks.measured_core FILE [options of the core]`.

It runs like `python -m muster_core`. In addition, it records the CPU time of each iteration of the scheduler task, of
each cycle, and of the iterations from an event or timer until there is no more work (`work`), and by which a task that
sleeps 20 ms wakes up late. SIGUSR1 writes the values since the last report to FILE. With the environment variable
MUSTER_BENCHMARK_PROFILE, the report also names where the CPU time went.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import orjson

from benchmarks.measured_operator import at
from benchmarks.peak import peak_mib, resident_mib
from benchmarks.stages import Samples, sampling
from muster_core.main import app
from muster_core.runtime import service
from muster_core.runtime.loop import Loop

BEAT_S: Final = 0.02
PROFILE: Final = "MUSTER_BENCHMARK_PROFILE"


class MeasuredLoop(Loop):
    """The product's loop. `notes` is set before it is created."""

    notes: Path
    samples: Samples | None = None

    async def run(self) -> None:
        """Run the loop and the task that records pauses."""
        self._clear()
        with ExitStack() as stack:
            if PROFILE in os.environ:
                self.samples = stack.enter_context(sampling())
            heart = asyncio.create_task(self._beat())
            asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self._report)
            try:
                await super().run()
            finally:
                heart.cancel()

    def _clear(self) -> None:
        self.iterations_ms: list[float] = []
        self.cycles_ms: list[float] = []
        self.busy_ms: list[float] = []
        self.work_ms: list[float] = []
        self._work_ms = 0.0
        self._is_work = False

    def _iterate(self) -> bool:
        began = time.thread_time()
        more = super()._iterate()
        took_ms = (time.thread_time() - began) * 1000
        self.iterations_ms.append(took_ms)
        self._work_ms += took_ms
        self._is_work |= self._received > 0
        if not more:
            if self._is_work:
                self.work_ms.append(self._work_ms)
            self._work_ms, self._is_work = 0.0, False
        return more

    def _schedule(self) -> None:
        began = time.thread_time()
        super()._schedule()
        self.cycles_ms.append((time.thread_time() - began) * 1000)

    async def _beat(self) -> None:
        """Record how late this task wakes up, as far as the thread used the CPU."""
        while True:
            before, worked = time.perf_counter(), time.thread_time()
            await asyncio.sleep(BEAT_S)
            late = time.perf_counter() - before - BEAT_S
            self.busy_ms.append(min(late, time.thread_time() - worked) * 1000)

    def _report(self) -> None:
        found: dict[str, object] = {"cpu_s": time.process_time(), "peak_mib": peak_mib(), "mib": resident_mib()}
        for name, values in (
            ("iteration", self.iterations_ms),
            ("cycle", self.cycles_ms),
            ("work", self.work_ms),
            ("busy", self.busy_ms),
        ):
            values.sort()
            found[name] = {"n": len(values), "p50": at(values, 0.5), "p99": at(values, 0.99), "max": at(values, 1.0)}
        if self.samples is not None:
            found["places"] = self.samples.places.most_common(40)
            self.samples.places.clear()
        self.notes.with_suffix(".new").write_bytes(orjson.dumps(found))
        self.notes.with_suffix(".new").rename(self.notes)
        self._clear()


if __name__ == "__main__":
    MeasuredLoop.notes = Path(sys.argv.pop(1))
    service.Loop = MeasuredLoop  # type: ignore[attr-defined] # the only seam: the product creates its own loop
    app()
