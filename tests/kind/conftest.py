"""Helm installs Muster once, with defaults, and uninstalls it at the end; each test has a namespace of its own.

The modules run in this order: what breaks most comes late, and the last one looks at what an uninstall leaves.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path

import pytest
import pytest_asyncio

from devcluster import connection
from devcluster.api import Api
from devcluster.errors import ApiError
from devcluster.waiting import until
from tests.kind.cluster import Kind
from tests.kind.release import NAMESPACE, Release
from tests.kind.room import Room

OpenRoom = Callable[..., Awaitable[Room]]

HERE = Path(__file__).parent
ORDER = (
    "first_steps",
    "gangs",
    "full_nodes",
    "members",
    "volumes",
    "webhook",
    "kills",
    "nodes",
    "upgrade",
    "uninstall",
)
SECONDS_FOR_A_TEST = 420

_numbers = itertools.count(1)
_began = pytest.StashKey[float]()
NOTES: list[str] = []
"""What was measured, for the end of the run."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All share one loop, for the cluster's connections live in it."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
            item.add_marker(pytest.mark.real_kubelets)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(SECONDS_FOR_A_TEST, func_only=True))
    own = [item for item in items if item.path.is_relative_to(HERE)]
    own.sort(key=lambda item: ORDER.index(item.path.stem.removeprefix("test_")))
    items[:] = [item for item in items if not item.path.is_relative_to(HERE)] + own


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was measured."""
    for note in NOTES:
        terminalreporter.write_line(note)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def kind() -> AsyncIterator[Kind]:
    """The cluster. `make e2e-kind` says which, and has put the image into it."""
    if "MUSTER_KIND" not in os.environ:
        pytest.exit("tests/kind are run by `make e2e-kind`", returncode=pytest.ExitCode.USAGE_ERROR)
    access = await connection.load(Path(os.environ["KUBECONFIG"]))
    async with Api(access) as api:
        yield Kind(os.environ["MUSTER_KIND"], os.environ["MUSTER_IMAGE"], api)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def release(kind: Kind) -> AsyncIterator[Release]:
    """Muster, installed with defaults; uninstalled at the end if no test did."""
    release = Release(kind)
    if await release.is_installed():
        pytest.exit(f"release {NAMESPACE} is in the cluster already: helm uninstall it first", returncode=1)
    began = time.monotonic()
    try:
        await release.install()
    except AssertionError as error:
        pytest.exit(f"{error}\n{await release.logs()}", returncode=1)
    NOTES.append(f"helm install --wait: {time.monotonic() - began:.1f} s")
    try:
        yield release
    finally:
        if await release.is_installed():
            await release.uninstall()
        await kind.api.delete("namespaces", NAMESPACE)


@pytest_asyncio.fixture(loop_scope="session")
async def open_room(kind: Kind, release: Release) -> AsyncIterator[OpenRoom]:
    """Opens namespaces; afterwards no kubelet has refused any pod in them, and they go."""
    rooms: list[Room] = []

    async def open_one(labels: Mapping[str, str] | None = None) -> Room:
        namespace = f"room-{next(_numbers)}"
        metadata = {"name": namespace, "labels": dict(labels or {})}
        await kind.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        room = Room(kind, release, namespace)
        rooms.append(room)
        await until(
            "the default account",
            lambda: kind.api.get("serviceaccounts", "default", namespace),
            60,
            every_s=0.2,
            tolerate=(ApiError,),
        )
        return room

    yield open_one
    for room in rooms:
        await room.close()
    assert [refusal for room in rooms for refusal in sorted(room.refused)] == []


@pytest_asyncio.fixture(loop_scope="session")
async def room(open_room: OpenRoom) -> Room:
    """One namespace."""
    return await open_room()
