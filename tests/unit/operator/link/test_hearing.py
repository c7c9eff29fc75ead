"""Who takes over decides by what the cluster is, not by what it was when the watches fell silent."""

from __future__ import annotations

import asyncio

from muster_operator.link.hearing import SILENT_S, Hearing
from muster_operator.link.inbox import Inbox
from muster_operator.link.leading.fence import Fence
from muster_operator.link.leading.leadership import Unopposed
from muster_operator.link.metrics import Metrics
from muster_operator.link.si.current import NEEDED
from muster_operator.serving import talk
from tests.unit.operator.link.test_loop import Operator


class Clock:
    """Goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_lists_events_and_bookmarks_are_heard() -> None:
    inbox, clock = Inbox(Metrics()), Clock()
    inbox.hearing = Hearing(clock)
    assert inbox.hearing.silent == "", "at the start nothing is waited for that the first lists do not bring"
    await inbox.listed("pods", frozenset())
    await inbox.listed("nodes", frozenset())
    inbox.heard("namespaces")
    clock.now += SILENT_S - 1
    inbox.heard("nodes")
    assert inbox.hearing.silent == ""
    clock.now += 2
    assert inbox.hearing.silent == "namespaces, pods"


async def test_who_takes_over_after_a_long_silence_registers_when_everything_is_heard_of_again() -> None:
    clock, operator, leading = Clock(), Operator(), Unopposed(Fence())
    hearing = operator.inbox.hearing = Hearing(clock)
    await operator.lists()
    while len(operator.inbox):
        operator.loop.turn()
    assert operator.loop.unlisted == ""
    clock.now += 3600
    assert operator.loop.unlisted == f"nothing heard of for long: {', '.join(sorted(NEEDED))}"
    talking = asyncio.create_task(talk(operator.link, hearing, leading))
    leading.begun.set()
    for plural in NEEDED - {"priorityclasses"}:
        hearing.note(plural)
        await operator.settled()
    assert operator.peer.registrations == []
    await operator.inbox.listed("priorityclasses", frozenset())
    await operator.until(lambda: bool(operator.peer.registrations))
    talking.cancel()
    await asyncio.gather(talking, return_exceptions=True)
