"""Attacks on `?at=TIME`: many times and clients, and journals that are broken, hostile, or too large for an answer.

A journal is written by the core; its lines contain what users wrote, and a disk can damage it.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from itertools import cycle
from pathlib import Path
from random import Random  # noqa: TID251 # the seed is an argument
from typing import Any

import orjson
import pytest
import pytest_asyncio

from muster_core.rest.answers import LONGEST_S, AnswerProcess, NoAnswer
from tests.attacks.attack import FULL, sized
from tests.attacks.measured import many_open_files
from tests.attacks.test_rest import DATA, P, Victim, core
from tests.attacks.test_what_if import one_bounded_process
from tests.browser import live_core

pytestmark = pytest.mark.timeout(sized(300, 1200))

VIEWS = (f"{P}/queues", *(view for view in DATA if not view.endswith("/events")))
#: Before the first line, and after all others.
FAR = (0, 1, 10**17)
PATH = "/ws/v1/partition/{partition}/queues"
QUESTION = {"question": "earlier", "route": PATH, "path": {"partition": "default"}, "query": {}}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def recorded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Victim]:
    """A core with a journal."""
    journal = tmp_path_factory.mktemp("journal") / "journal"
    with many_open_files():
        async with core("", str(journal)) as found:
            yield found


async def test_many_clients_at_many_times_delay_no_gang(recorded: Victim) -> None:
    """In any order, so that the journal is read again and again; each address has its turn."""
    random, sources, views = Random(0), cycle(range(2, 10)), cycle(VIEWS)

    async def travel() -> None:
        now = time.time_ns() // 10**6  # noqa: TID251 # the clock of the core
        times = [*FAR, *(now - random.randrange(60_000) for _ in range(sized(21, 97)))]
        asked = [
            asyncio.create_task(recorded.send("GET", f"{next(views)}?at={at}", source=f"127.0.0.{next(sources)}"))
            for at in times
        ]
        await recorded.serves(*VIEWS)
        async with asyncio.timeout(len(asked) * LONGEST_S):
            statuses = Counter(status for status, _ in await asyncio.gather(*asked))
        assert statuses.keys() <= {200, 404, 429, 503}, statuses
        assert statuses[200], statuses

    async with one_bounded_process(recorded):
        await recorded.withstands("many times", travel)
    await recorded.is_left()


async def test_no_time_is_shown_that_is_none(recorded: Victim) -> None:
    for at in ("-1", "now", "1e9", "9" * 400, "%00", "", "1&at=2"):
        status, body = await recorded.send("GET", f"{P}/queues?at={at}")
        assert status in {200, 400, 404}, (at, status, body[:200])
    for path in ("/ws/v1/config", "/ws/v1/history/apps", "/ws/v1/scheduler/healthcheck", "/ws/v1/events/batch"):
        assert (await recorded.send("GET", f"{path}?at=1"))[0] == 400, path


def event(kind: str, **fields: Any) -> bytes:
    """A line with an event that the core would not have written."""
    return orjson.dumps({"now": 2**62, "event": {"$": kind, **fields}}) + b"\n"


def nested(levels: int) -> bytes:
    return b'{"now":1,"event":' + b'{"$map":{"a":' * levels + b"1" + b"}}" * levels + b"}\n"


LINES: dict[str, bytes] = {
    "garbage": bytes(range(256)) * 100 + b"\n",
    "an empty line": b"\n",
    "an empty object": b"{}\n",
    "a list": b"[1]\n",
    "null": b"null\n",
    "the end of another line": b'"effects": []}\n',
    "a time as text": b'{"now":"now","granted":1}\n',
    "a huge time": b'{"now":1e400,"granted":1}\n',
    "depth": nested(200_000),
    "less depth": nested(300),
    "an unknown class": event("Popen", args="id"),
    "another class": event("NodeSpec"),
    "missing fields": event("AskAdded"),
    "fields of other types": event("AskAdded", spec=[[[]]]),
    "a fraction": event("AskAdded", spec={"$fraction": "1/0"}),
    "a part of nothing": b'{"now":1,"continued":true,"event":null}\n',
    "a budget as text": b'{"now":1,"granted":"all"}\n',
    "a budget below zero": b'{"now":1,"granted":-1}\n',
    "no end": b'{"now":1,"event":"' + b"a" * sized(2**24, 2**27),
    "a restart": b'{"restart":true}\n',
    **({"a huge fraction": event("AskAdded", spec={"$fraction": "1e999999999"})} if FULL else {}),  # takes all its time
}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The journal of a small core that has ended."""
    path = tmp_path_factory.mktemp("written") / "journal"
    with path.open("wb") as file:
        async with live_core.running(journal=file) as live:
            await live_core.fill(live)
    return path


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def process() -> AsyncIterator[AnswerProcess]:
    found = AnswerProcess()
    yield found
    found.close()


def lines_of(journal: Path) -> list[bytes]:
    return journal.read_bytes().splitlines(keepends=True)


def written(folder: Path, *lines: bytes) -> Path:
    (folder / "journal").write_bytes(b"".join(lines))
    return folder / "journal"


async def answer(process: AnswerProcess, path: Path, at_ns: int) -> tuple[int, Any]:
    try:
        status, body = await process.ask(None, {**QUESTION, "journal": str(path), "at_ns": at_ns, "real_s": 10})
    except NoAnswer as error:
        return 503, str(error)
    return status, orjson.loads(body)


@pytest.mark.parametrize("name", LINES)
async def test_a_broken_line_is_named_and_what_was_before_it_is_shown(
    name: str, process: AnswerProcess, journal: Path, tmp_path: Path
) -> None:
    lines = lines_of(journal)
    before = len(lines) // 2
    changed = written(tmp_path, *lines[:before], LINES[name], *lines[before:])
    at_ns = max(orjson.loads(line).get("now", 0) for line in lines[:before])
    expected = await answer(process, journal, at_ns - 1)
    assert expected[0] == 200
    for _ in range(2):
        assert await answer(process, changed, at_ns - 1) == expected
        status, found = await answer(process, changed, 2**63 - 1)
        assert status in {200, 404, 503}, (status, found)
        assert status != 503 or f"line {before + 1} of the journal" in found or name == "a huge fraction", found
