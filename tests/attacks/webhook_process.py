"""A process with the webhook's server in its thread, and a loop beside it like the scheduler's.

It prints the port, and then answers how long that loop was paused (`pauses.questions`).
"""

import asyncio
import sys
from datetime import UTC, datetime

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
from tests.attacks import pauses


async def serve() -> None:
    """Serve until the standard input is closed."""
    known, settings, now = ClusterSnapshot(namespaces={"dev": {}}), AdmissionSettings(), datetime.now(UTC)  # noqa: TID251

    async def answer(review: Review) -> AdmissionAnswer:
        return decide(review, known, settings)

    tls = TlsContexts()
    tls.serve(issue(kept_or_made((None, None), now), ["127.0.0.1"], now))
    server = AdmissionServer({"/mutate": Endpoint(answer, 9.0, is_closed=True)}, str, ReviewMetrics(Metrics()))
    async with webhook_thread() as own:
        pauses.answer(await run_in_thread(own, server.start(0, tls)))
        async for _ in pauses.questions():
            raise ValueError("the only question is about pauses")
        await run_in_thread(own, server.stop())


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    asyncio.run(serve())
