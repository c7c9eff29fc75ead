"""Usage and limits of users and groups per queue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from muster_core.model.config import QuotaLimit
from muster_core.model.ids import QueuePath
from muster_core.model.resources import NOTHING, Resources
from muster_core.state.applications import Application
from muster_core.state.queues import LazySum, Queue

ANYONE = "*"


class LimitSubjectKind(StrEnum):
    """Kind of the object that a maximum applies to."""

    QUEUE = "queue"
    USER = "user"
    GROUP = "group"


class LimitSubject(NamedTuple):
    """Object that a maximum in a queue applies to: the queue itself (`name` is empty), a user, or a group."""

    kind: LimitSubjectKind
    name: str
    path: QueuePath


@dataclass(slots=True, eq=False)
class Account:
    """Usage of one user or group in one queue. The fields have the same meaning as in Queue."""

    allocated: Resources = NOTHING
    reserved_quota: LazySum = field(default_factory=LazySum)
    requested_quota: LazySum = field(default_factory=LazySum)
    preempting: Resources = NOTHING
    running: int = 0

    @property
    def is_idle(self) -> bool:
        """Whether all fields are 0."""
        return not (self.allocated or self.reserved_quota or self.requested_quota or self.preempting or self.running)


Accounts = dict[str, dict[QueuePath, Account]]
_IDLE = Account()


@dataclass(frozen=True, slots=True)
class _Index:
    """The limits of a queue by name."""

    limits: tuple[QuotaLimit, ...]
    users: dict[str, QuotaLimit]
    groups: dict[str, QuotaLimit]


@dataclass(slots=True, eq=False)
class UserLedger:
    """Accounts of users and groups. Accounts without usage have no entry."""

    users: Accounts = field(default_factory=dict)
    groups: Accounts = field(default_factory=dict)
    #: Increases when limits change, so that groups that were found before are looked up again.
    epoch: int = 0
    _indices: dict[QueuePath, _Index] = field(default_factory=dict)

    def open(self, app: Application) -> list[Account]:
        """Returns the accounts of the application's user, then of its group. Creates missing ones.

        Selects the group of the application, which then stays the same, as in YuniKorn.
        """
        group = app.group = self.group_of(app)
        accounts = _opened(self.users, app.spec.user, app.queue)
        return accounts + _opened(self.groups, group, app.queue) if group else accounts

    def holders(self, app: Application) -> Iterator[LimitSubject]:
        """Yields the subjects of these accounts, leaf first."""
        for queue in app.queue.path_up:
            yield LimitSubject(LimitSubjectKind.USER, app.spec.user, queue.path)
            if app.group:
                yield LimitSubject(LimitSubjectKind.GROUP, app.group, queue.path)

    def close(self, app: Application) -> None:
        """Removes accounts of the application without usage."""
        for accounts, name in ((self.users, app.spec.user), (self.groups, app.group or "")):
            mine = accounts.get(name)
            if mine is None:
                continue
            for path in [queue.path for queue in app.queue.path_up]:
                if path in mine and mine[path].is_idle:
                    del mine[path]
            if not mine:
                del accounts[name]

    def regroup(self, app: Application) -> None:
        """Choose the application's group again, and move the counted usage from the previous group."""
        before, app.group = app.group, None
        if before is None:
            return
        group = app.group = self.group_of(app)
        if group == before:
            return
        used, quota_reservation = app.allocated + app.gang.allocated, app.gang.quota_reservation
        preempting = sum((one.spec.resources for one in app.allocations.values() if one.preemption), NOTHING)
        for name, times in ((before, -1), (group, 1)):
            for queue in app.queue.path_up if name else ():
                account = self.groups.setdefault(name, {}).setdefault(queue.path, Account())
                account.allocated = account.allocated.plus(used, times)
                account.preempting = account.preempting.plus(preempting, times)
                if app.gang.granted:
                    account.reserved_quota.add(quota_reservation, times)
                else:
                    account.requested_quota.add(quota_reservation, times)
                account.running += times if app.counted else 0
        self.close(app)
        app.group = before
        self.close(app)
        app.group = group

    def group_of(self, app: Application) -> str:
        """Returns the group that the application counts towards; empty = none.

        From the leaf up: the first named group of a limit that the user is in, else the wildcard if there is one.
        """
        if app.group is not None:
            return app.group
        reads = app.spec.groups, app.queue, self.epoch
        if app.found_group_for != reads:
            app.found_group, app.found_group_for = self._find_group(app), reads
        return app.found_group

    def _find_group(self, app: Application) -> str:
        limited = [queue for queue in app.queue.path_up if queue.limits]
        groups = frozenset(app.spec.groups) if limited else frozenset()
        for queue in limited:
            named = self._index(queue).groups
            mine = next((group for group in named if group != ANYONE and group in groups), "")
            if mine or ANYONE in named:
                return mine or ANYONE
        return ""

    def limits(self, app: Application) -> Iterator[tuple[LimitSubject, QuotaLimit, Account]]:
        """Yields the limits of the application's user and group on its path, leaf first."""
        for queue in app.queue.path_up:
            if not queue.limits:
                continue
            index = self._index(queue)
            user = app.spec.user
            limit = index.users.get(user) or index.users.get(ANYONE)
            if limit is not None:
                account = self.users.get(user, {}).get(queue.path, _IDLE)
                yield LimitSubject(LimitSubjectKind.USER, user, queue.path), limit, account
            if not index.groups:
                continue
            group = self.group_of(app)
            limit = index.groups.get(group)
            if limit is not None:
                account = self.groups.get(group, {}).get(queue.path, _IDLE)
                yield LimitSubject(LimitSubjectKind.GROUP, group, queue.path), limit, account

    def _index(self, queue: Queue) -> _Index:
        known = self._indices.get(queue.path)
        if known is None or known.limits is not queue.limits:
            users = {user: limit for limit in queue.limits for user in limit.users}
            groups = {group: limit for limit in queue.limits for group in limit.groups}
            known = self._indices[queue.path] = _Index(queue.limits, users, groups)
        return known


def _opened(accounts: Accounts, name: str, leaf: Queue) -> list[Account]:
    """Returns the accounts of a user or group in the leaf and the queues above it. Creates missing ones."""
    mine = accounts.setdefault(name, {})
    return [mine.get(queue.path) or mine.setdefault(queue.path, Account()) for queue in leaf.path_up]
