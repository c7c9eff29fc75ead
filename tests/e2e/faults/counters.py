"""Counters of the operator over all its processes, read before each kill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

DIFFERENCES = "differences between the core's ledger and the operator's"
COUNTED: Mapping[str, str] = {
    "muster_operator_command_retries_total": "retries of commands",
    "muster_operator_resync_repairs_total": "repairs by a list",
    "muster_operator_state_repairs_total": DIFFERENCES,
    "muster_operator_watch_restarts_total": "watches started over",
    "muster_operator_core_reconnects_total": "new sessions with the core",
    "muster_operator_loop_failures_total": "inputs the agent failed on",
}
PATIENCE_S = 1.0


class Tally:
    """``sums`` over all lives of all operators; ``ports``: where their metrics are."""

    def __init__(self, ports: Iterable[int]) -> None:
        self._seen: dict[int, Counter[str]] = {port: Counter() for port in ports}
        self._earlier: Counter[str] = Counter()

    async def look(self) -> None:
        """Read the counters of the operators that live now; one that is dead has said its last."""
        for port, last in self._seen.items():
            now = await _counters(port)
            if not now:
                continue
            if any(now[name] < count for name, count in last.items()):  # a new life
                self._earlier += last
            self._seen[port] = now

    @property
    def sums(self) -> Counter[str]:
        """As far as it was looked."""
        return sum(self._seen.values(), self._earlier)


async def _counters(port: int) -> Counter[str]:
    """One operator's, empty if it does not answer."""
    found: Counter[str] = Counter()
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE_S)) as session,
            session.get(f"http://127.0.0.1:{port}/metrics") as answer,
        ):
            text = await answer.text()
    except (aiohttp.ClientError, TimeoutError):
        return found
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in COUNTED:
                found[COUNTED[sample.name]] += int(sample.value)
    return found
