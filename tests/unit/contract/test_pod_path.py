"""The path of one pod from its watch event to its bind, and how many modules a reader has to open to follow it.

The real operator and the real core run in one process, the API server is a stub in place of the HTTP connection pool.
After the first pods of an application, whose shape is cached then, further ones are traced, one at a time. A trace
begins when the watch delivers the bytes of the pod and ends when the bind request goes to the connection pool.

A module is on the path if one of its functions is called for every traced pod. Timers run during one of the traces at
most, so the path is what most traces agree on. A coroutine that continues only because the one that it awaits does so
is not called.

These modules are not counted, because they are opened for another question than the way of a pod:
values, errors and limits (`model`), the isolation of failures (`controller/isolation`), metrics, messages of the
Scheduler Interface (`muster_si`), the individual filters and scores, and the transports. A transport carries any bytes:
the HTTP connection pool (`kube/http`), at which the trace ends, on the side of Kubernetes, and gRPC
(`muster_si.transport`) on the side of the core. The data structures of the state (`muster_core.state`,
`muster_operator.controller.state`), which the modules of the path read and write, are counted separately.
"""

import asyncio
import dis
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

from benchmarks.stub_server import Feed, StubKubeSession, StubPool, StubServer
from benchmarks.through_both import a_server
from muster_core import main as core
from muster_core.runtime.service import Administration
from muster_operator.kube import watch
from muster_operator.kube.leadership import NoElection
from muster_operator.kube.session import LeadershipGuard
from muster_operator.running import CoreClients, Options, assembled, configured
from muster_operator.runtime.metrics import Metrics
from muster_operator.serving import Parts, serve
from muster_si.transport.inprocess import InProcessClient

PAGE: Final = Path(__file__).parents[3] / "docs/internals/architecture.md"
NODES: Final = 20
WARM: Final = 3
TRACED: Final = 5

#: Modules on the path in each process, at most.
MOST: Final = {"operator": 12, "core": 12}

NOT_COUNTED: Final = re.compile(
    r"muster_si\b"
    r"|muster_(core|operator)\.model\b|muster_operator\.controller\.isolation$"
    r"|muster_core\.metrics\b|muster_operator\.runtime\.metrics$"
    r"|muster_core\.placement\.(plugins\.(?!tables$)|volumes\.)"
)
STATE: Final = re.compile(r"muster_core\.state\.|muster_operator\.controller\.state$")

_RESUME: Final = dis.opmap["RESUME"]
_AFTER_AWAIT: Final = 3


def is_continued(frame: FrameType) -> bool:
    """Whether the frame is a coroutine that continues after an await, not a call."""
    code, at = frame.f_code.co_code, frame.f_lasti
    return code[at] == _RESUME and code[at + 1] & 3 == _AFTER_AWAIT


@dataclass(slots=True)
class Trace:
    """The product's modules in the order of entry, for one pod."""

    modules: dict[str, None] = field(default_factory=dict)
    is_begun: bool = False
    is_over: bool = False

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or self.is_over:
            return
        if frame.f_code is Feed._piece.__code__:  # the watch delivers the pod
            self.is_begun = True
            self.modules[watch.__name__] = None
        if frame.f_code is StubPool.exchange.__code__:  # in place of the connection pool
            self.is_over = True
        name = frame.f_globals.get("__name__", "")
        if self.is_begun and not self.is_over and name.startswith("muster_") and not is_continued(frame):
            self.modules[name] = None


@dataclass(frozen=True, slots=True)
class Both:
    """Operator and core in one process."""

    server: StubServer
    parts: Parts
    serving: asyncio.Task[None]

    async def bind_pod(self, number: int) -> None:
        """Create a pod of the application and wait until the watch has confirmed its bind."""
        self.server.pods.add(f"load-0-{number:012d}")
        await self.until(lambda: self.server.pods.read == 2 * (number + 1) and self.is_idle)

    @property
    def is_idle(self) -> bool:
        """Whether the operator has no queued work, including events."""
        return not len(self.parts.inbox) and not any(self.parts.pool.depths().values())

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until the condition is true."""
        async with asyncio.timeout(60):
            while not is_so():
                if self.serving.done():
                    self.serving.result()
                await asyncio.sleep(0.001)


@asynccontextmanager
async def both() -> AsyncIterator[Both]:
    server, guard, metrics, stop = a_server(NODES), LeadershipGuard(), Metrics(), asyncio.Event()
    session = StubKubeSession(server, guard, metrics.requested)
    async with core.running(core.Options(rest_port=None)) as scheduler:
        configuration = await configured(session, "default")
        clients = CoreClients(InProcessClient(scheduler), Administration(scheduler))
        parts = assembled(configuration, session, metrics, clients, Options())
        serving = asyncio.create_task(serve(parts, NoElection(guard), stop))
        found = Both(server, parts, serving)
        await found.until(lambda: not parts.loop.missing)
        yield found
        stop.set()
        await serving


@pytest.fixture(scope="module")
def path() -> list[str]:
    """Return the modules on the path in the order of their first entry."""
    return asyncio.run(traced())


async def traced() -> list[str]:
    traces: list[Trace] = []
    async with both() as running:
        for number in range(WARM + TRACED):
            if number >= WARM:
                traces.append(Trace())
                sys.setprofile(traces[-1])
            try:
                await running.bind_pod(number)
            finally:
                sys.setprofile(None)
        assert all(trace.is_over for trace in traces)
    always = set.intersection(*(set(trace.modules) for trace in traces))
    paths = Counter(tuple(name for name in trace.modules if name in always) for trace in traces)
    return list(paths.most_common(1)[0][0])


def on_path(path: list[str], process: str, *, of_state: bool) -> list[str]:
    """Return the counted modules of a process with their names on the page."""
    prefix = f"muster_{process}."
    counted = [name for name in path if name.startswith(prefix) and not NOT_COUNTED.match(name)]
    return [name[len(prefix) :].replace(".", "/") for name in counted if bool(STATE.match(name)) is of_state]


def section() -> str:
    """Return the part of the page that describes the path."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition("## Where to start reading\n")
    return rest.partition("\n## ")[0]


@pytest.mark.parametrize("process", MOST)
def test_one_pod_enters_few_modules_between_its_watch_event_and_its_bind(path: list[str], process: str) -> None:
    found = on_path(path, process, of_state=False)
    assert len(found) <= MOST[process], "\n".join(found)


@pytest.mark.parametrize("process", MOST)
def test_the_page_names_the_modules_that_a_pod_enters_in_their_order(path: list[str], process: str) -> None:
    rows = re.findall(rf"^\| {process} \| `([a-z_/]+)` \|", section(), re.MULTILINE)
    assert rows == on_path(path, process, of_state=False)


@pytest.mark.parametrize("process", MOST)
def test_the_page_names_the_data_structures_that_are_counted_separately(path: list[str], process: str) -> None:
    [row] = re.findall(rf"^\| data structures of the {process} \| (.*) \|$", section(), re.MULTILINE)
    assert re.findall(r"`([a-z_/]+)`", row) == on_path(path, process, of_state=True)


def test_the_page_gives_both_numbers(path: list[str]) -> None:
    counted, of_state = ([len(on_path(path, name, of_state=kind)) for name in MOST] for kind in (False, True))
    operator, core = (one + other for one, other in zip(counted, of_state, strict=True))
    text = f"enters {counted[0]} modules of the operator and {counted[1]} of the core, {operator} and {core} with"
    assert text in " ".join(section().split())
