"""Only one Muster serves a scheduler name: the holder of its Lease in kube-system."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from muster_operator.kube.leases import Lease, body
from muster_operator.model.errors import PartEnded, StartupRefused
from muster_operator.runtime import conflicts
from muster_operator.runtime.conflicts import ConflictDetector, NameLeases, leases_of
from tests.unit.operator.kube.apiserver import ApiServer, reply, status
from tests.unit.operator.runtime.test_probes import a_session

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LEASE = f"{LEASES}/muster-scheduler-muster"
DEPLOYMENTS, PODS = "GET /apis/apps/v1/deployments", "GET /api/v1/pods"
OURS, US, THEY = ("ours", "muster"), "ours/muster", "theirs/muster"
NAMES = frozenset({"muster"})


def a_lease(holder: str, renewed: str = "a", lasts_s: int = 1) -> dict[str, Any]:
    lease = Lease(holder, lasts_s, "t", renewed, 0, "1")
    return body("kube-system", "muster-scheduler-muster", lease)


def a_server(*shown: dict[str, Any] | None) -> ApiServer:
    """The Lease as it is each time it is read; None = there is none."""
    server = ApiServer()
    for lease in shown:
        server.plan(f"GET {LEASE}", partial(status, 404, "NotFound") if lease is None else partial(reply, 200, lease))
    server.plan(f"PUT {LEASE}", lambda: reply(200, a_lease(US)))
    server.plan(f"POST {LEASES}", lambda: reply(201, a_lease(US)))
    return server


@asynccontextmanager
async def names_of(server: ApiServer, max_wait_s: float = 0.1) -> AsyncIterator[NameLeases]:
    async with a_session(server) as session:
        yield NameLeases(leases_of(session, NAMES, OURS, max_wait_s))


def holders(server: ApiServer) -> list[str]:
    """The holder of the Lease after each write."""
    writes = [*server.requests("PUT"), *server.requests("POST")]
    return [write.body["spec"]["holderIdentity"] for write in writes]


async def holders_after_taking(server: ApiServer) -> list[str]:
    """Wait until the Lease is free, then take it. Returns the holder after each write."""
    async with names_of(server) as names:
        await names.until_free()
        await names.acquire_or_renew()
        assert names.are_all_held is bool(holders(server))
    return holders(server)


async def test_another_muster_that_renews_a_scheduler_name_lease_keeps_it() -> None:
    async with names_of(a_server(a_lease(THEY, "a"), a_lease(THEY, "b"))) as names:
        with pytest.raises(StartupRefused, match=r"lease theirs/muster\) serves the scheduler name muster"):
            await names.until_free()


async def test_another_muster_that_takes_a_free_scheduler_name_lease_concurrently_keeps_it() -> None:
    """Two that start together: both see a free Lease, one of them is faster."""
    async with names_of(a_server(None, a_lease(THEY))) as names:
        await names.until_free()
        with pytest.raises(StartupRefused, match="theirs/muster"):
            await names.acquire_or_renew()
        assert not names.held.is_set()


async def test_the_next_name_is_not_taken_while_another_muster_holds_the_first() -> None:
    """Of two that start together one takes all names; with one name each both would give way."""
    server = ApiServer()
    server.plan(f"GET {LEASE}", lambda: status(404, "NotFound"))
    server.plan(f"POST {LEASES}", lambda: status(409, "AlreadyExists"))
    async with a_session(server) as session:
        await NameLeases(leases_of(session, frozenset({"yunikorn", "muster"}), OURS, 0.1)).acquire_or_renew()
    assert {request.path for request in [*server.requests("GET"), *server.requests("POST")]} == {LEASE, LEASES}
    assert len(server.requests("POST")) == 1


async def test_a_lease_written_first_by_another_muster_is_not_held() -> None:
    server = ApiServer()
    server.plan(f"GET {LEASE}", lambda: status(404, "NotFound"), lambda: reply(200, a_lease(THEY)))
    server.plan(f"POST {LEASES}", lambda: status(409, "AlreadyExists"))
    async with names_of(server) as names:
        await names.acquire_or_renew()
        assert not names.are_all_held
        assert not names.held.is_set()
        assert not names.are_lost
        with pytest.raises(StartupRefused):
            await names.acquire_or_renew()


async def test_an_expired_lease_is_taken() -> None:
    dead = a_lease(THEY)
    assert await holders_after_taking(a_server(*[dead] * 9)) == [US]


async def test_a_free_lease_is_taken_and_our_lease_is_renewed() -> None:
    assert await holders_after_taking(a_server(None, None)) == [US]
    assert await holders_after_taking(a_server(a_lease(US), a_lease(US))) == [US]
    assert await holders_after_taking(a_server(a_lease(""), a_lease(""))) == [US]


async def test_no_lease_is_written_before_leading() -> None:
    server = a_server(None)
    async with names_of(server) as names:
        await names.until_free()
    assert holders(server) == []


async def test_only_the_scheduler_name_leases_are_read() -> None:
    """Otherwise a user who can write Leases in a namespace could prevent the start of Muster."""
    server = a_server(None)
    async with names_of(server) as names:
        await names.until_free()
    assert [request.path for request in server.requests("GET")] == [LEASE]


async def test_a_lease_with_a_very_long_duration_is_not_waited_for() -> None:
    long = a_lease(THEY, lasts_s=2**31 - 1)
    async with asyncio.timeout(20):
        assert await holders_after_taking(a_server(*[long] * 9)) == [US]


async def test_without_permission_to_read_the_lease_no_name_is_held() -> None:
    server = ApiServer()
    for _ in range(2):
        server.plan(f"GET {LEASE}", lambda: status(403, "Forbidden"))
    async with names_of(server) as names:
        await names.until_free()
        await names.acquire_or_renew()
        assert not names.held.is_set()
        assert names.missing == "muster (the lease: 403 Forbidden)"


async def test_a_name_whose_lease_was_not_renewed_in_time_is_lost_until_the_next_renewal() -> None:
    now, wakes = [0.0], list[float]()
    server = a_server(a_lease(""), a_lease(US), a_lease(US))
    server.plan(f"PUT {LEASE}", lambda: status(500, "InternalError"), lambda: reply(200, a_lease(US)))
    async with a_session(server) as session:
        lease = conflicts.NameLease(session, "muster", US, clock=lambda: now[0])
        names = NameLeases((lease,), on_held=lambda: wakes.append(now[0]))
        await names.acquire_or_renew()
        now[0] = conflicts.DURATION_S * conflicts.DECIDES + 1
        await names.acquire_or_renew()
        assert names.missing.startswith("muster")
        assert names.are_lost
        await names.acquire_or_renew()
        assert names.missing == ""
    assert wakes == [0.0, now[0]]


async def test_the_lease_is_released_at_shutdown() -> None:
    server = a_server(None)
    async with names_of(server) as names:
        await names.acquire_or_renew()
        await names.give_back()
    assert holders(server) == ["", US]
    assert not names.are_all_held


async def test_a_lease_renewed_by_the_next_leader_of_the_installation_is_not_released() -> None:
    """The version of our last write is what is given back, and not what is there by now."""
    server = a_server(None)
    server.planned[f"POST {LEASES}"] = [lambda: reply(201, a_lease(US) | {"metadata": {"resourceVersion": "7"}})]
    server.planned[f"PUT {LEASE}"] = [lambda: status(409, "Conflict")]
    async with names_of(server) as names:
        await names.acquire_or_renew()
        await names.give_back()
    [given_back] = server.requests("PUT")
    assert given_back.body["metadata"]["resourceVersion"] == "7"
    assert [request.path for request in server.requests("GET")] == [LEASE]


async def a_yunikorn_check(names: set[str], withheld: set[str], deployments: Any) -> None:
    server = a_server(None)
    server.plan(DEPLOYMENTS, deployments)
    server.plan(PODS, lambda: reply(200, {"items": []}))
    async with a_session(server) as session:
        await ConflictDetector(session, frozenset(names), frozenset(withheld)).check()


async def test_a_failed_yunikorn_check_keeps_the_last_certain_result() -> None:
    await a_yunikorn_check({"muster"}, {"yunikorn"}, lambda: status(500, "InternalError"))


async def test_a_withheld_name_is_served_once_no_yunikorn_is_running() -> None:
    with pytest.raises(PartEnded, match="restarting to serve the scheduler name yunikorn"):
        await a_yunikorn_check({"muster"}, {"yunikorn"}, lambda: reply(200, {"items": []}))
