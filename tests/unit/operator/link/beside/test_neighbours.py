"""Of two Musters that serve the same names the elder stays, if it lives."""

import asyncio
from functools import partial
from typing import Any

import pytest

from muster_operator.link.beside.lookout import Lookout
from muster_operator.link.errors import StartupRefused
from muster_operator.link.leading.lease import Lease, body
from tests.unit.operator.link.api.apiserver import ApiServer, reply, status
from tests.unit.operator.link.test_around import a_session

LEASES = "GET /apis/coordination.k8s.io/v1/leases"
OURS = ("ours", "muster")
NAMES = frozenset({"muster"})
SOON, LATE = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def a_lease(
    namespace: str, created: str, renewed: str, serves: str = "muster", holder: str = "x", lasts_s: int = 0
) -> dict[str, Any]:
    lease = Lease(holder, lasts_s, "t", renewed, 0, "1")  # no duration: the test need not wait between the looks
    raw = body(namespace, "muster", lease, frozenset({serves}))
    raw["metadata"]["creationTimestamp"] = created
    return raw


async def look(*looks: list[dict[str, Any]]) -> int:
    """Look at what these lists show; returns how many of them were asked for."""
    server = ApiServer()
    for items in looks:
        server.plan(LEASES, partial(reply, 200, {"items": items}))
    async with a_session(server) as session:
        await Lookout(session, OURS, NAMES).look()
    return len(server.seen)


async def test_an_elder_that_renews_its_lease_makes_us_give_way() -> None:
    ours = a_lease("ours", LATE, "a")
    with pytest.raises(StartupRefused, match=r"lease theirs/muster, led by x.*scheduler name muster"):
        await look([ours, a_lease("theirs", SOON, "a")], [ours, a_lease("theirs", SOON, "b")])


async def test_who_has_no_lease_yet_gives_way_to_everybody() -> None:
    with pytest.raises(StartupRefused):
        await look([a_lease("theirs", LATE, "a")], [a_lease("theirs", LATE, "b")])


async def test_a_younger_one_has_to_give_way_itself() -> None:
    ours = a_lease("ours", SOON, "a")
    assert await look([ours, a_lease("theirs", LATE, "a")], [ours, a_lease("theirs", LATE, "b")]) == 2


async def test_of_two_of_the_same_second_exactly_one_gives_way() -> None:
    ours = a_lease("ours", SOON, "a")
    with pytest.raises(StartupRefused):
        await look([ours, a_lease("elder", SOON, "a")], [ours, a_lease("elder", SOON, "b")])
    assert await look([ours, a_lease("younger", SOON, "a")], [ours, a_lease("younger", SOON, "b")]) == 2


async def test_no_lease_keeps_us_waiting_for_ever() -> None:
    """Whoever may write one in a namespace of his own could keep Muster from starting."""
    server = ApiServer()
    for _ in range(2):
        server.plan(LEASES, partial(reply, 200, {"items": [a_lease("theirs", SOON, "a", lasts_s=2**31 - 1)]}))
    async with a_session(server) as session, asyncio.timeout(5):
        await Lookout(session, OURS, NAMES, patience_s=0.1).look()
    assert len(server.seen) == 2


async def test_a_dead_one_does_not_matter() -> None:
    assert await look([a_lease("theirs", SOON, "a")], [a_lease("theirs", SOON, "a")]) == 2


@pytest.mark.parametrize(
    "other",
    [
        a_lease("theirs", SOON, "a", serves="another"),
        a_lease("theirs", SOON, "a", serves=""),
        a_lease("theirs", SOON, "a", holder=""),
        a_lease("ours", SOON, "a"),
    ],
)
async def test_others_of_other_names_nobodys_and_our_own_are_no_suspects(other: dict[str, Any]) -> None:
    assert await look([other]) == 1


async def test_who_may_not_look_goes_on() -> None:
    server = ApiServer()
    server.plan(LEASES, lambda: status(403, "Forbidden"))
    async with a_session(server) as session:
        await Lookout(session, OURS, NAMES).look()
    assert len(server.seen) == 1
