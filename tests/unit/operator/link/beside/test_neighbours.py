"""One Muster serves a scheduler name: the one that holds its Lease in kube-system."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from muster.checks import rights
from muster_operator.link.beside import neighbours
from muster_operator.link.beside.lookout import Lookout
from muster_operator.link.errors import PartEnded, StartupRefused
from muster_operator.link.leading.lease import Lease, body
from tests.unit.operator.link.api.apiserver import ApiServer, reply, status
from tests.unit.operator.link.test_around import a_session

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LEASE = f"{LEASES}/muster-scheduler-muster"
DEPLOYMENTS, PODS = "GET /apis/apps/v1/deployments", "GET /api/v1/pods"
OURS, US, THEY = ("ours", "muster"), "ours/muster", "theirs/muster"
NAMES = frozenset({"muster"})


def a_lease(holder: str, renewed: str = "a", lasts_s: int = 0) -> dict[str, Any]:
    """No duration: the test need not wait between two looks."""
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


async def look(server: ApiServer, *, take: bool = False, patience_s: float = 0.1) -> list[str]:
    """Look once; returns who holds the Lease after each write."""
    async with a_session(server) as session:
        await Lookout(session, OURS, NAMES, patience_s=patience_s).look(take=take)
    writes = [*server.requests("PUT"), *server.requests("POST")]
    return [write.body["spec"]["holderIdentity"] for write in writes]


async def test_another_muster_that_renews_the_lease_of_a_name_keeps_it() -> None:
    server = a_server(a_lease(THEY, "a"), a_lease(THEY, "b"))
    with pytest.raises(StartupRefused, match=r"lease theirs/muster\) serves the scheduler name muster"):
        await look(server)


async def test_one_that_renews_it_no_more_loses_it() -> None:
    dead = a_lease(THEY)
    assert await look(a_server(dead, dead, dead), take=True) == [US]


async def test_a_free_lease_is_taken_and_our_own_is_renewed() -> None:
    assert await look(a_server(None, None), take=True) == [US]
    assert await look(a_server(a_lease(US), a_lease(US)), take=True) == [US]
    assert await look(a_server(a_lease(""), a_lease("")), take=True) == [US]


async def test_before_we_lead_nothing_is_written() -> None:
    assert await look(a_server(None)) == []


async def test_nothing_but_these_leases_is_looked_at() -> None:
    """Whoever may write Leases in a namespace of its own could else keep Muster from starting."""
    server = a_server(None)
    await look(server)
    assert [request.path for request in server.requests("GET")] == [LEASE]


async def test_no_lease_is_waited_for_longer_than_the_patience() -> None:
    long = a_lease(THEY, lasts_s=2**31 - 1)
    async with asyncio.timeout(5):
        assert await look(a_server(long, long, long), take=True) == [US]


async def test_without_the_right_to_look_the_operator_goes_on() -> None:
    server = ApiServer()
    server.plan(f"GET {LEASE}", lambda: status(403, "Forbidden"))
    assert await look(server) == []


async def test_at_the_end_the_name_is_free_at_once() -> None:
    server = a_server(None, None, a_lease(US))
    async with a_session(server) as session:
        running = asyncio.create_task(Lookout(session, OURS, NAMES).run())
        while not server.requests("POST"):  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.wait({running})
    [given_back] = server.requests("PUT")
    assert given_back.body["spec"]["holderIdentity"] == ""


async def a_look_for_yunikorn(names: set[str], withheld: set[str], deployments: Any) -> None:
    server = a_server(None)
    server.plan(DEPLOYMENTS, deployments)
    server.plan(PODS, lambda: reply(200, {"items": []}))
    async with a_session(server) as session:
        await Lookout(session, OURS, frozenset(names), frozenset(withheld)).look()


async def test_a_failed_look_for_a_yunikorn_keeps_the_last_certain_answer() -> None:
    await a_look_for_yunikorn({"muster"}, {"yunikorn"}, lambda: status(500, "InternalError"))


async def test_a_name_that_was_withheld_is_served_once_no_yunikorn_certainly_runs() -> None:
    with pytest.raises(PartEnded, match="restarting to serve the scheduler name yunikorn"):
        await a_look_for_yunikorn({"muster"}, {"yunikorn"}, lambda: reply(200, {"items": []}))


def test_doctor_asks_about_the_same_leases() -> None:
    assert (rights.NAMES, rights.PREFIX) == (neighbours.NAMESPACE, neighbours.PREFIX)
