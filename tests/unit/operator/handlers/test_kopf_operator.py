"""kopf with an HTTP peer: it reads the ConfigMaps, and is started again whenever it ends."""

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from muster_operator.handlers import kopf_operator
from muster_operator.handlers.kopf_operator import HandlerMemo
from muster_operator.kube.session import KubeSession
from muster_operator.serving import stop_on_signals
from tests.unit.operator.kube.apiserver import FixedCredentials
from tests.unit.operator.kube.cluster import CONFIG_MAPS, DISCOVERY, Cluster, change, serving

ROOT = Path(__file__).parents[4]

#: Uses of private names of kopf.
PRIVATE = re.compile(
    r"\bkopf(\.\w+)*\._|from kopf[\w.]* import (\([^)]*|[^\n]*)\b_\w|setattr\(kopf|kopf\.\w+(\.\w+)* = "
)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kopf_operator, "BACKOFF_S", (0.01,))


def config_map(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "muster", "uid": f"uid-{name}", "resourceVersion": str(version)}}


@asynccontextmanager
async def running(
    server: Cluster, tokens: list[str] | None = None, started: Callable[[], None] = lambda: None
) -> AsyncIterator[asyncio.Queue[str]]:
    """The operator's kopf at work against the server. Yields the names of changed ConfigMaps."""
    changed: asyncio.Queue[str] = asyncio.Queue()
    async with serving(server, tokens) as session:
        task = asyncio.create_task(kopf_operator.run(HandlerMemo(session, "muster", changed.put), started))
        try:
            async with asyncio.timeout(20):
                yield changed
        finally:
            task.cancel()
            await asyncio.wait({task})


async def test_changed_config_maps_of_muster_are_reported() -> None:
    server = Cluster()
    async with running(server) as changed:
        for number, name in enumerate(("other", "muster-configs"), start=2):
            server.script[CONFIG_MAPS].put_nowait(change("MODIFIED", config_map(name, number)))
        assert await changed.get() == "muster-configs"
        server.script[CONFIG_MAPS].put_nowait(change("DELETED", config_map("muster-configs", 4)))
        assert await changed.get() == "muster-configs"


async def test_kopf_reads_nothing_but_config_maps_of_its_namespace_and_writes_nothing() -> None:
    server = Cluster()
    async with running(server) as changed:
        server.script[CONFIG_MAPS].put_nowait(change("ADDED", config_map("muster-configs", 2)))
        await changed.get()
    assert {request.path for request in server.seen} - DISCOVERY.keys() == {CONFIG_MAPS}
    assert server.writes == []


@pytest.mark.parametrize("error", [{"code": 500, "message": "etcd is away"}, {"code": 400}])
async def test_a_watch_error_that_ends_kopf_does_not_end_the_operator(error: dict[str, Any]) -> None:
    server = Cluster()
    async with running(server) as changed:
        server.script[CONFIG_MAPS].put_nowait({"type": "ERROR", "object": error})
        server.script[CONFIG_MAPS].put_nowait(None)
        server.script[CONFIG_MAPS].put_nowait(change("MODIFIED", config_map("muster-configs", 7)))
        assert await changed.get() == "muster-configs"


async def test_a_change_is_found_although_kopf_did_not_run_when_it_was_made() -> None:
    server = Cluster()
    async with running(server) as changed:
        await server.lists.get()
        server.items[CONFIG_MAPS] = [config_map("muster-configs", 5)]
        server.script[CONFIG_MAPS].put_nowait({"type": "ERROR", "object": {"code": 500}})
        server.script[CONFIG_MAPS].put_nowait(None)
        assert await changed.get() == "muster-configs"


async def test_kopf_is_started_again_when_discovery_fails() -> None:
    server = Cluster(missing={"/api"})
    async with running(server) as changed:
        for _ in range(2):
            await server.missed.get()
        server.missing.clear()
        server.script[CONFIG_MAPS].put_nowait(change("ADDED", config_map("muster-configs", 2)))
        assert await changed.get() == "muster-configs"


@pytest.mark.parametrize("tokens", [["old", "new"], ["old"]])
async def test_a_rejected_token_is_read_again(tokens: list[str]) -> None:
    server = Cluster(unauthorized=3)
    async with running(server, tokens) as changed:
        server.script[CONFIG_MAPS].put_nowait(change("ADDED", config_map("muster-configs", 2)))
        assert await changed.get() == "muster-configs"


async def test_a_signal_stops_the_operator_after_kopf_was_started_again() -> None:
    """Kopf replaces signal handlers at each start, so a signal would only end kopf, which is then started again."""
    server, stop = Cluster(missing={"/api"}), asyncio.Event()
    async with running(server, started=lambda: stop_on_signals(stop)):
        for _ in range(2):
            await server.missed.get()
        server.missing.clear()
        await server.lists.get()
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().remove_signal_handler(number)


@pytest.mark.parametrize("passes", range(12))
async def test_kopf_that_is_cancelled_while_it_starts_leaves_no_tasks(passes: int) -> None:
    own = asyncio.all_tasks()
    session = KubeSession(FixedCredentials("http://127.0.0.1:9", ["t"]))  # no server listens there

    async def reconfigure(name: str) -> None: ...

    task = asyncio.create_task(kopf_operator.run(HandlerMemo(session, "muster", reconfigure)))
    for _ in range(passes):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    await session.close()
    # Tasks without a name of their own are requests of kopf's discovery, which end when the event loop closes.
    assert not [task for task in asyncio.all_tasks() - own if not task.get_name().startswith("Task-")]


async def test_kopf_that_does_not_discover_config_maps_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kopf takes status 404 for "no such resource", so it would run on without a watch."""
    monkeypatch.setattr(kopf_operator, "LISTED_S", 0.5)
    server = Cluster(missing={"/api/v1"}, items={CONFIG_MAPS: [config_map("muster-configs", 2)]})
    async with running(server) as changed:
        await server.missed.get()
        server.missing.clear()
        assert await changed.get() == "muster-configs"


async def test_kopf_is_not_started_again_in_a_namespace_without_config_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kopf_operator, "LISTED_S", 0.01)
    server, starts = Cluster(), asyncio.Queue[None]()
    async with running(server, started=lambda: starts.put_nowait(None)) as changed:
        for _ in range(5):
            await server.lists.get()
        server.script[CONFIG_MAPS].put_nowait(change("ADDED", config_map("muster-configs", 2)))
        assert await changed.get() == "muster-configs"
    assert starts.qsize() == 1


async def test_kopf_starts_again_only_after_its_tasks_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kopf_operator, "STOP_S", 0.1)
    server, order = Cluster(), list[str]()
    handled, twice, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    def started() -> None:
        if "start" in order:
            twice.set()
        order.append("start")

    async def reconfigure(name: str) -> None:
        handled.set()
        with suppress(asyncio.CancelledError):  # kopf cancels it after two seconds
            await twice.wait()
        order.append("end")
        ended.set()

    async with serving(server) as session, asyncio.timeout(20):
        task = asyncio.create_task(kopf_operator.run(HandlerMemo(session, "muster", reconfigure), started))
        server.script[CONFIG_MAPS].put_nowait(change("ADDED", config_map("muster-configs", 2)))
        await handled.wait()
        [poster] = [each for each in asyncio.all_tasks() if each.get_name() == "poster of events"]
        poster.cancel()
        await twice.wait()
        await ended.wait()
        task.cancel()
        await asyncio.wait({task})
    assert order == ["start", "end", "start"]


def test_kopf_is_used_through_its_public_interface_only() -> None:
    """A private name may change with any release of kopf, and a patched one changes what kopf's documentation says."""
    files = [path for folder in ("operator", "cli", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 100
    assert [str(path) for path in files if PRIVATE.search(path.read_text())] == []


@pytest.mark.parametrize(
    "code",
    [
        "from kopf import _core",
        "from kopf import on, _core",
        "from kopf import (\n    on,\n    _core,\n)",
        "from kopf._core import actions",
        "from kopf.testing import _runner",
        "import kopf._core",
        "kopf.on._registry()",
        "setattr(kopf, 'on', None)",
        "kopf.on.event = None",
    ],
)
def test_private_names_of_kopf_are_recognized(code: str) -> None:
    assert PRIVATE.search(code)
    assert not PRIVATE.search("from kopf import on\nfrom muster_operator import _private\nkopf.on.event(registry=_R)")
