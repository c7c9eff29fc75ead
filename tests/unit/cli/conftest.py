"""The real core behind its real REST server on loopback, in its own thread, for commands that query it."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from muster.main import app
from muster_core.model.ids import ApplicationId
from muster_core.model.specs import ApplicationSpec
from muster_core.rest.server import RestServer, RestSettings
from muster_core.runtime.loop import LoopSettings
from muster_core.runtime.service import Scheduler
from muster_core.si.events import EventStore
from muster_si import si_pb2
from tests.unit import builders
from tests.unit.core.conftest import Notebook
from tests.unit.core.rest import conftest as rest
from tests.unit.core.rest.conftest import TRUSTING
from tests.unit.core.scheduling.scenario import Scenario

OPEN = RestSettings(port=0, access=TRUSTING)
#: A URL without a server.
NO_CLUSTER = "http://127.0.0.1:9"
KUBECONFIG = f"""
current-context: test
contexts: [{{name: test, context: {{cluster: test, namespace: ns}}}}]
clusters: [{{name: test, cluster: {{server: "{NO_CLUSTER}"}}}}]
"""


@dataclass(frozen=True, slots=True)
class Served:
    """The state of a core, which a test may change between two commands, and the URL of its REST API.

    `events`: what `scenario` recorded is added before each command, with its time.
    """

    scenario: Scenario
    url: str
    events: EventStore

    def run(self, *arguments: str) -> Result:
        """Run a command against this core."""
        for record in self.scenario.records[self.events.stored :]:
            self.events.add([record], self.scenario.now_ns)
        return run(*arguments, "--server", self.url)


def an_application(name: str, *, queue: str, gang: int = 0, namespace: str = "ns") -> ApplicationSpec:
    """An application, by default in the namespace of the current context."""
    spec = builders.an_application(name, queue=queue, gang=gang)
    unique = spec.id if namespace == "ns" else ApplicationId(f"{namespace}/{name}")
    return replace(spec, namespace=namespace, id=unique, shown_as=name)


def a_scenario() -> Scenario:
    """The state of the REST tests, with the running and the pending application in the namespace of the context."""
    scenario = rest.a_scenario()
    for partition in scenario.scheduler_state.partitions.values():
        for application in partition.applications.values():
            application.spec = replace(application.spec, namespace="ns")
    return scenario


def run(*arguments: str) -> Result:
    """Run a command with its output captured."""
    return CliRunner().invoke(app, arguments, prog_name="muster")


def rows(result: Result) -> list[list[str]]:
    """Return the cells of each table row, without the header; empty without a table."""
    lines = result.stdout.splitlines()
    at = next((number for number, line in enumerate(lines) if line.startswith("──")), len(lines))
    return [line.split() for line in lines[at + 1 :] if line.strip()]


@pytest.fixture(autouse=True)
def context_namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current context has the namespace of `a_scenario`, and an API server that does not respond."""
    path = tmp_path / "kubeconfig-of-the-test"
    path.write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(path))


@pytest.fixture
def empty_core() -> Iterator[str]:
    """The URL of a core without a registered operator."""
    with core_thread(None) as served:
        yield served.url


@pytest.fixture
def served() -> Iterator[Served]:
    """A core with objects of every kind: see `a_scenario`."""
    with core_thread(a_scenario()) as served:
        yield served


class core_thread:  # noqa: N801  # used like a statement
    """Runs core and server during the `with` block."""

    def __init__(self, scenario: Scenario | None, settings: RestSettings = OPEN, *, queues: str = "") -> None:
        """With `queues`, the text of a queues.yaml, a resource manager registers it."""
        self._scenario, self._settings, self._queues = scenario, settings, queues
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._stop: Callable[[], None] = lambda: None

    def __enter__(self) -> Served:
        self._thread.start()
        port = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(20)
        scheme = "https" if self._settings.tls else "http"
        return Served(self._scenario or a_scenario(), f"{scheme}://127.0.0.1:{port}", self._core.events)

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> int:
        self._core = Scheduler(LoopSettings())
        if self._scenario is not None:
            self._core.loop.scheduler_state = self._scenario.scheduler_state
        self._running = asyncio.create_task(self._core.run())
        if self._queues:
            request = si_pb2.RegisterResourceManagerRequest(rmID="test", version="1.0.0", config=self._queues)
            await self._core.register_resource_manager(request, Notebook())
        self._server = RestServer(self._core, self._settings)
        return await self._server.start()

    async def _end(self) -> None:
        await self._server.stop()
        self._core.close()
        await self._running
