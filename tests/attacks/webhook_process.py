"""A process with the webhook's server in its thread, and a loop beside it like the scheduler's.

It prints the port. For each line on its standard input it prints the longest pause of that loop since the last line,
without the time for which the two threads waited for a processor.
"""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import structlog

from muster_operator.model.settings import AdmissionSettings
from muster_operator.runtime.metrics import Metrics
from muster_operator.webhook.certificates import issue, kept_or_made
from muster_operator.webhook.context import AdmissionAnswer, ClusterSnapshot, Review
from muster_operator.webhook.decisions import decide
from muster_operator.webhook.server import (
    AdmissionServer,
    Endpoint,
    ReviewMetrics,
    TlsContexts,
    run_in_thread,
    webhook_thread,
)

BEAT_S = 0.005


def waited_s() -> float:
    """How long the threads of this process have waited for a processor, because others used it."""
    stats = (file.read_text() for file in Path("/proc/self/task").glob("*/schedstat"))
    return sum(int(text.split()[1]) for text in stats) / 1e9


async def serve() -> None:
    """Serve until the standard input is closed."""
    known, settings, now = ClusterSnapshot(namespaces={"dev": {}}), AdmissionSettings(), datetime.now(UTC)  # noqa: TID251

    async def answer(review: Review) -> AdmissionAnswer:
        return decide(review, known, settings)

    tls, longest_s = TlsContexts(), 0.0
    tls.serve(issue(kept_or_made((None, None), now), ["127.0.0.1"], now))
    server = AdmissionServer({"/mutate": Endpoint(answer, 9.0, is_closed=True)}, str, ReviewMetrics(Metrics()))
    lines: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin, lambda: lines.put_nowait(sys.stdin.readline()))
    async with webhook_thread() as own:
        print(await run_in_thread(own, server.start(0, tls)), flush=True)  # noqa: T201 - the parent reads it
        while True:
            began, waited = time.perf_counter(), waited_s()  # noqa: TID251 - pauses of a real loop
            await asyncio.sleep(BEAT_S)
            pause_s = time.perf_counter() - began - BEAT_S  # noqa: TID251
            longest_s = max(longest_s, pause_s - (waited_s() - waited))
            if not lines.empty():
                if not lines.get_nowait():
                    break
                print(longest_s, flush=True)  # noqa: T201 - the parent reads it
                longest_s = 0.0
        await run_in_thread(own, server.stop())


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    asyncio.run(serve())
