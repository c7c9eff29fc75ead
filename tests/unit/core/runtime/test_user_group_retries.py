"""Users that something waits for are looked up again for as long as something waits."""

from __future__ import annotations

import asyncio

from muster_core.config.load import load
from muster_core.model.ids import RmId
from muster_core.runtime.loop import EventQueue
from muster_core.runtime.sessions import Decoder, Session
from muster_core.runtime.user_groups import GroupRetries, Groups
from muster_core.state.scheduler_state import SchedulerState
from tests.unit.core.conftest import Notebook


async def test_a_session_watched_while_the_last_round_ends_is_looked_up_too() -> None:
    """A round without remaining lookups ends immediately, before its task is observed as finished."""
    worlds = list[int]()

    def scheduler_state() -> SchedulerState:
        worlds.append(len(worlds))
        if len(worlds) == 2:  # the round that finds nothing new and nothing waiting
            asyncio.get_running_loop().call_soon(retries.watch, session)
        return SchedulerState()

    retries = GroupRetries(Groups({}, retry_s=0.0), EventQueue(10), scheduler_state)
    session = Session(RmId("rm"), Notebook(), Decoder(RmId("rm"), []), {}, load("", {}))
    retries.watch(session)
    async with asyncio.timeout(20):
        while len(worlds) < 4:  # noqa: ASYNC110 - the rounds have no event
            await asyncio.sleep(0.001)
    retries.close()
