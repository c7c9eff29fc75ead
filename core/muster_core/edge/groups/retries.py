"""Looks up again the groups of users that something waits for (engine/user_groups.py).

One task per session, which runs only while something waits. Started by scheduler.py when an application came whose
groups are not known, and when another configuration is in force.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from muster_core.edge.groups.lookup import Groups
from muster_core.edge.mailbox import Mail, Mailbox
from muster_core.edge.session import Session
from muster_core.engine import user_groups
from muster_core.model import limits
from muster_core.model.config import GroupResolver
from muster_core.model.events import GroupsResolved
from muster_core.world.world import Partition, World


class GroupRetries:
    """All sessions' rounds; `groups.retry_s` lies between two of a session."""

    def __init__(self, groups: Groups, mailbox: Mailbox, world: Callable[[], World]) -> None:
        self._groups = groups
        self._mailbox = mailbox
        self._world = world
        self._tasks: dict[Session, asyncio.Task[None]] = {}
        #: Sessions with something that the world may not have seen when their last round began.
        self._new: set[Session] = set()

    def watch(self, session: Session) -> None:
        """Something of the session may wait for groups."""
        self._new.add(session)
        if session not in self._tasks:
            self._tasks[session] = asyncio.create_task(self._run(session))

    def close(self) -> None:
        """Stop the retries of the session."""
        for task in [*self._tasks.values()]:
            task.cancel()

    async def _run(self, session: Session) -> None:
        try:
            await self._rounds(session)
        finally:
            # In the step that found nothing left: what `watch` reports later needs another task.
            del self._tasks[session]

    async def _rounds(self, session: Session) -> None:
        after = ""  # the last user of the round before, so that many users take turns
        while True:
            await asyncio.sleep(self._groups.retry_s)
            is_new = session in self._new
            self._new.discard(session)
            partitions = [one for one in self._world().partitions.values() if one.rm == session.rm]
            waiting = {one.id: (one, users) for one in partitions if (users := user_groups.wanted(one))}
            if not session.is_open or not (waiting or is_new):
                return
            for partition, users in waiting.values():
                after = await self._look_up(session, partition, users, after)

    async def _look_up(self, session: Session, partition: Partition, users: list[str], after: str) -> str:
        """Run one round; return the last user that was looked up."""
        resolver = session.resolvers.get(partition.id, GroupResolver.NONE)
        asked = sorted(users, key=lambda user: (user <= after, user))[: limits.GROUP_LOOKUPS_PER_ROUND]
        if resolver is GroupResolver.NONE:  # the configuration asks nobody any more: a user is its own group
            found: dict[str, tuple[str, ...]] = {user: (user,) for user in asked}
        else:
            answers = await self._groups.look_up(resolver, asked)
            found = {user: answer.groups for user, answer in answers.items() if not answer.problem}
        events = [GroupsResolved(partition.id, user, groups) for user, groups in sorted(found.items())]
        if events:
            await self._mailbox.put(Mail([*events], session))
        return asked[-1]
