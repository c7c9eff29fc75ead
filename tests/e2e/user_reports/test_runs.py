"""Reports about pods that differ from their task group, and about pods that replace others."""

from collections import Counter

from devcluster.api import Json
from tests.e2e.manifests import Group, a_gang
from tests.e2e.scenario import Scenario
from tests.e2e.user_reports.reports import both_schedulers, bound, data, members, noted, on_node, plain, runs, waits


@both_schedulers
async def test_a_head_larger_than_its_task_group_starts_with_its_workers_or_not_at_all(
    demo: Scenario, scheduler: str
) -> None:
    sizes = {"busy-0": "900m", "busy-1": "900m", "busy-2": "900m", "busy-3": "900m", "busy-4": "900m", "part": "600m"}
    await demo.create(
        plain(name, cpu, nodeSelector=on_node(f"node-{number}")) for number, (name, cpu) in enumerate(sizes.items())
    )
    for name in sizes:
        await runs(demo, name, 1)
    pods = a_gang("ray", [Group("head", 1, "300m", real_cpu="800m"), Group("worker", 2, "900m")])
    for pod in pods:
        pod["spec"]["schedulerName"] = scheduler
    await demo.create(pods)
    await waits(demo, ["ray-head-0", "ray-worker-0", "ray-worker-1"])
    assert await bound(demo, "ray") == []
    await demo.api.delete("pods", "part", demo.namespace, grace_s=0)
    await runs(demo, "ray", 3)


@both_schedulers
async def test_pending_is_what_the_members_of_waiting_gangs_request(demo: Scenario, scheduler: str) -> None:
    for app in ("a", "b"):
        await demo.create(members(app, 3, scheduler, cpu="1500m"))
    await waits(demo, [f"{app}-w-{number}" for app in ("a", "b") for number in range(3)])
    apps = {app["applicationID"]: app["pendingResource"] for app in await data(demo, "apps", "-n", demo.namespace)}
    assert {app: (found["vcore"], found["pods"]) for app, found in apps.items()} == {"a": (4500, 3), "b": (4500, 3)}
    queue = await data(demo, "queues", f"root.{demo.namespace}")
    assert (queue["pendingResource"]["vcore"], queue["pendingResource"]["pods"]) == (9000, 6)


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
