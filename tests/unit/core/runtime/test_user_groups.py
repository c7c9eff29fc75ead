"""Groups are resolved before the scheduler receives an application; a slow directory delays only for a limited time."""

import asyncio
import grp
import os
import pwd
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from muster_core.model.config import GroupResolver, GroupsAnswer
from muster_core.model.events import ApplicationAdded, ApplicationRemoved, Event
from muster_core.model.ids import ApplicationId
from muster_core.runtime.user_groups import (
    GROUPS_S,
    PROBLEM_S,
    Cache,
    Directory,
    Groups,
    directories,
    of_system,
)
from tests.unit.builders import PARTITION, RM, an_application


@dataclass
class FakeClock:
    """A clock that only the test advances."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Book:
    """A directory of users that counts its lookups."""

    known: dict[str, GroupsAnswer]
    requested: list[str] = field(default_factory=list)

    def __call__(self, user: str) -> GroupsAnswer:
        self.requested.append(user)
        return self.known.get(user, GroupsAnswer(problem=f"no {user}"))


def added(name: str, user: str, *groups: str) -> ApplicationAdded:
    return ApplicationAdded(replace(an_application(name, user=user), groups=groups))


def groups_of(events: list[Event]) -> dict[str, tuple[str, ...]]:
    return {event.spec.id: event.spec.groups for event in events if isinstance(event, ApplicationAdded)}


def new_groups(directory: Directory, clock: Callable[[], float] = FakeClock(), timeout_s: float = 1.0) -> Groups:  # noqa: B008
    return Groups({GroupResolver.LDAP: directory}, clock, timeout_s)


LDAP = {PARTITION: GroupResolver.LDAP}


async def test_groups_that_are_given_are_kept_and_others_are_looked_up_in_order() -> None:
    book = Book({"kim": GroupsAnswer(("dev", "ops"))})
    gone = ApplicationRemoved(PARTITION, ApplicationId("old"))
    events, effects = await new_groups(book).fill(RM, [added("a", "kim"), gone, added("b", "kim", "own")], LDAP)
    assert groups_of(events) == {"a": ("dev", "ops"), "b": ("own",)}
    assert events[1] is gone
    assert effects == []
    assert book.requested == ["kim"]


async def test_without_a_resolver_the_groups_are_the_users_own_name() -> None:
    book = Book({})
    events, effects = await new_groups(book).fill(RM, [added("a", "kim")], {PARTITION: GroupResolver.NONE})
    assert (groups_of(events), effects, book.requested) == ({"a": ("kim",)}, [], [])


async def test_an_event_reports_why_the_groups_of_a_user_are_unknown() -> None:
    events, effects = await new_groups(Book({"kim": GroupsAnswer(())})).fill(
        RM, [added("a", "ann"), added("b", "kim")], LDAP
    )
    assert groups_of(events) == {"a": (), "b": ()}
    found = [event.spec.groups_unknown for event in events if isinstance(event, ApplicationAdded)]
    assert found == ["no ann", ""]
    assert [(note.subject, note.message) for note in effects] == [("a", "groups of user ann are unknown: no ann")]


async def test_groups_are_cached_for_five_minutes_and_failures_for_half_a_minute() -> None:
    book, clock = Book({"kim": GroupsAnswer(("dev",))}), FakeClock()
    groups = new_groups(book, clock)
    both = [added("a", "kim"), added("b", "ann")]
    await groups.fill(RM, both, LDAP)
    clock.now_s += PROBLEM_S - 1
    await groups.fill(RM, both, LDAP)
    assert sorted(book.requested) == ["ann", "kim"]
    clock.now_s += 1
    await groups.fill(RM, both, LDAP)
    assert sorted(book.requested) == ["ann", "ann", "kim"]
    clock.now_s += GROUPS_S
    await groups.fill(RM, [added("a", "kim")], LDAP)
    assert sorted(book.requested) == ["ann", "ann", "kim", "kim"]


async def test_a_directory_that_hangs_times_out_and_is_not_queried_for_a_while() -> None:
    hang = threading.Event()
    requested: list[str] = []

    def hanging(user: str) -> GroupsAnswer:
        requested.append(user)
        hang.wait(30)
        return GroupsAnswer(("dev",))

    clock = FakeClock()
    groups = new_groups(hanging, clock, timeout_s=1.0)
    try:
        many = [added(f"a{i}", f"user{i}") for i in range(50)]
        events, effects = await asyncio.wait_for(groups.fill(RM, many, LDAP), 5)
        assert set(groups_of(events).values()) == {()}
        assert len(effects) == 50
        before = len(requested)
        _, effects = await groups.fill(RM, [added("b", "kim")], LDAP)
        assert len(requested) == before
        assert [note.message for note in effects] == ["groups of user kim are unknown: ldap does not answer"]
    finally:
        hang.set()
    clock.now_s += PROBLEM_S
    events, effects = await groups.fill(RM, [added("b", "kim")], LDAP)
    assert (groups_of(events), effects) == ({"b": ("dev",)}, [])


async def test_a_slow_directory_that_keeps_answering_does_not_time_out() -> None:
    one_at_a_time, never = threading.Lock(), threading.Event()

    def slow(user: str) -> GroupsAnswer:
        with one_at_a_time:
            never.wait(0.05)  # each answer well within the patience, all of them together well beyond it
        return GroupsAnswer((user,))

    groups = new_groups(slow, timeout_s=1.0)
    many = [added(f"a{i}", f"user{i}") for i in range(30)]
    events, effects = await groups.fill(RM, many, LDAP)
    assert groups_of(events) == {f"a{i}": (f"user{i}",) for i in range(30)}
    assert effects == []


async def test_a_failing_directory_does_not_fail_the_core() -> None:
    def failing(user: str) -> GroupsAnswer:
        raise RuntimeError("broken")

    events, effects = await new_groups(failing).fill(RM, [added("a", "kim")], LDAP)
    assert groups_of(events) == {"a": ()}
    assert "ldap failed: broken" in effects[0].message


async def test_no_directory_is_queried_after_the_shutdown() -> None:
    book = Book({"kim": GroupsAnswer(("dev",))})
    groups = new_groups(book)
    groups.close()
    events, effects = await groups.fill(RM, [added("a", "kim")], LDAP)
    assert groups_of(events) == {"a": ()}
    assert "shuts down" in effects[0].message
    assert book.requested == []


def test_a_full_cache_evicts_its_first_entry() -> None:
    cache = Cache(most=2)
    for user in ("a", "b", "c"):
        cache.put((GroupResolver.OS, user), GroupsAnswer((user,)), 0.0)
    assert len(cache) == 2
    assert cache.get((GroupResolver.OS, "a"), 1.0) is None
    assert cache.get((GroupResolver.OS, "c"), 1.0) == GroupsAnswer(("c",))
    assert cache.get((GroupResolver.LDAP, "c"), 1.0) is None


def test_the_system_resolver_finds_the_current_user() -> None:
    me = pwd.getpwuid(os.getuid())
    answer = of_system(me.pw_name)
    assert answer.groups[0] == grp.getgrgid(me.pw_gid).gr_name
    assert answer.problem == ""


@pytest.mark.parametrize("user", ["nobody-has-this-name", "with\0zero", ""])
def test_the_system_resolver_reports_an_unknown_user(user: str) -> None:
    answer = of_system(user)
    assert answer.groups == ()
    assert "has no user" in answer.problem


def test_every_resolver_of_the_configuration_has_its_directory() -> None:
    assert directories().keys() == set(GroupResolver) - {GroupResolver.NONE}
    assert directories()[GroupResolver.TEST]("kim").groups == ("kim", "testgroup")
