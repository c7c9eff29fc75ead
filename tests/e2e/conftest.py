"""One control plane for the run; own nodes, namespace and Muster for each scenario, and checks at its end.

Muster schedules on every node of the cluster, so scenarios run one after the other and delete their nodes.
"""

import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from devcluster import muster as muster_processes
from devcluster.cluster import Cluster, running
from devcluster.demo import CONFIG, environment
from devcluster.errors import ApiError
from devcluster.flavour import choose
from devcluster.fork_server import fork_server
from devcluster.muster import Muster, Setup
from devcluster.nodes import FakeNode
from devcluster.waiting import until
from tests.e2e import final_checks, permissions
from tests.e2e.gate import Gate
from tests.e2e.placement_modes import placements_that_count
from tests.e2e.scenario import Scenario

OpenScenario = Callable[..., Awaitable[Scenario]]
MakeSetup = Callable[..., Setup]

COMPLETING = "service.completingTimeout"
QUICK = {COMPLETING: "100ms", "service.placeholderImage": "registry.k8s.io/pause:3.10.2"}
"""Settings of every scenario: completed applications are removed soon, so that a test can wait for an empty state."""

BUSY = {"MUSTER_COMPARE_EVERY": "0.2"}
"""The states of operator and core are compared continuously, so that a scenario shows differences."""

PLACEMENT_VARIABLE = "MUSTER_GANG_PLACEMENT"
"""The default gang placement of this run: Auto (unset), Reserve or Direct. Tests of placeholder pods, and of
partial reservations, set the placement explicitly."""

HERE = Path(__file__).parent

_numbers = itertools.count(1)
_outcome = pytest.StashKey[dict[str, pytest.TestReport]]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run all coroutines of this folder in one event loop, because the cluster's connections belong to it.

    Only a run of the complete folder uses all permissions (permissions.py).
    """
    ours = [item for item in items if item.path.is_relative_to(HERE)]  # pytest passes the items of the complete run
    for item in ours:
        if pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
        if isinstance(item, pytest.Function) and placement_of_run() in placements_that_count(item):
            item.add_marker(pytest.mark.gangs)
    is_part = config.option.keyword or config.option.markexpr
    config.stash[permissions.IS_COMPLETE] = not is_part and {item.path for item in ours} >= {*HERE.rglob("test_*.py")}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Record the result of each phase of a test for the fixtures that clean up after it."""
    report = yield
    item.stash.setdefault(_outcome, {})[report.when] = report
    return report


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def cluster() -> AsyncIterator[Cluster]:
    """The cluster of the run, without nodes; the local control plane unless MUSTER_CLUSTER is set."""
    for module in ("muster_core", "muster_operator"):
        fork_server(module)  # imports while the control plane starts
    async with running(which=choose(), readable=True, gangs=True) as started:
        await _has_account(started, "default")
        yield started


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def home(cluster: Cluster, request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    """The cluster with Muster's namespace, account and role in it."""
    async with muster_processes.installed(cluster):
        yield cluster
        if cluster.plane is not None:
            permissions.record(request.config, cluster.audit)


@pytest_asyncio.fixture(loop_scope="session")
async def local(cluster: Cluster) -> AsyncIterator[Cluster]:
    """The same cluster with two nodes, for tests of the cluster itself; skipped unless it is local."""
    if cluster.plane is None:
        pytest.skip("only the local control plane is ours to look into")
    await cluster.add_nodes([FakeNode("node-0"), FakeNode("node-1")])
    yield cluster
    await cluster.admin.delete_all("jobs", "default")
    await cluster.admin.delete_all("pods", "default")
    await cluster.remove_nodes()


@pytest_asyncio.fixture(loop_scope="session")
async def open_scenario(home: Cluster, request: pytest.FixtureRequest) -> AsyncIterator[OpenScenario]:
    """Open scenarios, each with its nodes, settings and an optional gate. Afterwards each is checked and removed."""
    scenarios: list[Scenario] = []
    async with AsyncExitStack() as stack:

        async def open_one(
            nodes: Sequence[FakeNode] = (),
            config: Mapping[str, str] | None = None,
            *,
            gated: bool = False,
            started: bool = True,
            embedded: bool = False,
            env: Mapping[str, str] | None = None,
        ) -> Scenario:
            gate = await _gate(home, stack) if gated else None
            settings = {**QUICK, **_placement(), **(config or {})}
            setup = partial(Setup, embedded=embedded, preloaded=True, env={**BUSY, **(env or {})})
            scenario = await _open(home, stack, [*nodes], settings, gate, setup)
            scenarios.append(scenario)
            if started:
                await scenario.muster.start()
            return scenario

        yield open_one
        await _checked(request, scenarios)


@pytest_asyncio.fixture(loop_scope="session")
async def demo(home: Cluster, request: pytest.FixtureRequest) -> AsyncIterator[Scenario]:
    """What ``KEEP=1 make demo`` leaves running, and a namespace. Afterwards it is checked and removed."""
    if home.plane is None:
        pytest.skip("make demo leaves the local control plane running")
    async with AsyncExitStack() as stack:
        namespace = await _namespace(home, stack)
        stack.push_async_callback(home.remove_nodes)
        stack.push_async_callback(_no_pod, home, namespace)
        folder = await _folder(home, namespace)
        config = CONFIG if "documents" in request.path.parts else {**CONFIG, **QUICK}  # documents show its states
        muster = await stack.enter_async_context(environment(home, folder=folder, config=config))
        scenario = Scenario(home, muster, namespace, None)
        yield scenario
        await _checked(request, [scenario])


def placement_of_run() -> str:
    """The default gang placement of this run for the scheduler name `muster`."""
    return os.environ.get(PLACEMENT_VARIABLE) or "Auto"


def _placement() -> dict[str, str]:
    """The setting for the default placement of this run."""
    chosen = os.environ.get(PLACEMENT_VARIABLE)
    return {"gang.placement": chosen} if chosen else {}


async def _open(
    cluster: Cluster,
    stack: AsyncExitStack,
    nodes: list[FakeNode],
    config: Mapping[str, str],
    gate: Gate | None,
    setup: MakeSetup,
) -> Scenario:
    namespace = await _namespace(cluster, stack)
    stack.push_async_callback(cluster.remove_nodes)
    await cluster.add_nodes(nodes)
    stack.push_async_callback(_no_pod, cluster, namespace)
    await stack.enter_async_context(muster_processes.configured(cluster, config))
    folder = await _folder(cluster, namespace)
    url = gate.url if gate else None
    kubeconfig = await cluster.kubeconfig_for(muster_processes.ACCOUNT, muster_processes.NAMESPACE, url)
    muster = Muster(setup(kubeconfig, folder, log_level="debug"))
    stack.push_async_callback(muster.stop)
    return Scenario(cluster, muster, namespace, gate, completes_slowly=config.get(COMPLETING) != QUICK[COMPLETING])


async def _namespace(cluster: Cluster, stack: AsyncExitStack) -> str:
    """Create the namespace of a scenario."""
    name = f"scenario-{next(_numbers)}"
    await cluster.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    stack.push_async_callback(cluster.admin.delete, "namespaces", name)
    await _has_account(cluster, name)
    return name


async def _folder(cluster: Cluster, name: str) -> Path:
    """Delete the lease of an earlier scenario, and create Muster's folder."""
    await cluster.admin.delete("leases", muster_processes.LEASE, muster_processes.NAMESPACE)
    folder = cluster.folder / name
    folder.mkdir()
    return folder


async def _checked(request: pytest.FixtureRequest, scenarios: Sequence[Scenario]) -> None:
    """Check the end of each scenario, or print its state if the test has failed."""
    failed = any(report.failed for report in request.node.stash.get(_outcome, {}).values())
    for scenario in scenarios:
        if failed:
            print(await scenario.report())  # noqa: T201  # pytest shows it with the failure
        else:
            await _recovered(scenario)
            await final_checks.check(scenario)


async def _gate(cluster: Cluster, stack: AsyncExitStack) -> Gate:
    if cluster.plane is None:
        pytest.skip("the gate needs a certificate of the cluster's own authority")
    files = cluster.plane.authority.issue("gate", ["127.0.0.1"])
    return await stack.enter_async_context(Gate(cluster.admin.access, files))


async def _recovered(scenario: Scenario) -> None:
    """Resume the processes and requests that a scenario stopped, so that Muster can clean up itself."""
    if scenario.has_gate:
        scenario.gate.clear()
    await scenario.muster.start()


async def _no_pod(cluster: Cluster, namespace: str) -> None:
    """Delete the pods of a failed scenario, so that the next one starts with an empty cluster."""

    async def is_empty() -> bool:
        await cluster.admin.delete_all("jobs", namespace)
        await cluster.admin.delete_all("pods", namespace)
        return not await cluster.admin.find("pods", namespace)

    await until("the scenario's pods are deleted", is_empty, 90, every_s=0.2)


async def _has_account(cluster: Cluster, namespace: str) -> None:
    """Wait for the default service account, without which no pod is admitted.

    After a scenario that killed API servers the controllers may be slow to watch again.
    """
    await until(
        "the default service account",
        lambda: cluster.admin.get("serviceaccounts", "default", namespace),
        150,
        tolerate=(ApiError,),
    )
