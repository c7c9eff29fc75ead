"""The real core behind its real REST server on loopback, in a thread of its own, for commands that ask it."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from typer.testing import CliRunner, Result

from muster.main import app
from muster_core.rest.server import RestServer, RestSettings
from muster_core.runtime.loop import LoopSettings
from muster_core.runtime.service import Scheduler
from tests.unit.core.rest.conftest import TRUSTING, a_scene
from tests.unit.core.scheduling.scene import Scene

OPEN = RestSettings(port=0, access=TRUSTING)
#: Nobody listens there.
NOWHERE = "http://127.0.0.1:9"


@dataclass(frozen=True, slots=True)
class Served:
    """A core's scheduler_state, which a test may change between two commands, and where REST shows it."""

    scene: Scene
    url: str

    def run(self, *arguments: str) -> Result:
        """A command that asks this core."""
        return run(*arguments, "--server", self.url)


def run(*arguments: str) -> Result:
    """A command, as a program that reads what it prints would see it."""
    return CliRunner().invoke(app, arguments, prog_name="muster")


def rows(result: Result) -> list[list[str]]:
    """The cells of each line of a table, without its head."""
    lines = result.stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("──"))
    return [line.split() for line in lines[at + 1 :] if line.strip()]


@pytest.fixture
def empty_core() -> Iterator[str]:
    """The URL of a core with which no operator has registered."""
    with core_thread(None) as served:
        yield served.url


@pytest.fixture
def served() -> Iterator[Served]:
    """A core with a bit of everything in it: see `a_scene`."""
    with core_thread(a_scene()) as served:
        yield served


class core_thread:  # noqa: N801  # reads as the statement it is used in
    """Runs core and server from `with` to its end."""

    def __init__(self, scene: Scene | None, settings: RestSettings = OPEN) -> None:
        self._scene, self._settings = scene, settings
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._stop: Callable[[], None] = lambda: None

    def __enter__(self) -> Served:
        self._thread.start()
        port = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(20)
        scheme = "https" if self._settings.tls else "http"
        return Served(self._scene or a_scene(), f"{scheme}://127.0.0.1:{port}")

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> int:
        self._core = Scheduler(LoopSettings())
        if self._scene is not None:
            self._core.loop.scheduler_state = self._scene.scheduler_state
        self._running = asyncio.create_task(self._core.run())
        self._server = RestServer(self._core, self._settings)
        return await self._server.start()

    async def _end(self) -> None:
        await self._server.stop()
        self._core.close()
        await self._running
