"""The results of API server responses for each kind of command, and when a command is retried."""

import asyncio
import dataclasses
import re
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from aiohttp import web
from msgspec.structs import replace
from structlog.testing import capture_logs

from muster_operator.kube.http import ServerClock
from muster_operator.kube.session import KubeSession
from muster_operator.kube.write_queue import WritePriority
from muster_operator.model.commands import CommandFailed, CommandSucceeded, CommandUnanswered, CreatePlaceholder
from tests.unit.operator.kube.apiserver import (
    ApiServer,
    CommandRecorder,
    FixedCredentials,
    a_kube,
    reply,
    serving,
    status,
)
from tests.unit.operator.kube.commands import a_bind, a_condition, a_create, a_delete, a_disruption, a_pod, an_event

BIND = "POST /api/v1/namespaces/ns/pods/p/binding"


async def run(server: ApiServer, *commands: object) -> CommandRecorder:
    recorder = CommandRecorder()
    async with serving(server), a_kube(server, recorder) as kube:
        for command in commands:
            await kube.execute(command)  # type: ignore[arg-type] # each test passes commands
    return recorder


async def test_a_bind_names_the_pod_uid_and_the_node() -> None:
    server = ApiServer()
    recorder = await run(server, a_bind())
    assert recorder.results == [CommandSucceeded(a_bind())]
    [request] = server.seen
    assert request.body["metadata"]["uid"] == "uid-p"
    assert request.body["target"] == {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    assert request.query == "fieldManager=muster"


async def test_a_bind_conflict_is_a_success_if_the_pod_is_on_the_node() -> None:
    server = ApiServer(pods={"p": a_pod(node="n1")})
    server.plan(BIND, lambda: status(409, "Conflict", "already assigned"))
    recorder = await run(server, a_bind())
    assert recorder.results == [CommandSucceeded(a_bind())]
    assert [raw["spec"]["nodeName"] for raw in recorder.read] == ["n1"]


async def test_a_bind_conflict_is_a_failure_if_the_pod_is_on_another_node() -> None:
    server = ApiServer(pods={"p": a_pod(node="n2")})
    server.plan(BIND, lambda: status(409, "Conflict"))
    recorder = await run(server, a_bind())
    assert recorder.results == [CommandFailed(a_bind(), 409, "AlreadyBound", "the pod is on node n2")]


async def test_a_bind_of_a_recreated_pod_fails_and_is_not_repeated() -> None:
    server = ApiServer(pods={"p": a_pod(uid="another")})
    server.plan(BIND, lambda: status(409, "Conflict"))
    recorder = await run(server, a_bind())
    assert recorder.results == [CommandFailed(a_bind(), 404, "NotFound", "the pod no longer exists")]
    assert recorder.read == []
    assert len(server.requests("POST")) == 1


async def test_an_unanswered_bind_is_resolved_by_reading_the_pod() -> None:
    server = ApiServer(pods={"p": a_pod(node="n1")})
    server.plan(BIND, lambda: status(504, "Timeout"))
    recorder = await run(server, a_bind())
    assert recorder.results == [CommandSucceeded(a_bind())]
    assert [request.method for request in server.seen] == ["POST", "GET"]


async def test_a_failed_bind_is_retried_when_the_pod_is_not_bound() -> None:
    server = ApiServer(pods={"p": a_pod()})
    server.plan(BIND, lambda: status(500, "InternalError"))
    recorder = await run(server, a_bind())
    assert recorder.results == [CommandSucceeded(a_bind())]
    assert [request.method for request in server.seen] == ["POST", "GET", "POST"]
    assert recorder.retried == [("BindPod", 500)]


async def test_a_throttled_bind_is_retried_after_retry_after_without_reading_the_pod() -> None:
    server = ApiServer()
    server.plan(BIND, lambda: status(429, "TooManyRequests", headers={"Retry-After": "0"}))
    recorder = await run(server, a_bind())
    assert recorder.results == [CommandSucceeded(a_bind())]
    assert [request.method for request in server.seen] == ["POST", "POST"]


async def test_a_bind_that_times_out_is_resolved_by_reading_the_pod() -> None:
    server, recorder = ApiServer(pods={"p": a_pod()}), CommandRecorder()
    server.plan(BIND, 5.0)
    async with serving(server), a_kube(server, recorder, request_s=1.0) as kube:
        await kube.execute(a_bind())
    assert recorder.results == [CommandSucceeded(a_bind())]
    assert recorder.retried == [("BindPod", 0)]


async def test_a_cancelled_bind_is_not_retried() -> None:
    """A decision of an ended session may use resources that the next session allocates."""
    server, recorder = ApiServer(pods={"p": a_pod()}), CommandRecorder()
    server.plan(BIND, lambda: status(429, "TooManyRequests", headers={"Retry-After": "20"}))
    async with serving(server), a_kube(server, recorder) as kube, asyncio.timeout(20):
        executing = asyncio.create_task(kube.execute(a_bind()))
        while not server.requests("POST"):  # noqa: ASYNC110 - a level that nobody signals
            await asyncio.sleep(0.001)
        kube.cancellation.now()
        await executing
    assert len(server.requests("POST")) == 1
    assert [type(result) for result in recorder.results] == [CommandFailed]


@pytest.mark.parametrize("code", [403, 429, 500, 503])
async def test_a_bind_whose_pod_cannot_be_read_is_unanswered_and_not_a_deleted_pod(code: int) -> None:
    """An etcd without a leader fails the bind and the read. "The pod is gone" would be final."""
    server = ApiServer(pods={"p": a_pod()})
    server.plan(BIND, lambda: status(500, "InternalError"))
    server.plan("GET /api/v1/namespaces/ns/pods/p", *[lambda: status(code, "Unavailable")] * 2)
    recorder = await run(server, a_bind())
    assert recorder.results == [CommandUnanswered(a_bind())]


async def test_a_command_whose_execution_raises_is_unanswered_and_the_next_one_is_executed() -> None:
    server, recorder = ApiServer(), CommandRecorder()
    broken = replace(a_bind(), signature=object())  # cannot be encoded
    async with serving(server), a_kube(server, recorder) as kube:
        with capture_logs() as logs:
            await kube.execute(broken)
        await kube.execute(a_condition())
    assert [type(result) for result in recorder.results] == [CommandUnanswered, CommandSucceeded]
    assert recorder.failed == ["BindPod"]
    assert [one["log_level"] for one in logs if one.get("exc_info")] == ["error"]


@pytest.mark.parametrize("separator", ["-", ".", ".-."])
async def test_the_event_name_of_a_long_pod_name_is_valid(separator: str) -> None:
    """The name is cut to 200 characters, and a DNS subdomain has no separator before a dot."""
    server = ApiServer()
    await run(server, an_event(name="p" * (200 - len(separator)) + separator + "q" * 20))
    name = server.seen[0].body["metadata"]["name"]
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", name)


async def test_a_bind_without_a_response_finishes_as_unanswered() -> None:
    recorder = CommandRecorder()
    server = ApiServer(url="http://127.0.0.1:9")
    async with a_kube(server, recorder) as kube:
        await kube.execute(a_bind())
    assert recorder.results == [CommandUnanswered(a_bind())]


async def test_a_delete_names_the_uid_and_keeps_the_grace_period() -> None:
    server = ApiServer(pods={"p": a_pod()})
    recorder = await run(server, a_delete())
    [request] = server.seen
    assert request.body["preconditions"] == {"uid": "uid-p"}
    assert "gracePeriodSeconds" not in request.body
    assert recorder.results == [CommandSucceeded(a_delete())]


@pytest.mark.parametrize("code,reason", [(404, "NotFound"), (409, "Conflict")])
@pytest.mark.parametrize("there", [{}, {"p": a_pod(uid="another")}])
async def test_a_delete_of_a_deleted_pod_succeeds_and_is_sent_once(
    code: int, reason: str, there: dict[str, dict[str, object]]
) -> None:
    server = ApiServer(pods=there)
    server.plan("DELETE /api/v1/namespaces/ns/pods/p", lambda: status(code, reason))
    recorder = await run(server, a_delete())
    assert recorder.results == [CommandSucceeded(a_delete())]
    assert len(server.requests("DELETE")) == 1


async def test_a_delete_conflict_is_a_failure_while_the_pod_exists() -> None:
    server = ApiServer(pods={"p": a_pod()})
    server.plan("DELETE /api/v1/namespaces/ns/pods/p", lambda: status(409, "Conflict", "the object was modified"))
    recorder = await run(server, a_delete())
    assert recorder.results == [CommandFailed(a_delete(), 409, "Conflict", "the object was modified")]


async def test_a_placeholder_is_created_with_the_placeholder_field_manager() -> None:
    server = ApiServer()
    recorder = await run(server, a_create())
    assert server.seen[0].query == "fieldManager=muster-placeholder"
    assert recorder.results == [CommandSucceeded(a_create())]


async def test_an_existing_placeholder_of_muster_is_accepted() -> None:
    server = ApiServer(pods={"tg-1": a_pod("tg-1", uid="ours-1")})
    server.plan("POST /api/v1/namespaces/ns/pods", lambda: status(409, "AlreadyExists"))
    recorder = await run(server, a_create())
    assert recorder.results == [CommandSucceeded(a_create())]
    assert len(recorder.read) == 1


async def test_a_placeholder_name_used_by_another_pod_is_a_failure() -> None:
    server = ApiServer(pods={"tg-1": a_pod("tg-1", uid="theirs")})
    server.plan("POST /api/v1/namespaces/ns/pods", lambda: status(409, "AlreadyExists", "exists"))
    recorder = await run(server, a_create())
    assert recorder.results == [CommandFailed(a_create(), 409, "AlreadyExists", "exists")]


async def test_a_create_with_a_resource_quota_conflict_is_retried() -> None:
    server = ApiServer()
    server.plan("POST /api/v1/namespaces/ns/pods", lambda: status(409, "Conflict", "resourcequotas modified"))
    recorder = await run(server, a_create())
    assert recorder.results == [CommandSucceeded(a_create())]


async def test_a_forbidden_create_is_not_retried() -> None:
    server = ApiServer()
    server.plan("POST /api/v1/namespaces/ns/pods", lambda: status(403, "Forbidden", "exceeded quota"))
    recorder = await run(server, a_create())
    assert recorder.results == [CommandFailed(a_create(), 403, "Forbidden", "exceeded quota")]
    assert len(server.seen) == 1


async def test_a_bind_with_missing_permissions_is_retried() -> None:
    server = ApiServer()
    denied = (
        'pods is forbidden: User "system:serviceaccount:muster:muster-operator" cannot create resource "pods/binding"'
    )
    server.plan(BIND, lambda: status(403, "Forbidden", denied))
    recorder = await run(server, a_bind())
    assert recorder.results == [CommandSucceeded(a_bind())]


async def test_a_condition_is_written_to_the_status_of_the_pod_with_that_uid() -> None:
    server = ApiServer()
    await run(server, a_condition())
    [request] = server.seen
    assert request.path.endswith("/pods/p/status")
    assert request.body["metadata"] == {"uid": "uid-p"}
    assert request.body["status"]["conditions"][0]["status"] == "False"


async def test_a_preempted_pod_has_a_disruption_target_condition() -> None:
    """Kubernetes, pod disruptions: type DisruptionTarget, reason PreemptionByScheduler."""
    server = ApiServer()
    await run(server, a_disruption())
    [request] = server.seen
    [condition] = request.body["status"]["conditions"]
    assert condition.pop("lastTransitionTime")
    assert condition == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "for job high",
    }


async def test_events_of_one_series_are_one_event_with_a_count() -> None:
    server = ApiServer()
    recorder = await run(server, *(an_event(f"{bound} of 3 bound", series="gang") for bound in (1, 2, 3)))
    assert [request.method for request in server.seen] == ["POST", "PATCH", "PATCH"]
    assert server.seen[0].path == "/apis/events.k8s.io/v1/namespaces/ns/events"
    name = server.seen[0].body["metadata"]["name"]
    assert server.seen[2].path == f"/api/v1/namespaces/ns/events/{name}"
    assert server.seen[2].body["series"]["count"] == 3
    assert server.seen[2].body["message"] == "3 of 3 bound"
    assert len(recorder.results) == 3


async def test_a_series_that_expired_at_the_server_starts_again() -> None:
    server = ApiServer()
    recorder = CommandRecorder()
    async with serving(server), a_kube(server, recorder) as kube:
        await kube.execute(an_event(series="gang"))
        name = server.seen[0].body["metadata"]["name"]
        server.plan(f"PATCH /api/v1/namespaces/ns/events/{name}", lambda: status(404, "NotFound"))
        await kube.execute(an_event(series="gang"))
    assert [request.method for request in server.seen] == ["POST", "PATCH", "POST"]


async def test_a_delayed_event_keeps_the_time_at_which_it_occurred() -> None:
    server = ApiServer()
    await run(server, replace(an_event(), at=1_700_000_000.25))
    assert server.seen[0].body["eventTime"] == "2023-11-14T22:13:20.250000Z"


async def test_an_event_note_is_shortened_to_the_limit_of_the_api() -> None:
    server = ApiServer()
    await run(server, an_event("ü" * 2000))
    assert len(server.seen[0].body["note"].encode()) <= 1024


async def test_a_rejected_token_is_read_again_once() -> None:
    server = ApiServer()
    server.plan(BIND, lambda: status(401, "Unauthorized"))
    recorder = CommandRecorder()
    async with serving(server), a_kube(server, recorder, tokens=["old", "new"]) as kube:
        await kube.execute(a_bind())
    assert [request.authorization for request in server.seen] == ["Bearer old", "Bearer new"]
    assert recorder.results == [CommandSucceeded(a_bind())]


async def test_a_rejection_without_a_status_object_is_a_failure() -> None:
    server = ApiServer()
    server.plan("POST /api/v1/namespaces/ns/pods", lambda: reply(403, {}))
    recorder = await run(server, a_create())
    assert isinstance(recorder.results[0], CommandFailed)


@pytest.mark.parametrize("code", [429, 503])
async def test_a_retry_after_response_throttles_all_writes_of_that_priority(code: int) -> None:
    server, recorder = ApiServer(), CommandRecorder()
    throttled_pause = status(code, "TooManyRequests", headers={"Retry-After": "1"})
    server.plan("POST /api/v1/namespaces/ns/pods", lambda: throttled_pause)
    async with serving(server), a_kube(server, recorder) as kube:
        creating = asyncio.create_task(kube.execute(a_create()))
        while not recorder.retried:  # noqa: ASYNC110 - a level that nobody signals
            await asyncio.sleep(0.001)
        held, free = kube.throttle.left_s(WritePriority.CREATE), kube.throttle.left_s(WritePriority.BIND)
        creating.cancel()
    assert 0.5 < held <= 1.0
    assert free == 0
    assert recorder.throttled == ["create"]


async def test_a_429_without_retry_after_delays_only_that_request() -> None:
    server, recorder = ApiServer(), CommandRecorder()
    server.plan("POST /api/v1/namespaces/ns/pods", lambda: status(429, "TooManyRequests"))
    async with serving(server), a_kube(server, recorder) as kube:
        await kube.execute(a_create())
    assert recorder.results == [CommandSucceeded(a_create())]
    assert recorder.throttled == []


async def test_a_log_line_of_a_command_names_its_object_and_never_its_content() -> None:
    secret = "what-only-its-user-may-read"
    create = a_create()
    group = dataclasses.replace(create.spec.group, annotations={"note": secret * 1000})
    create = CreatePlaceholder(dataclasses.replace(create.spec, group=group))
    server = ApiServer()
    server.plan("POST /api/v1/namespaces/ns/pods", lambda: status(403, "Forbidden", "exceeded quota" + "x" * 10_000))
    with capture_logs() as lines:
        await run(server, create)
    [line] = [line for line in lines if line["event"] == "a command failed"]
    assert (line["command"], line["object"], line["status"]) == ("CreatePlaceholder", "ns/tg-1", 403)
    assert line["message"].startswith("exceeded quota")
    assert len(str(lines)) < 1_000
    assert secret not in str(lines)


async def test_a_log_line_of_an_unanswered_command_has_no_spec() -> None:
    with capture_logs() as lines:
        async with a_kube(ApiServer(url="http://127.0.0.1:9"), CommandRecorder()) as kube:
            await kube.execute(a_create())
    [line] = [line for line in lines if line["event"] == "a command was not answered"]
    assert {name: line[name] for name in line if name not in {"event", "log_level"}} == {
        "command": "CreatePlaceholder",
        "object": "ns/tg-1",
    }


# -- The difference between our clock and that of the API server, by the `Date` header of its responses.

NOW_S = 1_767_225_600.0


def http_date(epoch_s: float) -> str:
    return format_datetime(datetime.fromtimestamp(epoch_s, tz=UTC), usegmt=True)


@pytest.mark.parametrize("ahead_s", [900.0, -900.0])
def test_the_smallest_clock_difference_is_used(ahead_s: float) -> None:
    clock = ServerClock()
    for late_s in (0.9, 0.1, 3.0, 0.5):
        clock.note(http_date(NOW_S), NOW_S + ahead_s + late_s)
    assert clock.ahead_s == pytest.approx(ahead_s + 0.1)


def test_a_clock_difference_within_the_error_margin_is_zero() -> None:
    clock = ServerClock()
    clock.note(http_date(NOW_S), NOW_S + 1.5)
    assert clock.ahead_s == 0.0


@pytest.mark.parametrize("date", [None, "", "yesterday"])
def test_a_response_without_a_date_is_ignored(date: str | None) -> None:
    clock = ServerClock()
    clock.note(date, NOW_S)
    assert clock.ahead_s == 0.0


async def test_every_read_of_the_session_updates_the_server_clock() -> None:
    path = "/api/v1/namespaces/ns/pods/p"
    async with serving(ApiServer()) as server:
        server.plan(f"GET {path}", lambda: web.json_response({}, headers={"Date": http_date(0.0)}))
        session = KubeSession(FixedCredentials(server.url, ["t"]))
        await session.get(path)
        await session.close()
    assert session.clock.ahead_s > NOW_S
