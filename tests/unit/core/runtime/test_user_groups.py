"""Groups are resolved before the scheduler receives an application; a slow directory delays only for a limited time."""

import asyncio
import grp
import os
import pwd
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import trustme

from muster_core.config.load import load
from muster_core.model.config import GroupResolver, GroupsAnswer
from muster_core.model.events import ApplicationAdded, ApplicationRemoved, Event
from muster_core.model.ids import ApplicationId, RmId
from muster_core.runtime.ldap_groups import LdapSettings, group_name, read_settings
from muster_core.runtime.loop import EventQueue
from muster_core.runtime.sessions import Decoder, Session
from muster_core.runtime.user_groups import (
    GROUPS_S,
    PROBLEM_S,
    Cache,
    Directory,
    GroupRetries,
    Groups,
    LdapDirectory,
    directories,
    of_system,
)
from muster_core.state.scheduler_state import SchedulerState
from tests.unit.builders import PARTITION, RM, an_application
from tests.unit.core.conftest import Notebook


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


# -- Groups from a real LDAP server, and what is said where it, or its settings, are no good.

_SERVER = Path(__file__).with_name("ldap_server.py")


def write(secret: Path, **settings: str) -> LdapDirectory:
    for key, value in settings.items():
        (secret / key).write_text(f"{value}\n")
    return LdapDirectory(secret)


@contextmanager
def serving(*options: str) -> Iterator[str]:
    """The port of a server that runs during the block."""
    command = [sys.executable, "-W", "ignore", str(_SERVER), *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.stdin.close()


@pytest.fixture(scope="module")
def port() -> Iterator[str]:
    with serving() as found:
        yield found


@pytest.fixture
def directory(port: str, tmp_path: Path) -> LdapDirectory:
    bind = {"BindUser": "cn=reader,dc=example,dc=com", "BindPassword": "secret"}
    return write(tmp_path, Host="127.0.0.1", Port=port, Filter="(&(uid=%s))", **bind)


def test_groups_are_the_names_of_the_distinguished_names_of_a_user(directory: LdapDirectory) -> None:
    answer = directory("kim")
    assert sorted(answer.groups) == ["dev", "ops", "plain"]
    assert answer.problem == ""


def test_a_user_without_groups_is_not_a_problem(directory: LdapDirectory) -> None:
    answer = directory("lone")
    assert (answer.groups, answer.problem) == ((), "")


@pytest.mark.parametrize("user", ["nobody", "k*", "*", "kim)(uid=ann", "kim\x00"])
def test_an_unknown_user_is_not_found_whatever_its_name_contains(directory: LdapDirectory, user: str) -> None:
    answer = directory(user)
    assert answer.groups == ()
    assert "has no user" in answer.problem
    assert not answer.is_silent


def test_a_user_with_a_special_character_in_the_name_is_found(directory: LdapDirectory) -> None:
    assert directory("ann*").groups == ("star",)


def test_attribute_names_in_lower_case_are_read_like_others(directory: LdapDirectory) -> None:
    """A group written `cn=` instead of `CN=` ended YuniKorn with a panic (CVE-2026-78243)."""
    assert group_name("cn=dev,ou=groups,dc=example,dc=com") == group_name("CN=dev,OU=groups,DC=example,DC=com") == "dev"
    write(directory.secret, GroupAttr="memberof")
    assert "dev" in directory("kim").groups


@pytest.mark.parametrize("spelling", ["memberOf", "MEMBEROF", "memberof"])
def test_the_case_of_the_attribute_does_not_count(directory: LdapDirectory, spelling: str) -> None:
    write(directory.secret, GroupAttr=spelling, ReturnAttr="cn")
    assert sorted(directory("kim").groups) == ["dev", "ops", "plain"]


def test_a_password_is_read_again_for_every_search(directory: LdapDirectory) -> None:
    write(directory.secret, BindPassword="old")
    refused = directory("kim")
    assert "refuses BindUser" in refused.problem
    assert refused.is_silent
    write(directory.secret, BindPassword="secret")
    assert directory("kim").problem == ""


@pytest.mark.filterwarnings(
    "ignore:ssl.match_hostname", "ignore:unclosed", "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_the_server_certificate_and_name_are_verified_unless_disabled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    pair = tmp_path / "pair.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(pair))
    secret = tmp_path / "secret"
    secret.mkdir()
    with serving(str(pair)) as port:
        directory = write(secret, Host="localhost", Port=port, Filter="(uid=%s)", SSL="true")
        unknown = directory("kim")
        assert unknown.is_silent
        assert "certificate verify failed" in unknown.problem
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        assert sorted(directory("kim").groups) == ["dev", "ops", "plain"]
        other = write(secret, Host="127.0.0.1")("kim")
        assert other.is_silent
        assert other.groups == ()
        monkeypatch.delenv("SSL_CERT_FILE")
        assert sorted(write(secret, Insecure="true")("kim").groups) == ["dev", "ops", "plain"]


def test_an_unreachable_server_is_reported(tmp_path: Path) -> None:
    answer = write(tmp_path, Host="127.0.0.1", Port="1")("kim")
    assert answer.is_silent
    assert answer.problem.startswith("the LDAP server: ")


def test_a_missing_secret_is_named(tmp_path: Path) -> None:
    answer = LdapDirectory(tmp_path / "gone")("kim")
    assert answer.is_silent
    assert str(tmp_path / "gone") in answer.problem


@pytest.mark.parametrize(
    "settings, effects", [({"Port": "ldap"}, "'ldap'"), ({"Filter": "(uid=kim)"}, "Filter has no %s for the user")]
)
def test_an_invalid_setting_is_named(tmp_path: Path, settings: dict[str, str], effects: str) -> None:
    answer = write(tmp_path, **settings)("kim")
    assert answer.is_silent
    assert effects in answer.problem


def test_an_empty_secret_uses_the_defaults(tmp_path: Path) -> None:
    assert read_settings(tmp_path) == LdapSettings(
        host="localhost",
        port=389,
        base="dc=example,dc=com",
        filter="(&(sAMAccountName=%s))",
        group_attribute="memberOf",
        attributes=("memberOf",),
        user="",
        password="",
        is_insecure=False,
        is_tls=False,
    )


def test_every_key_of_the_secret_is_read(tmp_path: Path) -> None:
    write(tmp_path, Host="h", Port="636", BaseDN="dc=x", Filter="(uid=%s)", GroupAttr="g", ReturnAttr="[g, mail]")
    write(tmp_path, BindUser="u", BindPassword="p", Insecure="true", SSL="True")
    assert read_settings(tmp_path) == LdapSettings(
        "h", 636, "dc=x", "(uid=%s)", "g", ("g", "mail"), "u", "p", is_insecure=True, is_tls=True
    )


@pytest.mark.parametrize(
    "value, name",
    [
        ("CN=dev,OU=groups,DC=example,DC=com", "dev"),
        ("cn = dev , ou=groups", "dev"),
        ("ou=groups,cn=late", "late"),
        (r"CN=Dev\, Ops,OU=x", "Dev, Ops"),
        (r"CN=Dev\2C Ops,OU=x", "Dev, Ops"),
        (r"cn=Gro\C3\9Fe,dc=x", "Große"),
        ("ou=groups,dc=x", ""),
        ("cn=,dc=x", ""),
        ("plain", "plain"),
        ("", ""),
    ],
)
def test_a_group_is_the_common_name_of_its_distinguished_name(value: str, name: str) -> None:
    assert group_name(value) == name


# -- Users that something waits for are looked up again for as long as something waits.


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
