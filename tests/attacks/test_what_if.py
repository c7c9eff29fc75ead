"""Attacks by questions about what would happen, which the core has answered in a process of its own.

The core stays as small and as quick as for other requests. There is one such process at a time, with limits of memory
and time, and each address has its turn.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from muster_core.config.document import MOST_CHARACTERS
from muster_core.rest.answers import LONGEST_S, MOST_MIB
from tests.attacks.attack import sized
from tests.attacks.core_process import SECRET
from tests.attacks.measured import MIB
from tests.attacks.test_questions import CONFIGURATIONS, MANIFESTS
from tests.attacks.test_rest import P, Victim
from tests.attacks.test_rest import open_core as open_core  # noqa: PLC0414  # a fixture
from tests.attacks.test_rest import victim as victim  # noqa: PLC0414  # a fixture

pytestmark = pytest.mark.timeout(sized(300, 1200))

EXPLAINED = f"{P}/application/{SECRET}-0"
#: Where a text is sent, and texts.
TEXTS = {f"{P}/dry-run": MANIFESTS, f"{P}/plan": CONFIGURATIONS}
REFUSED_OR_ANSWERED = {200, 400, 413, 503}


def children(pid: int) -> list[int]:
    """The processes that a process has started and that still run."""
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for file in files for child in file.read_text().split()]


def data_bytes(pid: int) -> int:
    """VmData; 0 = it has ended, or is about to."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmData")), 0)


@asynccontextmanager
async def one_bounded_process(victim: Victim) -> AsyncIterator[None]:
    """Checks the processes of the core all the time: one, and its copy."""
    over = asyncio.Event()

    async def watch() -> None:
        while not over.is_set():
            found = [pid for pid in children(victim.process.pid) if data_bytes(pid)]
            assert len(found) <= 1, found
            for pid in [*found, *(copy for child in found for copy in children(child))]:
                assert data_bytes(pid) <= MOST_MIB * MIB
            await asyncio.sleep(0.05)

    task = asyncio.create_task(watch())
    yield
    over.set()
    await task


async def post(victim: Victim, path: str, body: bytes, source: str = "127.0.0.1", length: int = 0) -> tuple[int, bytes]:
    return await victim.send("POST", path, f"Content-Length: {length or len(body)}\r\n", body, source)


async def test_hostile_texts_are_answered_or_refused(victim: Victim) -> None:
    """Depth, aliases, counts and control characters in manifests and configurations, and the largest bodies."""

    async def hostile() -> None:
        for path, texts in TEXTS.items():
            for name, text in texts.items():
                status, body = await post(victim, path, text.encode())
                assert status in REFUSED_OR_ANSWERED, f"{name}: {status} {body[:300]!r}"
                assert len(body) < 100_000, name
            assert (await post(victim, path, b"#" * (MOST_CHARACTERS - 1)))[0] in REFUSED_OR_ANSWERED
            assert (await post(victim, path, b"#" * (MOST_CHARACTERS + 1)))[0] == 413
        await victim.serves()

    async with one_bounded_process(victim):
        await victim.withstands("hostile texts", hostile)


async def test_questions_of_one_address_delay_no_other_one_for_long(victim: Victim) -> None:
    """Searches that use all their time. Another address waits for the present one, and reads meanwhile."""

    async def ask() -> None:
        asked = [
            asyncio.create_task(victim.send("GET", f"{EXPLAINED}/changes", source="127.0.0.2"))
            for _ in range(sized(24, 40))
        ]
        await victim.serves()  # the core accepts connections in their order
        other = asyncio.create_task(victim.send("GET", f"{EXPLAINED}/changes", source="127.0.0.3"))
        await victim.serves(f"{P}/waiting", f"{P}/nodes/summary")
        async with asyncio.timeout(3 * LONGEST_S):
            status, body = await other
        assert status in {200, 503}, body[:300]
        assert sum(task.done() for task in asked) < len(asked) or {task.result()[0] for task in asked} >= {429}
        for task in asked:
            task.cancel()
        found = await asyncio.gather(*asked, return_exceptions=True)
        statuses = Counter(one[0] for one in found if not isinstance(one, BaseException))
        assert statuses.keys() <= {0, 200, 429, 503}
        assert statuses[429]

    async with one_bounded_process(victim):
        await victim.withstands("questions of one address", ask)


async def test_bodies_that_never_arrive_do_not_end_the_turns(victim: Victim) -> None:
    """Slow bodies from many addresses, of which each has its turn for a second."""

    async def slow() -> None:
        waiting = [
            asyncio.create_task(post(victim, f"{P}/plan", b"a", f"127.0.0.{10 + number}", 4 * MIB))
            for number in range(sized(5, 30))
        ]
        await victim.serves()  # the core accepts connections in their order
        status, body = await post(victim, f"{P}/plan", b"partitions: [", "127.0.0.3")
        assert status == 400, body[:300]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    await victim.withstands("bodies that never arrive", slow)
