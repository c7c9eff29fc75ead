"""Commands as HTTP requests: each names the UID of the pod and changes only the fields it is about."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from muster_operator.kube import commands
from muster_operator.kube.http import JITTER, RETRY_AFTER_LIMIT_S, Policies, Retry, retry_after_seconds
from muster_operator.kube.session import KubeSession, LeadershipGuard, Request, running_s
from muster_operator.model.commands import (
    BindPod,
    DeletePod,
    EventType,
    FailPod,
    MarkDisrupted,
    MarkResumed,
    PostEvent,
    SetCondition,
    Subject,
)
from muster_operator.model.errors import NotLeading, Unreachable
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.pods import PodRef
from tests.unit.operator.kube.apiserver import ApiServer, FixedCredentials, serving

POD = PodRef("dev", "w0", PodUid("uid-w0"))
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def body(request: Request) -> dict[str, Any]:
    decoded: dict[str, Any] = orjson.loads(request.body or b"")
    return decoded


def an_event(note: str, subject: Subject = Subject.POD, namespace: str = "dev") -> dict[str, Any]:
    event = PostEvent(subject, namespace, "w0", "uid-w0", EventType.WARNING, "GangScheduling", "TaskGroupsError", note)
    return body(commands.event(event, "w0.1", "muster-0", NOW))


def test_a_binding_names_the_pod_uid_and_the_node() -> None:
    found = body(commands.bind(BindPod(POD, NodeName("n1"))))
    assert found["metadata"] == {"name": "w0", "namespace": "dev", "uid": "uid-w0"}
    assert found["target"] == {"apiVersion": "v1", "kind": "Node", "name": "n1"}


def test_a_delete_keeps_the_grace_period_unless_it_is_forced() -> None:
    assert "gracePeriodSeconds" not in body(commands.delete(DeletePod(POD, "why")))
    assert body(commands.delete(DeletePod(POD, "why", force=True)))["gracePeriodSeconds"] == 0


@pytest.mark.parametrize(
    "request_",
    [
        commands.condition(SetCondition(POD, "Unschedulable", "no room"), NOW),
        commands.fail(FailPod(POD, "ApplicationRejected", "why"), NOW),
        commands.mark_resumed(MarkResumed(POD)),
        commands.mark_disrupted(MarkDisrupted(POD, "why"), NOW),
    ],
    ids=["condition", "failure", "resumed", "disrupted"],
)
def test_a_patch_names_the_pod_uid(request_: Request) -> None:
    assert body(request_)["metadata"]["uid"] == "uid-w0"


def test_patches_contain_only_the_fields_they_change() -> None:
    failed = body(commands.fail(FailPod(POD, "ApplicationRejected", "why"), NOW))["status"]
    assert {**failed, "conditions": []} == {
        "phase": "Failed",
        "reason": "ApplicationRejected",
        "message": "why",
        "conditions": [],
    }
    [condition] = body(commands.condition(SetCondition(POD, "Unschedulable", "no room"), NOW))["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("PodScheduled", "Unschedulable")
    assert list(body(commands.mark_resumed(MarkResumed(POD)))["metadata"]["annotations"].values()) == ["resumed"]


def test_the_condition_of_a_failed_pod_does_not_say_that_it_waits() -> None:
    [condition] = body(commands.fail(FailPod(POD, "ReservationTimeout", "why"), NOW))["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
    assert (condition["reason"], condition["message"]) == ("ReservationTimeout", "why")


@pytest.mark.parametrize("node, written", [("n1", "n1"), ("", None)])
def test_the_condition_and_the_nominated_node_are_one_write(node: str, written: str | None) -> None:
    status = body(commands.condition(SetCondition(POD, "Unschedulable", "no room", NodeName(node)), NOW))["status"]
    assert status["nominatedNodeName"] == written
    assert len(status["conditions"]) == 1


def test_an_event_has_all_its_fields() -> None:
    found = an_event("note")
    assert found["regarding"] == {"apiVersion": "v1", "kind": "Pod", "name": "w0", "uid": "uid-w0", "namespace": "dev"}
    assert (found["reason"], found["action"], found["type"]) == ("GangScheduling", "TaskGroupsError", "Warning")


def test_an_event_of_a_node_is_created_in_the_default_namespace() -> None:
    assert an_event("note", Subject.NODE, "")["metadata"] == {"name": "w0.1", "namespace": "default"}


@pytest.mark.parametrize("character", ["x", "ü", "漢"])
def test_a_long_note_is_cut_to_the_limit_of_kubernetes(character: str) -> None:
    assert len(an_event(character * 5000)["note"].encode()) <= 1024


# -- Every retry is limited, has a growing delay, and follows Retry-After.

POLICIES = [field.name for field in fields(Policies)]


@pytest.mark.parametrize("name", POLICIES)
def test_every_retry_policy_is_limited(name: str) -> None:
    policy: Retry = getattr(Policies(), name)
    assert policy.pause_s(policy.attempts, 503) is None
    assert policy.pause_s(policy.attempts - 1, 503) is not None


def test_pauses_double_up_to_a_limit() -> None:
    policy = Retry(attempts=9, first_s=1.0, longest_s=5.0)
    assert [policy.pause_s(attempt, 500) for attempt in (1, 2, 3, 4)] == [1.0, 2.0, 4.0, 5.0]


def test_retry_after_may_lengthen_a_pause_and_never_shorten_it() -> None:
    policy = Retry(attempts=9, first_s=1.0)
    assert policy.pause_s(1, 429, 7.0) == 7.0
    assert policy.pause_s(1, 429, 0.0) == 1.0
    assert policy.pause_s(1, 429, 86400.0) == RETRY_AFTER_LIMIT_S


@pytest.mark.parametrize("status", [400, 403, 404, 409, 410, 422])
def test_a_rejection_is_not_retried(status: int) -> None:
    assert Policies().bind.pause_s(1, status) is None


def test_a_create_with_a_quota_conflict_is_retried() -> None:
    assert Policies().create.pause_s(1, 409) is not None


def test_jitter_lengthens_a_pause_and_never_shortens_it_below_retry_after() -> None:
    policy = Retry(attempts=3, first_s=1.0)
    pauses = [policy.pause_s(1, 429, 4.0, luck / 10) for luck in range(10)]
    assert pauses == sorted(set(pauses), key=lambda pause: pause or 0)
    assert pauses[0] == 4.0
    assert max(pause or 0 for pause in pauses) < 4.0 * (1 + JITTER)


@pytest.mark.parametrize(
    "header,seconds",
    [
        (None, None),
        ("7", 7.0),
        (" 7 ", 7.0),
        ("Wed, 21 Oct 2026 07:28:10 GMT", 10.0),
        ("Wed, 21 Oct 2026 07:27:00 GMT", 0.0),
        ("soon", None),
        ("-3", None),
        ("", None),
        ("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(header: str | None, seconds: float | None) -> None:
    now = datetime(2026, 10, 21, 7, 28, tzinfo=UTC).timestamp()
    assert retry_after_seconds(header, now) == seconds


# -- The leadership guard stops unsent writes and cancels those in flight; reads and exempt requests pass.

WRITE = Request("POST", "/api/v1/namespaces/ns/pods/p/binding", b'{"target":{"name":"n"}}')


@asynccontextmanager
async def behind(guard: LeadershipGuard, server: ApiServer, request_s: float = 5.0) -> AsyncIterator[KubeSession]:
    async with serving(server):
        session = KubeSession(FixedCredentials(server.url, ["t"]), guard, request_s=request_s)
        try:
            yield session
        finally:
            await session.close()


async def test_a_closed_leadership_guard_rejects_and_counts_writes() -> None:
    refused: list[None] = []
    server = ApiServer()
    async with behind(LeadershipGuard(refused=lambda: refused.append(None)), server) as session:
        with pytest.raises(NotLeading):
            await session.send(WRITE)
    assert server.seen == []
    assert len(refused) == 1


async def test_reads_and_exempt_writes_pass_a_closed_leadership_guard() -> None:
    server = ApiServer(pods={"p": {}})
    async with behind(LeadershipGuard(), server) as session:
        assert (await session.send(Request("GET", "/api/v1/namespaces/ns/pods/p"))).ok
        assert (await session.send(Request("PUT", "/lease", b"{}", needs_leadership=False))).ok


async def test_a_write_in_flight_is_cancelled_when_the_guard_closes() -> None:
    guard, server = LeadershipGuard(), ApiServer()
    server.plan(f"POST {WRITE.path}", 30.0)
    async with behind(guard, server, request_s=60.0) as session:
        guard.open_until(running_s() + 60)
        writing = asyncio.create_task(session.send(WRITE))
        async with asyncio.timeout(20):
            while not server.seen:  # noqa: ASYNC110 - the peer tells nobody when it has read a request
                await asyncio.sleep(0.01)
            guard.close()
            await guard.emptied()
        with pytest.raises(NotLeading):
            await writing


async def test_a_write_in_flight_continues_while_the_lease_is_renewed() -> None:
    guard, server = LeadershipGuard(), ApiServer(delay_s=2.5)
    async with behind(guard, server, request_s=10.0) as session:
        guard.open_until(running_s() + 2.0)
        writing = asyncio.create_task(session.send(WRITE))
        while not server.seen:  # noqa: ASYNC110 - the server has no signal
            await asyncio.sleep(0.001)
        guard.open_until(running_s() + 60)
        assert (await writing).ok


async def test_a_request_timeout_is_not_reported_as_lost_leadership() -> None:
    guard, server = LeadershipGuard(), ApiServer(delay_s=30.0)
    guard.open_until(float("inf"))
    async with behind(guard, server, request_s=0.1) as session:
        with pytest.raises(Unreachable, match=r"no answer in 0\.1 s") as raised:
            await session.send(WRITE)
    assert not isinstance(raised.value, NotLeading)


def test_the_guard_closes_when_its_time_expires() -> None:
    now = [0.0]
    guard = LeadershipGuard(lambda: now[0])
    guard._until = 7.0
    assert guard.left_s == 7
    now[0] = 7.0
    assert guard.left_s == 0
