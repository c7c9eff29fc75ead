"""Helm installs Muster once, with defaults, and uninstalls it at the end; each test has its own namespace.

The modules run in the order of ORDER: the most disruptive ones run late, and the last one checks an uninstall.
"""

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
from muster_operator.webhook import registration
from tests.kind.cluster import Kind
from tests.kind.namespace import Namespace
from tests.kind.release import NAMESPACE, Release

OpenNamespace = Callable[..., Awaitable[Namespace]]

HERE = Path(__file__).parent
ORDER = (
    "first_steps",
    "gangs",
    "full_nodes",
    "members",
    "volumes",
    "webhook",
    "spark",
    "ray",
    "pytorch",
    "kills",
    "nodes",
    "upgrade",
    "uninstall",
)
SECONDS_FOR_A_TEST = 420
REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1"

_numbers = itertools.count(1)
_began = pytest.StashKey[float]()
MEASUREMENTS: list[str] = []
"""Measurements that are printed at the end of the run."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run all tests in one event loop, because the connections to the cluster belong to it."""
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
    """Print the measurements."""
    for note in MEASUREMENTS:
        terminalreporter.write_line(note)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def kind() -> AsyncIterator[Kind]:
    """The cluster that `make e2e-kind` selected and loaded the image into."""
    if "MUSTER_KIND" not in os.environ:
        pytest.exit("tests/kind are run by `make e2e-kind`", returncode=pytest.ExitCode.USAGE_ERROR)
    access = await connection.load(Path(os.environ["KUBECONFIG"]))
    async with Api(access) as api:
        yield Kind(os.environ["MUSTER_KIND"], os.environ["MUSTER_IMAGE"], api)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def release(kind: Kind) -> AsyncIterator[Release]:
    """Muster, installed with defaults. It is uninstalled at the end unless a test did so."""
    release = Release(kind)
    if await release.is_installed():
        pytest.exit(f"release {NAMESPACE} already exists in the cluster: helm uninstall it first", returncode=1)
    began = time.monotonic()
    try:
        await release.install()
    except AssertionError as error:
        pytest.exit(f"{error}\n{await release.logs()}", returncode=1)
    MEASUREMENTS.append(f"helm install --wait: {time.monotonic() - began:.1f} s")
    try:
        yield release
    finally:
        if await release.is_installed():
            await release.uninstall()
        await kind.api.delete("namespaces", NAMESPACE)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def webhook(kind: Kind, release: Release) -> None:
    """Enable the webhook, which is disabled by default. It stays enabled for the following tests."""
    await release.upgrade("webhook.enabled=true")

    async def is_registered() -> bool:
        for kinds in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
            found = await kind.api.request("GET", f"{REGISTRATIONS}/{kinds}/{registration.NAME}")
            if not all(one["clientConfig"].get("caBundle") for one in found["webhooks"]):
                return False
        return True

    await until("the webhook is registered", is_registered, 60, every_s=0.5, tolerate=(ApiError,))


@pytest_asyncio.fixture(loop_scope="session")
async def open_namespace(kind: Kind, release: Release) -> AsyncIterator[OpenNamespace]:
    """Create namespaces, and delete them after the test. Fails if a kubelet rejected a pod in one of them."""
    namespaces: list[Namespace] = []

    async def open_one(labels: Mapping[str, str] | None = None) -> Namespace:
        name = f"test-{next(_numbers)}"
        metadata = {"name": name, "labels": dict(labels or {})}
        await kind.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        namespace = Namespace(kind, release, name)
        namespaces.append(namespace)
        await until(
            "the namespace has its default service account",
            lambda: kind.api.get("serviceaccounts", "default", name),
            60,
            every_s=0.2,
            tolerate=(ApiError,),
        )
        return namespace

    yield open_one
    for namespace in namespaces:
        await namespace.close()
    assert [rejection for namespace in namespaces for rejection in sorted(namespace.rejected)] == []


@pytest_asyncio.fixture(loop_scope="session")
async def namespace(open_namespace: OpenNamespace) -> Namespace:
    """A namespace without labels."""
    return await open_namespace()
