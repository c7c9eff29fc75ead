"""Counters of the operator over all its processes, read before each kill."""

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
    "muster_operator_sweep_repairs_total": "lost writes repeated by the sweep",
    "muster_operator_loop_failures_total": "inputs the agent failed on",
}
TIMEOUT_S = 1.0


class Tally:
    """``sums`` over all runs of all operators; ``ports``: the ports of their metrics."""

    def __init__(self, ports: Iterable[int]) -> None:
        self._last: dict[int, Counter[str]] = {port: Counter() for port in ports}
        self._earlier: Counter[str] = Counter()

    async def update(self) -> None:
        """Read the counters of the running operators. A stopped operator keeps its last values."""
        for port, last in self._last.items():
            now = await _counters(port)
            if not now:
                continue
            if any(now[name] < count for name, count in last.items()):  # the operator was restarted
                self._earlier += last
            self._last[port] = now

    @property
    def sums(self) -> Counter[str]:
        """Sums of the values that were read so far."""
        return sum(self._last.values(), self._earlier)


async def _counters(port: int) -> Counter[str]:
    """The counters of one operator, empty if it does not respond."""
    found: Counter[str] = Counter()
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S)) as session,
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
