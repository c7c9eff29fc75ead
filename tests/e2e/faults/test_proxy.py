"""The proxy injects the scheduled fault; here the schedule has the same fault for every request."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import pytest
import pytest_asyncio

from devcluster.api import Access, Api, Json
from devcluster.cluster import Cluster
from devcluster.errors import ApiError
from tests.e2e.faults.proxy import FaultyProxy
from tests.e2e.faults.schedule import Fault, Kind, PlannedFault, Schedule

Opened = tuple[FaultyProxy, Api]
Open = Callable[[PlannedFault], Awaitable[Opened]]


class Always(Schedule):
    """The same fault for every request."""

    def __init__(self, planned: PlannedFault) -> None:
        super().__init__(0)
        self._stroke = planned

    def next(self, kind: Kind) -> PlannedFault | None:
        return self._stroke


@pytest_asyncio.fixture(loop_scope="session")
async def through(local: Cluster) -> AsyncIterator[Open]:
    """Open a proxy with that fault, and a client that uses it."""
    opened: list[Opened] = []
    assert local.plane is not None
    files = local.plane.authority.issue("faulty", ["127.0.0.1"])

    async def open_one(planned: PlannedFault) -> Opened:
        proxy = await FaultyProxy(local.admin.access, files, Always(planned)).__aenter__()
        api = Api(Access(proxy.url, local.admin.access.tls, local.admin.access.token))
        opened.append((proxy, api))
        return proxy, api

    yield open_one
    for proxy, api in opened:
        await api.__aexit__(None, None, None)
        await proxy.__aexit__(None, None, None)
    await local.admin.delete_all("configmaps", "default", labelSelector="test=faults")


def a_configmap(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"test": "faults"}}}


async def is_there(local: Cluster, name: str) -> bool:
    found = await local.admin.find("configmaps", "default", labelSelector="test=faults")
    return name in {item["metadata"]["name"] for item in found}


@pytest.mark.parametrize(
    "fault, status",
    [(Fault.CONFLICT, 409), (Fault.THROTTLED, 429), (Fault.ERROR, 500), (Fault.UNAVAILABLE, 503), (Fault.GONE, 410)],
)
async def test_a_rejection_is_returned_without_calling_the_server(
    fault: Fault, status: int, through: Open, local: Cluster
) -> None:
    proxy, api = await through(PlannedFault(fault))
    with pytest.raises(ApiError) as refused:
        await api.create(a_configmap(f"refused-{status}"))
    assert refused.value.status == status
    assert not await is_there(local, f"refused-{status}")
    assert proxy.done == {(Kind.OTHER, fault): 1}


@pytest.mark.parametrize("fault, acted", [(Fault.RESET_BEFORE, False), (Fault.RESET_AFTER, True)])
async def test_a_reset_occurs_before_or_after_the_server_acted(
    fault: Fault, *, acted: bool, through: Open, local: Cluster
) -> None:
    _, api = await through(PlannedFault(fault))
    with pytest.raises(aiohttp.ClientError):
        await api.create(a_configmap(f"reset-{acted}".lower()))
    assert await is_there(local, f"reset-{acted}".lower()) is acted


@pytest.mark.parametrize("fault, acted", [(Fault.UNANSWERED_BEFORE, False), (Fault.UNANSWERED_AFTER, True)])
async def test_an_unanswered_request_waits_until_its_client_times_out(
    fault: Fault, *, acted: bool, through: Open, local: Cluster
) -> None:
    _, api = await through(PlannedFault(fault))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(api.create(a_configmap(f"silent-{acted}".lower())), 0.5)
    assert await is_there(local, f"silent-{acted}".lower()) is acted


@pytest.mark.parametrize("fault", [Fault.CUT, Fault.TORN, Fault.EXPIRED])
async def test_a_watch_ends_as_its_planned_fault_defines(fault: Fault, through: Open, local: Cluster) -> None:
    proxy, _ = await through(PlannedFault(fault, after=1))
    lines = bytearray()
    url = f"{proxy.url}/api/v1/pods?watch=true"
    headers = {"Authorization": f"Bearer {local.admin.access.token}"}
    broke = False
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.get(url, ssl=local.admin.access.tls) as answer,
    ):
        pod: Json = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"seen-{fault.name.lower()}"},
            "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "none"}]},
        }
        await local.admin.create(pod)
        try:
            async for chunk in answer.content.iter_any():
                lines += chunk
        except aiohttp.ClientError:
            broke = True
    if fault is not Fault.TORN:  # a reset may also discard data that was sent just before
        assert f"seen-{fault.name.lower()}".encode() in lines
    assert broke is (fault is Fault.TORN)
    assert (b'"code":410' in lines) is (fault is Fault.EXPIRED)
    assert lines.endswith(b"\n") or fault is Fault.TORN


async def test_quiet_ends_all_pending_and_future_faults(through: Open, local: Cluster) -> None:
    proxy, api = await through(PlannedFault(Fault.UNANSWERED_BEFORE))
    waiting = asyncio.create_task(api.create(a_configmap("interrupted")))
    await proxy.reaches(frozenset({Kind.OTHER}), 1)
    proxy.quiet()
    with pytest.raises(aiohttp.ClientError):
        await waiting
    await api.create(a_configmap("quiet"))
    assert await is_there(local, "quiet")
