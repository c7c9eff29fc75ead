"""The writes of a ProvisioningRequest and its PodTemplates."""

from typing import Any

import pytest
from msgspec.structs import replace

from muster_operator.kube.provisioning import served_class
from muster_operator.kube.session import KubeSession
from muster_operator.kube.write_queue import WritePriority, key_of, namespace_of, write_priority_of
from muster_operator.model.commands import (
    CommandFailed,
    CommandSucceeded,
    NodesRequest,
    PodSet,
    RequestNodes,
    WithdrawNodes,
)
from muster_operator.model.errors import ApiRefused
from muster_operator.model.ids import AppId
from muster_operator.model.names import CHECK_CAPACITY
from tests.unit.operator.kube.apiserver import (
    ApiServer,
    CommandRecorder,
    FixedCredentials,
    a_kube,
    reply,
    serving,
    status,
)
from tests.unit.operator.kube.commands import a_create, a_ref

TEMPLATES = "/api/v1/namespaces/ns/podtemplates"
REQUESTS = "/apis/autoscaling.x-k8s.io/v1/namespaces/ns/provisioningrequests"
DRIVER = a_ref("driver")
SPEC = a_create("").spec
REQUEST = RequestNodes(
    NodesRequest("tg-app", AppId("ns/app"), DRIVER, CHECK_CAPACITY, (PodSet(0, 2, SPEC), PodSet(2, 1, SPEC)))
)
WITHDRAW = WithdrawNodes(DRIVER, "tg-app", groups=2)


def exists() -> Any:
    return status(409, "AlreadyExists", "exists")


def of_driver(*conditions: dict[str, str], owner: str = DRIVER.uid) -> Any:
    """The reply with the request of the driver."""
    return reply(200, {"metadata": {"ownerReferences": [{"uid": owner}]}, "status": {"conditions": [*conditions]}})


async def run(server: ApiServer, command: RequestNodes | WithdrawNodes) -> CommandRecorder:
    recorder = CommandRecorder()
    async with serving(server), a_kube(server, recorder) as kube:
        await kube.execute(command)
    return recorder


def paths(server: ApiServer) -> list[tuple[str, str]]:
    return [(request.method, request.path) for request in server.seen]


async def test_templates_are_created_before_the_request_that_names_them() -> None:
    server = ApiServer()
    assert (await run(server, REQUEST)).results == [CommandSucceeded(REQUEST)]
    assert paths(server) == [("POST", TEMPLATES), ("POST", TEMPLATES), ("POST", REQUESTS)]
    names = [request.body["metadata"]["name"] for request in server.seen]
    assert names == ["tg-app-0", "tg-app-2", "tg-app"]
    assert {request.body["metadata"]["ownerReferences"][0]["uid"] for request in server.seen} == {DRIVER.uid}
    assert server.seen[-1].body["spec"] == {
        "provisioningClassName": CHECK_CAPACITY,
        "podSets": [
            {"podTemplateRef": {"name": "tg-app-0"}, "count": 2},
            {"podTemplateRef": {"name": "tg-app-2"}, "count": 1},
        ],
    }


async def test_existing_objects_of_the_gang_are_accepted_and_the_request_is_read() -> None:
    server = ApiServer()
    server.plan(f"POST {TEMPLATES}", exists, exists)
    server.plan(f"POST {REQUESTS}", exists)
    for name in ("tg-app-0", "tg-app-2"):
        server.plan(f"GET {TEMPLATES}/{name}", of_driver)
    problem = {"type": "Provisioned", "status": "False", "message": "no capacity"}
    server.plan(f"GET {REQUESTS}/tg-app", lambda: of_driver(problem))
    assert (await run(server, REQUEST)).results == [CommandSucceeded(REQUEST, problem="no capacity")]


async def test_a_request_of_another_owner_is_a_failure() -> None:
    server = ApiServer()
    server.plan(f"POST {REQUESTS}", exists)
    server.plan(f"GET {REQUESTS}/tg-app", lambda: of_driver(owner="other"))
    [result] = (await run(server, REQUEST)).results
    assert isinstance(result, CommandFailed)
    assert (result.status, result.reason) == (409, "AlreadyExists")
    assert "does not belong to pod driver" in result.message


async def test_a_template_of_another_owner_is_a_failure() -> None:
    """A user could otherwise have the autoscaler add nodes of any shape. The name of the template can be predicted."""
    server = ApiServer()
    server.plan(f"POST {TEMPLATES}", exists)
    server.plan(f"GET {TEMPLATES}/tg-app-0", lambda: of_driver(owner="other"))
    [result] = (await run(server, REQUEST)).results
    assert isinstance(result, CommandFailed)
    assert result.message == '"tg-app-0" exists and does not belong to pod driver'
    assert paths(server) == [("POST", TEMPLATES), ("GET", f"{TEMPLATES}/tg-app-0")]


async def test_nothing_follows_a_template_that_cannot_be_created() -> None:
    server = ApiServer()
    server.plan(f"POST {TEMPLATES}", lambda: status(403, "Forbidden", "exceeded quota"))
    assert (await run(server, REQUEST)).results == [CommandFailed(REQUEST, 403, "Forbidden", "exceeded quota")]
    assert paths(server) == [("POST", TEMPLATES)]


@pytest.mark.parametrize(
    "conditions, problem",
    [
        ([("Provisioned", "False", "none yet"), ("Failed", "True", "no machines")], "no machines"),
        ([("Provisioned", "False", "none yet"), ("Failed", "False", "")], "none yet"),
        ([("Accepted", "True", "accepted"), ("Provisioned", "True", "done")], ""),
        ([("Failed", "True", "")], ""),
        ([], ""),
    ],
)
async def test_a_created_request_is_only_read(conditions: list[tuple[str, str, str]], problem: str) -> None:
    server = ApiServer()
    written = [dict(zip(("type", "status", "message"), one, strict=True)) for one in conditions]
    server.plan(f"GET {REQUESTS}/tg-app", lambda: of_driver(*written))
    command = replace(REQUEST, is_created=True)
    assert (await run(server, command)).results == [CommandSucceeded(command, problem=problem)]
    assert paths(server) == [("GET", f"{REQUESTS}/tg-app")]


async def test_the_request_is_deleted_before_its_templates() -> None:
    server = ApiServer()
    server.plan(f"DELETE {REQUESTS}/tg-app", lambda: reply(200, {}))
    assert (await run(server, WITHDRAW)).results == [CommandSucceeded(WITHDRAW)]
    wanted = [f"{REQUESTS}/tg-app", f"{TEMPLATES}/tg-app-0", f"{TEMPLATES}/tg-app-1"]
    assert paths(server) == [("DELETE", path) for path in wanted]


async def test_without_a_request_no_template_is_deleted() -> None:
    server = ApiServer()
    assert (await run(server, WITHDRAW)).results == [CommandSucceeded(WITHDRAW)]
    assert paths(server) == [("DELETE", f"{REQUESTS}/tg-app")]


def test_writes_of_one_request_stay_in_order_and_follow_decisions() -> None:
    assert key_of(REQUEST) == key_of(WITHDRAW) == "provisioningrequest ns/tg-app"
    assert namespace_of(REQUEST) == namespace_of(WITHDRAW) == "ns"
    assert write_priority_of(REQUEST) is write_priority_of(WITHDRAW) is WritePriority.PATCH


@pytest.mark.parametrize(
    "answer, found",
    [
        (lambda: reply(200, {"resources": [{"name": "provisioningrequests"}]}), CHECK_CAPACITY),
        (lambda: reply(200, {"resources": [{"name": "others"}]}), ""),
        (lambda: status(404, "NotFound"), ""),
    ],
)
async def test_the_class_is_used_only_if_the_api_is_served(answer: Any, found: str) -> None:
    server = ApiServer()
    server.plan("GET /apis/autoscaling.x-k8s.io/v1", answer)
    async with serving(server):
        session = KubeSession(FixedCredentials(server.url, ["t"]))
        assert await served_class(session, CHECK_CAPACITY) == found
        assert await served_class(session, "") == ""
        await session.close()
    assert len(server.seen) == 1


async def test_another_answer_does_not_decide_whether_the_api_is_served() -> None:
    server = ApiServer()
    server.plan("GET /apis/autoscaling.x-k8s.io/v1", lambda: status(503, "ServiceUnavailable"))
    async with serving(server):
        session = KubeSession(FixedCredentials(server.url, ["t"]))
        with pytest.raises(ApiRefused):
            await served_class(session, CHECK_CAPACITY)
        await session.close()
