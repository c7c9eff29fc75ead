"""Reports about pods that differ from their task group, and about later runs of an application."""

from collections import Counter

from devcluster.api import Json
from devcluster.errors import ApiError
from tests.e2e.manifests import Group, a_gang, with_annotations
from tests.e2e.scenario import Scenario
from tests.e2e.user_reports.reports import both_schedulers, bound, data, members, noted, on_node, plain, runs, waits

RUN_FOR = "devcluster.muster/run-for"


async def busy(scenario: Scenario, count: int, cpu: str = "900m", memory: str = "64Mi") -> None:
    """Fill this many nodes, beginning with node-0, with one pod each."""
    pods = [plain(f"busy-{number}", cpu, nodeSelector=on_node(f"node-{number}")) for number in range(count)]
    for pod in pods:
        pod["spec"]["containers"][0]["resources"]["requests"]["memory"] = memory
    await scenario.create(pods)
    for number in range(count):
        await runs(scenario, f"busy-{number}", 1)


async def gone(scenario: Scenario, *names: str) -> None:
    """Delete these pods."""
    for name in names:
        await scenario.api.delete("pods", name, scenario.namespace, grace_s=0)


@both_schedulers
async def test_memory_that_a_limit_range_adds_counts_for_all_members_of_a_gang(demo: Scenario, scheduler: str) -> None:
    await busy(demo, 6, "50m", "3500Mi")
    added = {"type": "Container", "default": {"memory": "1500Mi"}, "defaultRequest": {"memory": "1500Mi"}}
    limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "defaults"}, "spec": {"limits": [added]}}
    await demo.create([limits])
    await demo.eventually("the defaults are added", lambda: _gets_memory(demo))
    pods = members("tight", 5, scheduler, cpu="200m", extra={"minResource": {"cpu": "200m"}})
    for pod in pods:
        del pod["spec"]["containers"][0]["resources"]["requests"]["memory"]
    await demo.create(pods)
    await waits(demo, [f"tight-w-{number}" for number in range(5)])
    assert await bound(demo, "tight") == []
    await gone(demo, "busy-5")
    await runs(demo, "tight", 5)


async def _gets_memory(scenario: Scenario) -> bool:
    """Whether the API server adds the defaults: it reads a new LimitRange after some time."""
    pod = plain("probe", "10m", schedulerName="other")
    del pod["spec"]["containers"][0]["resources"]["requests"]["memory"]
    made = await scenario.api.create(pod, scenario.namespace)
    await gone(scenario, "probe")
    return "memory" in made["spec"]["containers"][0]["resources"]["requests"]


@both_schedulers
async def test_a_head_larger_than_its_task_group_starts_with_its_workers_or_not_at_all(
    demo: Scenario, scheduler: str
) -> None:
    await busy(demo, 5)
    await demo.create([plain("part", "600m", nodeSelector=on_node("node-5"))])
    await runs(demo, "part", 1)
    pods = a_gang("ray", [Group("head", 1, "300m", real_cpu="800m"), Group("worker", 2, "900m")])
    for pod in pods:
        pod["spec"]["schedulerName"] = scheduler
    await demo.create(pods)
    await waits(demo, ["ray-head-0", "ray-worker-0", "ray-worker-1"])
    assert await bound(demo, "ray") == []
    await gone(demo, "part")
    await runs(demo, "ray", 3)


@both_schedulers
async def test_a_gang_that_is_suspended_and_resumed_within_seconds_is_a_gang_again(
    demo: Scenario, scheduler: str
) -> None:
    await busy(demo, 4)
    await demo.create(members("train", 4, scheduler))
    await runs(demo, "train", 4)
    await demo.create(plain(f"rival-{number}") for number in range(2))
    await waits(demo, ["rival-0", "rival-1"])
    await demo.api.delete_all("pods", demo.namespace, labelSelector="applicationId=train")
    for number in range(2):
        await runs(demo, f"rival-{number}", 1)
    await demo.create(members("train", 4, scheduler))
    await waits(demo, ["train-w-0"])
    assert await bound(demo, "train") == []
    await gone(demo, "rival-0", "rival-1")
    await runs(demo, "train", 4)


@both_schedulers
async def test_a_retry_after_the_others_have_completed_needs_one_slot(demo: Scenario, scheduler: str) -> None:
    await busy(demo, 5)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "job"}}
    uid = (await demo.api.create(owner, demo.namespace))["metadata"]["uid"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "job", "uid": uid, "controller": True}
    first, later = members("indexed", 3, scheduler), members("indexed", 3, scheduler)
    for pod in (*first, *later):
        pod["metadata"]["ownerReferences"] = [reference]
    await demo.create([*(with_annotations(pod, {RUN_FOR: "0s"}) for pod in first[:2]), first[2]])

    async def has_one_left() -> bool:
        phases = [pod["status"].get("phase") for pod in await demo.pods() if _is_of(pod, "indexed")]
        return sorted(map(str, phases)) == ["Running", "Succeeded", "Succeeded"]

    await demo.eventually("two members have completed", has_one_left)
    await demo.create(plain(f"rival-{number}") for number in range(2))
    for number in range(2):
        await runs(demo, f"rival-{number}", 1)
    await gone(demo, "indexed-w-2")

    async def has_ended() -> bool:
        state: str = (await data(demo, "app", f"{demo.namespace}/indexed"))["applicationState"]
        return state == "Completed"

    await demo.eventually("the application has completed", has_ended)
    retry = later[2]
    retry["metadata"]["name"] = "indexed-retry"
    await demo.create([retry])
    await runs(demo, "indexed", 1)


def _is_of(pod: Json, app: str) -> bool:
    return bool(pod["metadata"]["labels"].get("applicationId") == app)


@both_schedulers
async def test_pending_is_what_the_members_of_waiting_gangs_request(demo: Scenario, scheduler: str) -> None:
    for app in ("a", "b"):
        await demo.create(members(app, 3, scheduler, cpu="1500m"))
    await waits(demo, [f"{app}-w-{number}" for app in ("a", "b") for number in range(3)])
    apps = {app["applicationID"]: app["pendingResource"] for app in await data(demo, "apps", "-n", demo.namespace)}
    assert {app: (found["vcore"], found["pods"]) for app, found in apps.items()} == {"a": (4500, 3), "b": (4500, 3)}
    queue = await data(demo, "queues", f"root.{demo.namespace}")
    assert (queue["pendingResource"]["vcore"], queue["pendingResource"]["pods"]) == (9000, 6)


async def test_a_hard_gang_that_is_created_again_after_its_timeout_is_a_new_attempt(demo: Scenario) -> None:
    await demo.occupy("node-0", "500m")
    hard = "gangSchedulingStyle=Hard placeholderTimeoutInSeconds=2"
    for _ in range(2):
        await demo.create(members("again", 8, "yunikorn", parameters=hard))

        async def has_failed() -> bool:
            pods = [pod for pod in await demo.pods() if _is_of(pod, "again")]
            return len(pods) == 8 and all(pod["status"].get("phase") == "Failed" for pod in pods)

        await demo.eventually("the attempt has failed", has_failed)
        await demo.api.delete_all("pods", demo.namespace, labelSelector="applicationId=again")
    await gone(demo, "occupies-node-0")
    await demo.create(members("again", 8, "yunikorn", parameters=hard))
    await runs(demo, "again", 8)


@both_schedulers
async def test_a_rolling_update_of_a_gang_ends(demo: Scenario, scheduler: str) -> None:
    [pod, *_] = members("inference", 3, scheduler, cpu="200m")
    template = {"metadata": {key: pod["metadata"][key] for key in ("labels", "annotations")}, "spec": pod["spec"]}
    template["spec"]["restartPolicy"] = "Always"
    selector = {"matchLabels": {"applicationId": "inference"}}
    spec = {"replicas": 3, "selector": selector, "template": template}
    made = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "inference"}, "spec": spec}
    await demo.create([made])
    await runs(demo, "inference", 3)
    version = {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}}
    await demo.api.patch("deployments", "inference", version, demo.namespace)

    async def is_new() -> bool:
        pods = await bound(demo, "inference")
        return len(pods) == 3 and all(pod["metadata"]["annotations"].get("version") == "2" for pod in pods)

    await demo.eventually("all pods have the new version", is_new)


@both_schedulers
async def test_two_jobs_with_the_same_application_id_are_two_gangs(demo: Scenario, scheduler: str) -> None:
    """A copied manifest, whose application ID was not changed. There is room for one of them."""
    [pod, *_] = members("copied", 5, scheduler)
    template = {"metadata": {key: pod["metadata"][key] for key in ("labels", "annotations")}, "spec": pod["spec"]}
    template["spec"]["restartPolicy"] = "Never"
    spec = {"parallelism": 5, "completions": 5, "template": template}
    names = {"train", "train-copy"}
    await demo.create(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec} for name in names
    )

    async def with_nodes() -> Counter[str]:
        return Counter(pod["metadata"]["labels"]["job-name"] for pod in await bound(demo, "copied"))

    async def is_complete() -> str:
        return next((name for name, count in (await with_nodes()).items() if count == 5), "")

    first = await demo.eventually("one of the Jobs runs", is_complete)
    [second] = names - {first}

    async def all_pods() -> list[Json]:
        found = [pod["metadata"] for pod in await demo.pods() if pod["metadata"]["labels"].get("job-name") == second]
        return found if len(found) == 5 else []

    pods = await demo.eventually("the pods of the other Job exist", all_pods)
    reasons = await waits(demo, [metadata["name"] for metadata in pods])
    assert len(reasons) == 5
    assert await with_nodes() == {first: 5}
    [warning, *_] = await noted(demo, "are another gang with the same ID")
    assert all(f"Job/{name}" in warning["message"] for name in names)
    await demo.api.delete("jobs", first, demo.namespace)

    async def has_followed() -> bool:
        return await with_nodes() == {second: 5}

    await demo.eventually("the other Job runs", has_followed)


async def test_a_namespace_that_is_deleted_while_a_gang_waits_is_gone_and_its_nodes_are_free(demo: Scenario) -> None:
    namespace = f"{demo.namespace}-doomed"
    await demo.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})

    async def has_account() -> bool:
        return bool(await demo.api.get("serviceaccounts", "default", namespace))

    await demo.eventually("the default account", has_account)
    for pod in members("wide", 9, "yunikorn"):
        await demo.api.create(pod, namespace)

    async def are_reserved() -> bool:
        pods = await demo.api.find("pods", namespace)
        return sum(bool(pod["spec"].get("nodeName")) for pod in pods) == 8

    await demo.eventually("eight placeholders are bound", are_reserved)
    await demo.api.delete("namespaces", namespace)

    async def is_gone() -> bool:
        try:
            await demo.api.get("namespaces", namespace)
        except ApiError as error:
            return error.status == 404
        return False

    await demo.eventually("the namespace is gone", is_gone)
    await demo.create(members("next", 8, "yunikorn"))
    await runs(demo, "next", 8)
    writes = [write for write in demo.writes(of_operator=True) if write.namespace == namespace]
    assert [write for write in writes if write.code == 403 and write.resource == "pods"] == []
