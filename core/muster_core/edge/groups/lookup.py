"""Fills in the groups of users whose applications name none, before the engine processes the applications.

Called by scheduler.py for each message of applications; it waits for the
answer, so order within the stream holds. Directories block, and run in a few
threads. A directory that does not respond within `patience_s`, or cannot be reached,
is not queried for 30 s. Applications with unknown groups are marked (`groups_unknown`).

Differs: if a user's groups cannot be found, the application waits if a placement rule, an access list or a limit
depends on them, and continues otherwise; YuniKorn rejects it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

import structlog

from muster_core.edge.groups.answers import Answer, Directory
from muster_core.edge.groups.cache import PROBLEM_S, Cache, Key
from muster_core.edge.groups.ldap import LdapDirectory
from muster_core.edge.groups.system import of_system
from muster_core.model.config import GroupResolver
from muster_core.model.events import ApplicationAdded, Event
from muster_core.model.ids import PartitionId, RmId
from muster_core.model.notes import EventNoted, Notice

_log = structlog.get_logger(__name__)

_THREADS: Final = 4
#: A silent directory is believed to be gone after so long.
_PATIENCE_S: Final = 3.0
#: One message waits no longer, however steadily its users are answered.
_MOST_S: Final = 30.0


def of_tests(user: str) -> Answer:
    """The resolver `test`: every user is in a group of its own name, and in `testgroup`."""
    return Answer((user, "testgroup"))


def directories(ldap: Directory | None = None) -> dict[GroupResolver, Directory]:
    """Who is asked, by resolver; `ldap`: another than the one of the mounted secret."""
    return {
        GroupResolver.OS: of_system,
        GroupResolver.LDAP: ldap or LdapDirectory(),
        GroupResolver.TEST: of_tests,
    }


class Groups:
    """The groups of users, remembered. Used from one event loop. `retry_s`: after how long users that something waits
    for are looked up again (retries.py); a "no" is believed no longer than that.
    """

    def __init__(
        self,
        asked: Mapping[GroupResolver, Directory] | None = None,
        now_s: Callable[[], float] = time.monotonic,
        patience_s: float = _PATIENCE_S,
        retry_s: float = PROBLEM_S + 1.0,
    ) -> None:
        self.retry_s = retry_s
        self.cache = Cache()
        self._directories = directories() if asked is None else asked
        self._now_s = now_s
        self._patience_s = patience_s
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="groups")
        #: Until when a directory that did not answer is left alone, and what to say meanwhile.
        self._silent: dict[GroupResolver, tuple[float, str]] = {}
        self._is_closed = False

    async def fill(
        self, rm: RmId, events: Sequence[Event], resolvers: Mapping[PartitionId, GroupResolver]
    ) -> tuple[list[Event], list[EventNoted]]:
        """The same events with the groups filled in, and what is to be said where they could not be found."""
        wanted = {
            key
            for event in events
            if isinstance(event, ApplicationAdded) and (key := _key(event, resolvers)) is not None
        }
        answers = await self._answers(wanted)
        filled: list[Event] = []
        said: list[EventNoted] = []
        for event in events:
            if not isinstance(event, ApplicationAdded) or event.spec.groups:
                filled.append(event)
                continue
            key = _key(event, resolvers)
            answer = Answer((event.spec.user,)) if key is None else answers[key]
            filled.append(replace(event, spec=replace(event.spec, groups=answer.groups, groups_unknown=answer.problem)))
            if answer.problem:
                said.append(_problem(rm, event, answer.problem))
        return filled, said

    async def look_up(self, resolver: GroupResolver, users: Sequence[str]) -> dict[str, Answer]:
        """Return the directory's groups of these users, each once."""
        answers = await self._answers({(resolver, user) for user in users})
        return {user: answer for (_, user), answer in answers.items()}

    def close(self) -> None:
        """No more lookups; those under way are not waited for, and whoever asks later is told so."""
        self._is_closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _answers(self, wanted: Iterable[Key]) -> dict[Key, Answer]:
        now_s = self._now_s()
        found: dict[Key, Answer] = {}
        asked: dict[Key, asyncio.Future[Answer]] = {}
        loop = asyncio.get_running_loop()
        for key in sorted(wanted):
            known = self.cache.get(key, now_s) or self._excuse(key[0], now_s)
            if known is not None:
                found[key] = known
                continue
            asked[key] = loop.run_in_executor(self._threads, self._directories[key[0]], key[1])
        await self._wait(asked.values())
        for key, future in asked.items():
            found[key] = self._take(key, future)
        return found

    def _excuse(self, resolver: GroupResolver, now_s: float) -> Answer | None:
        if self._is_closed:
            return Answer(problem="the scheduler shuts down")
        until_s, why = self._silent.get(resolver, (now_s, ""))
        return Answer(problem=why) if now_s < until_s else None

    async def _wait(self, asked: Iterable[asyncio.Future[Answer]]) -> None:
        """Until all have answered, or none has for a while, or one could not ask, or it takes too long in all."""
        left = set(asked)
        until_s = self._now_s() + _MOST_S
        while left and self._now_s() < until_s:
            done, left = await asyncio.wait(left, timeout=self._patience_s)
            if not done or any(future.result().is_silent for future in done if future.exception() is None):
                return

    def _take(self, key: Key, future: asyncio.Future[Answer]) -> Answer:
        resolver, _ = key
        now_s = self._now_s()
        if not future.done():
            future.cancel()
            answer = Answer(problem=f"{resolver.value} does not answer", is_silent=True)
        elif (error := future.exception()) is not None:
            answer = Answer(problem=f"{resolver.value} failed: {error}", is_silent=True)
        else:
            answer = future.result()
        if answer.is_silent and self._excuse(resolver, now_s) is None:
            self._silent[resolver] = (now_s + PROBLEM_S, answer.problem)
            _log.warning("groups cannot be looked up for a while", resolver=resolver.value, reason=answer.problem)
        elif not answer.is_silent:
            self.cache.put(key, answer, now_s)
        return answer


def _key(event: ApplicationAdded, resolvers: Mapping[PartitionId, GroupResolver]) -> Key | None:
    """Whom to ask about whom; None = nobody: the groups are given, or are the user's own name (contract 2.9)."""
    resolver = resolvers.get(event.spec.partition, GroupResolver.NONE)
    if event.spec.groups or resolver is GroupResolver.NONE:
        return None
    return resolver, event.spec.user


def _problem(rm: RmId, event: ApplicationAdded, problem: str) -> EventNoted:
    spec = event.spec
    message = f"groups of user {spec.user} are unknown: {problem}"
    return EventNoted(rm, Notice.APPLICATION, spec.id, message, app_name=spec.shown_as)
