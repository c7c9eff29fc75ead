"""The condition of a PodGroup is written in the version that the cluster serves."""

from muster_operator.kube.write_queue import WritePriority, key_of, namespace_of, write_priority_of
from muster_operator.model.commands import CommandFailed, CommandSucceeded, SetGroupCondition
from muster_operator.model.pod_groups import SCHEDULED, GroupCondition
from tests.unit.operator.kube.apiserver import ApiServer, CommandRecorder, ReceivedRequest, a_kube, serving, status

COMMAND = SetGroupCondition("ns", "train", "u1", 4, GroupCondition(is_scheduled=True, reason=SCHEDULED))


def path(version: str) -> str:
    return f"/apis/scheduling.k8s.io/{version}/namespaces/ns/podgroups/train/status"


async def run(server: ApiServer, times: int = 1) -> CommandRecorder:
    recorder = CommandRecorder()
    async with serving(server), a_kube(server, recorder) as kube:
        for _ in range(times):
            await kube.execute(COMMAND)
    return recorder


def written(request: ReceivedRequest) -> tuple[str, str, str]:
    assert request.body["metadata"] == {"uid": "u1"}
    [condition] = request.body["status"]["conditions"]
    assert condition["observedGeneration"] == 4
    return condition["type"], condition["status"], condition["reason"]


async def test_the_condition_has_the_type_of_its_version() -> None:
    server = ApiServer()
    recorder = await run(server)
    assert recorder.results == [CommandSucceeded(COMMAND)]
    [request] = server.seen
    assert (request.method, request.path) == ("PATCH", path("v1beta1"))
    assert written(request) == ("PodGroupInitiallyScheduled", "True", "Scheduled")


async def test_an_older_version_is_found_once() -> None:
    server = ApiServer()
    server.plan(f"PATCH {path('v1beta1')}", lambda: status(404, "NotFound"))
    recorder = await run(server, times=2)
    assert recorder.results == [CommandSucceeded(COMMAND)] * 2
    assert [request.path for request in server.seen] == [path("v1beta1"), path("v1alpha2"), path("v1alpha2")]
    assert written(server.seen[1]) == ("PodGroupScheduled", "True", "Scheduled")


async def test_a_group_that_is_gone_costs_no_retries() -> None:
    server = ApiServer()
    for version in ("v1beta1", "v1alpha2"):
        server.plan(f"PATCH {path(version)}", lambda: status(404, "NotFound"))
    recorder = await run(server)
    assert [type(result) for result in recorder.results] == [CommandFailed]
    assert len(server.seen) == 2


def test_conditions_of_one_group_stay_in_order_and_follow_decisions() -> None:
    assert key_of(COMMAND) == "podgroup ns/train"
    assert namespace_of(COMMAND) == "ns"
    assert write_priority_of(COMMAND) is WritePriority.PATCH
