"""User group lookups: operating system and LDAP, with cache and retries.

`service` looks up the groups of each new application's user before the scheduler task receives the application.
`GroupRetries` repeats failed lookups.

Differs: if a user's groups cannot be found, the application waits if a placement rule, an access list or a limit
depends on them, and continues otherwise; YuniKorn rejects it.
"""

from __future__ import annotations

import asyncio
import grp
import os
import pwd
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Final

import structlog

from muster_core.model import limits, messages
from muster_core.model.config import GroupResolver, GroupsAnswer
from muster_core.model.events import ApplicationAdded, Event, GroupsResolved
from muster_core.model.ids import PartitionId, RmId
from muster_core.model.records import EventRecorded, Notice
from muster_core.runtime.loop import EventQueue, QueuedMessage
from muster_core.runtime.sessions import Session
from muster_core.scheduling import lifecycle
from muster_core.state.scheduler_state import Partition, SchedulerState

_log = structlog.get_logger(__name__)


Directory = Callable[[str], GroupsAnswer]

#: How long groups are cached, in seconds.
GROUPS_S: Final = 300.0

#: How long a failed lookup is cached, in seconds.
PROBLEM_S: Final = 30.0

#: Maximum of cached users. Above it, the oldest entry is dropped.
_MOST: Final = 10_000
CacheKey = tuple[GroupResolver, str]


class Cache:
    """Cache of results by resolver and user. Times are seconds of any monotonic clock."""

    def __init__(self, most: int = _MOST) -> None:
        self._answers: OrderedDict[CacheKey, tuple[float, GroupsAnswer]] = OrderedDict()
        self._most = most

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, key: CacheKey, now_s: float) -> GroupsAnswer | None:
        """Returns the cached result; None = there is none, or it has expired."""
        known = self._answers.get(key)
        if known is None:
            return None
        until_s, answer = known
        if now_s >= until_s:
            del self._answers[key]
            return None
        return answer

    def put(self, key: CacheKey, answer: GroupsAnswer, now_s: float) -> None:
        """Stores a result."""
        self._answers.pop(key, None)
        self._answers[key] = (now_s + (PROBLEM_S if answer.problem else GROUPS_S), answer)
        if len(self._answers) > self._most:
            self._answers.popitem(last=False)


def of_system(user: str) -> GroupsAnswer:
    """Returns the user's groups by name, the primary group first. Groups without a name are omitted."""
    try:
        entry = pwd.getpwnam(user)
        numbers = os.getgrouplist(user, entry.pw_gid)
    except (KeyError, ValueError):
        return GroupsAnswer(problem=f"the operating system has no user {user!r}")
    except OSError as error:
        return GroupsAnswer(problem=f"the user database of the operating system: {error.strerror}", is_silent=True)
    names = (_name(number) for number in dict.fromkeys((entry.pw_gid, *numbers)))
    return GroupsAnswer(tuple(name for name in names if name))


def _name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return ""


#: Mount path of the LDAP secret. Path and keys are those of YuniKorn.
SECRET: Final = Path("/run/secrets/ldap")


@dataclass(frozen=True, slots=True)
class LdapDirectory:
    """Looks up groups in LDAP. `secret`: directory with the settings."""

    secret: Path = SECRET

    def load(self) -> None:
        """Imports ldap3, which is slow to load and rarely used."""
        import_module("muster_core.runtime.ldap_groups")

    def __call__(self, user: str) -> GroupsAnswer:
        """Returns the user's groups in LDAP."""
        from muster_core.runtime.ldap_groups import look_up  # noqa: PLC0415 - see load

        return look_up(self.secret, user)


_THREADS: Final = 4

#: Time without a response after which a lookup fails.
_LOOKUP_TIMEOUT_S: Final = 3.0

#: Longest time that one message waits for lookups.
_MOST_S: Final = 30.0


def of_tests(user: str) -> GroupsAnswer:
    """Resolver `test`: each user is in a group of its own name and in `testgroup`."""
    return GroupsAnswer((user, "testgroup"))


def directories(ldap: Directory | None = None) -> dict[GroupResolver, Directory]:
    """Returns the lookup function per resolver. `ldap`: replaces the lookup with the mounted secret."""
    return {
        GroupResolver.OS: of_system,
        GroupResolver.LDAP: ldap or LdapDirectory(),
        GroupResolver.TEST: of_tests,
    }


class Groups:
    """Cached group lookups. Used from one event loop only.

    `retry_s`: interval of `GroupRetries`. Failed lookups are cached for a shorter time.
    """

    def __init__(
        self,
        asked: Mapping[GroupResolver, Directory] | None = None,
        now_s: Callable[[], float] = time.monotonic,
        timeout_s: float = _LOOKUP_TIMEOUT_S,
        retry_s: float = PROBLEM_S + 1.0,
    ) -> None:
        self.retry_s = retry_s
        self.cache = Cache()
        self._directories = directories() if asked is None else asked
        self._now_s = now_s
        self._timeout_s = timeout_s
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="groups")
        #: Time until which a directory that did not respond is not queried, and the reason to report meanwhile.
        self._silent: dict[GroupResolver, tuple[float, str]] = {}
        self._is_closed = False
        self._is_loaded = False

    async def fill(
        self, rm: RmId, events: Sequence[Event], resolvers: Mapping[PartitionId, GroupResolver]
    ) -> tuple[list[Event], list[EventRecorded]]:
        """Returns the events with the groups added, and the event records of failed lookups."""
        wanted = {
            key
            for event in events
            if isinstance(event, ApplicationAdded) and (key := _key(event, resolvers)) is not None
        }
        answers = await self._answers(wanted)
        filled: list[Event] = []
        problems: list[EventRecorded] = []
        for event in events:
            if not isinstance(event, ApplicationAdded) or event.spec.groups:
                filled.append(event)
                continue
            key = _key(event, resolvers)
            answer = GroupsAnswer((event.spec.user,)) if key is None else answers[key]
            filled.append(replace(event, spec=replace(event.spec, groups=answer.groups, groups_unknown=answer.problem)))
            if answer.problem:
                problems.append(_problem(rm, event, answer.problem))
        return filled, problems

    async def look_up(self, resolver: GroupResolver, users: Sequence[str]) -> dict[str, GroupsAnswer]:
        """Returns the groups of these users, one lookup per user."""
        answers = await self._answers({(resolver, user) for user in users})
        return {user: answer for (_, user), answer in answers.items()}

    def close(self) -> None:
        """Stops lookups. Running lookups are not awaited, and later ones fail with this reason."""
        self._is_closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _load(self, wanted: Iterable[CacheKey]) -> None:
        """Loads the LDAP client before its first lookup, because loading may take longer than the lookup's timeout."""
        ldap = self._directories.get(GroupResolver.LDAP)
        if self._is_loaded or not isinstance(ldap, LdapDirectory):
            return
        if any(resolver is GroupResolver.LDAP for resolver, _ in wanted):
            await asyncio.to_thread(ldap.load)
            self._is_loaded = True

    async def _answers(self, wanted: Collection[CacheKey]) -> dict[CacheKey, GroupsAnswer]:
        await self._load(wanted)
        now_s = self._now_s()
        found: dict[CacheKey, GroupsAnswer] = {}
        asked: dict[CacheKey, asyncio.Future[GroupsAnswer]] = {}
        loop = asyncio.get_running_loop()
        for key in sorted(wanted):
            known = self.cache.get(key, now_s) or self._cached_problem(key[0], now_s)
            if known is not None:
                found[key] = known
                continue
            asked[key] = loop.run_in_executor(self._threads, self._directories[key[0]], key[1])
        await self._wait(asked.values())
        for key, future in asked.items():
            found[key] = self._take(key, future)
        return found

    def _cached_problem(self, resolver: GroupResolver, now_s: float) -> GroupsAnswer | None:
        if self._is_closed:
            return GroupsAnswer(problem="the scheduler shuts down")
        until_s, why = self._silent.get(resolver, (now_s, ""))
        return GroupsAnswer(problem=why) if now_s < until_s else None

    async def _wait(self, asked: Iterable[asyncio.Future[GroupsAnswer]]) -> None:
        """Waits until all lookups are done.

        Stops early if none finishes for a while, if a directory does not respond, or after `_MOST_S`.
        """
        left = set(asked)
        until_s = self._now_s() + _MOST_S
        while left and self._now_s() < until_s:
            done, left = await asyncio.wait(left, timeout=self._timeout_s)
            if not done or any(future.result().is_silent for future in done if future.exception() is None):
                return

    def _take(self, key: CacheKey, future: asyncio.Future[GroupsAnswer]) -> GroupsAnswer:
        resolver, _ = key
        now_s = self._now_s()
        if not future.done():
            future.cancel()
            answer = GroupsAnswer(problem=f"{resolver.value} does not answer", is_silent=True)
        elif (error := future.exception()) is not None:
            answer = GroupsAnswer(problem=f"{resolver.value} failed: {error}", is_silent=True)
        else:
            answer = future.result()
        if answer.is_silent and self._cached_problem(resolver, now_s) is None:
            self._silent[resolver] = (now_s + PROBLEM_S, answer.problem)
            _log.warning("group lookup failed, pausing lookups", resolver=resolver.value, reason=answer.problem)
        elif not answer.is_silent:
            self.cache.put(key, answer, now_s)
        return answer


def _key(event: ApplicationAdded, resolvers: Mapping[PartitionId, GroupResolver]) -> CacheKey | None:
    """Returns resolver and user of the lookup.

    None = the groups are given, or the group is the user's own name, as in YuniKorn.
    """
    resolver = resolvers.get(event.spec.partition, GroupResolver.NONE)
    if event.spec.groups or resolver is GroupResolver.NONE:
        return None
    return resolver, event.spec.user


def _problem(rm: RmId, event: ApplicationAdded, problem: str) -> EventRecorded:
    spec = event.spec
    message = messages.unknown_groups(spec.user, problem)
    return EventRecorded(rm, Notice.APPLICATION, spec.id, message, app_name=spec.shown_as)


class GroupRetries:
    """Repeats failed lookups per session, every `groups.retry_s` seconds."""

    def __init__(self, groups: Groups, event_queue: EventQueue, scheduler_state: Callable[[], SchedulerState]) -> None:
        self._groups = groups
        self._event_queue = event_queue
        self._scheduler_state = scheduler_state
        self._tasks: dict[Session, asyncio.Task[None]] = {}
        #: Sessions with events that the scheduler task may not have processed when the last round started.
        self._new: set[Session] = set()

    def watch(self, session: Session) -> None:
        """Starts the retries of the session, because one of its applications may wait for groups."""
        self._new.add(session)
        if session not in self._tasks:
            self._tasks[session] = asyncio.create_task(self._run(session))

    def close(self) -> None:
        """Stops the retries of all sessions."""
        for task in [*self._tasks.values()]:
            task.cancel()

    async def _run(self, session: Session) -> None:
        try:
            await self._rounds(session)
        finally:
            # Removed without an await since the last check, so that a later `watch` starts another task.
            del self._tasks[session]

    async def _rounds(self, session: Session) -> None:
        after = ""  # last user of the previous round, so that many users take turns
        while True:
            await asyncio.sleep(self._groups.retry_s)
            is_new = session in self._new
            self._new.discard(session)
            partitions = [one for one in self._scheduler_state().partitions.values() if one.rm == session.rm]
            waiting = {one.id: (one, users) for one in partitions if (users := lifecycle.unresolved_users(one))}
            if not session.is_open or not (waiting or is_new):
                return
            for partition, users in waiting.values():
                after = await self._look_up(session, partition, users, after)

    async def _look_up(self, session: Session, partition: Partition, users: list[str], after: str) -> str:
        """Looks up the next users of a partition. Returns the last one."""
        resolver = session.resolvers.get(partition.id, GroupResolver.NONE)
        asked = sorted(users, key=lambda user: (user <= after, user))[: limits.GROUP_LOOKUPS_PER_ROUND]
        if resolver is GroupResolver.NONE:  # no resolver is configured any more: a user is its own group
            found: dict[str, tuple[str, ...]] = {user: (user,) for user in asked}
        else:
            answers = await self._groups.look_up(resolver, asked)
            found = {user: answer.groups for user, answer in answers.items() if not answer.problem}
        events = [GroupsResolved(partition.id, user, groups) for user, groups in sorted(found.items())]
        if events:
            await self._event_queue.put(QueuedMessage([*events], session))
        return asked[-1]
