"""What the operator counted over all its lives: taken down before each kill, for a counter dies with its process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

COUNTED: Mapping[str, str] = {
    "muster_operator_command_retries_total": "retries of commands",
    "muster_operator_resync_repairs_total": "repairs by a list",
    "muster_operator_watch_restarts_total": "watches started over",
    "muster_operator_core_reconnects_total": "new sessions with the core",
    "muster_operator_loop_failures_total": "inputs the agent failed on",
}
PATIENCE_S = 1.0


class Tally:
    """Sums of one operator's counters; ``port``: where its metrics are."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/metrics"
        self._earlier: Counter[str] = Counter()
        self._now: Counter[str] = Counter()

    async def look(self) -> None:
        """Read the counters of the operator that lives now; an operator that is dead has said its last."""
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE_S)) as session,
                session.get(self._url) as answer,
            ):
                text = await answer.text()
        except (aiohttp.ClientError, TimeoutError):
            return
        self._now = Counter()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name in COUNTED:
                    self._now[COUNTED[sample.name]] += int(sample.value)

    async def last_look(self) -> None:
        """The same, ahead of a kill."""
        await self.look()
        self._earlier += self._now
        self._now = Counter()

    @property
    def sums(self) -> Counter[str]:
        """Over all lives."""
        return self._earlier + self._now
