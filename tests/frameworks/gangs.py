"""What every framework's test looks at: a gang is reserved before its first pod runs, and it leaves nothing behind."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import yaml

from devcluster.api import Json
from devcluster.errors import ApiError
from devcluster.leftovers import leftovers
from devcluster.resources import of_manifest
from tests.e2e.conditions import scheduled
from tests.e2e.conftest import placement_of_run
from tests.e2e.manifests import PREFIX
from tests.e2e.scenario import Scenario

EXAMPLES = Path(__file__).parents[2] / "examples"
SLOW_S = 120.0
"""Controllers are allowed their back-offs."""


async def applied_example(scenario: Scenario, folder: str, file: str = "") -> list[Json]:
    """Apply the manifests of an example as ``kubectl apply -f`` does, unchanged, and return them."""
    files = [EXAMPLES / folder / file] if file else sorted((EXAMPLES / folder).glob("*.yaml"))
    manifests = [one for path in files for one in yaml.safe_load_all(path.read_text()) if one]
    for manifest in manifests:
        await scenario.api.apply(manifest, scenario.namespace)
    return manifests


async def is_reserved_first(
    scenario: Scenario, app: str, groups: Mapping[str, int], *, scheduler: str = "muster"
) -> list[Json]:
    """Wait until the members of all groups are bound; before the first of them, all placeholders were bound.

    An event reports the reservation of an Auto or Direct gang. ``groups``: the number of members of each task
    group. The webhook gave every pod its user, and its scheduler unless the framework did. Returns the members.
    """
    pods = await members_bound(scenario, app, groups)
    for pod in pods:
        assert pod["spec"]["schedulerName"] == scheduler, pod["metadata"]["name"]
        assert f"{PREFIX}user.info" in pod["metadata"]["annotations"], pod["metadata"]["name"]
    default = placement_of_run() if scheduler == "muster" else "Reserve"
    if placement_of(pods, default) != "Reserve":

        async def is_reported() -> bool:
            return has_reservation_event(await scenario.events(), pods, sum(groups.values()))

        await scenario.eventually("the gang was reserved", is_reported)
        return pods
    names = {pod["metadata"]["name"] for pod in pods}

    async def bindings() -> list[str]:
        writes = sorted(scenario.writes(of_operator=True), key=lambda write: write.at)
        found = [write.name for write in writes if write.subresource == "binding" and write.succeeded]
        return found if names <= {*found} else []

    bound = await scenario.eventually("the audit log has the bindings", bindings)
    first = min(bound.index(name) for name in names)
    assert len([name for name in bound[:first] if name.startswith(f"tg-{app[:20].lower()}")]) == sum(groups.values())
    return pods


def placement_of(pods: Sequence[Json], default: str) -> str:
    """The placement that the parameters of one of the pods name, or the default."""
    texts = (pod["metadata"].get("annotations", {}).get(f"{PREFIX}schedulingPolicyParameters", "") for pod in pods)
    parameters = (entry.partition("=") for text in texts for entry in text.split())
    return next((value for name, _, value in parameters if name == "gangPlacement"), default)


def has_reservation_event(events: Sequence[Json], pods: Sequence[Json], members: int) -> bool:
    """Whether an event on one of the pods reports that this many members were reserved together."""
    names = {pod["metadata"]["name"] for pod in pods}
    text = f"All {members} members are reserved"
    return any(event["message"] == text and event["involvedObject"]["name"] in names for event in events)


async def members_bound(scenario: Scenario, app: str, groups: Mapping[str, int]) -> list[Json]:
    """Wait until exactly these members of each task group are bound, and return them."""

    async def members() -> list[Json]:
        found = [pod for pod in await scenario.bound() if app_of(pod) == app]
        return found if Counter(group_of(pod) for pod in found) == Counter(groups) else []

    return await scenario.eventually(f"the members of {dict(groups)} are bound", members, SLOW_S)


async def bound_of(scenario: Scenario, count: int, total: int) -> list[Json]:
    """Wait until all pods exist, so many are bound, and another one has the reason that its gang does not fit."""

    async def is_settled() -> bool:
        pods = await scenario.pods()
        waiting = [scheduled(pod).get("message", "") for pod in pods if not pod["spec"].get("nodeName")]
        does_not_fit = any("members of task group" in text for text in waiting)
        return does_not_fit and (len(pods), len(waiting)) == (total, total - count)

    await scenario.eventually(f"{count} of {total} pods are bound, and the others wait", is_settled, SLOW_S)
    return await scenario.bound()


async def ends(scenario: Scenario, app: str, group: str) -> None:
    """Let the pods of a task group succeed, where the container's program would end by itself on a real node."""
    for pod in await scenario.pods():
        if app_of(pod) == app and group_of(pod) == group:
            annotations = {"devcluster.muster/run-for": "1s"}
            await scenario.api.patch(
                "pods", pod["metadata"]["name"], {"metadata": {"annotations": annotations}}, scenario.namespace
            )


async def finishes(scenario: Scenario, app: str, pods: int) -> None:
    """Wait until this many pods of the application have succeeded, and no placeholder is left."""

    async def has_finished() -> bool:
        found = [pod for pod in await scenario.pods() if app_of(pod) == app]
        succeeded = [pod for pod in found if pod["status"].get("phase") == "Succeeded"]
        return len(succeeded) == pods and not await scenario.pods(placeholders=True)

    await scenario.eventually(f"{pods} pods of {app} have succeeded", has_finished, SLOW_S)


async def delete_all(scenario: Scenario, manifests: Sequence[Json]) -> None:
    """Delete the objects as ``kubectl delete -f`` does, and wait until they are gone.

    All are deleted first, because some wait for others: a ResourceFlavor for the ClusterQueues that use it.
    """
    paths = {of_manifest(one).path(scenario.namespace, one["metadata"]["name"]): one["kind"] for one in manifests}

    async def is_gone(path: str) -> bool:
        try:
            await scenario.api.request("DELETE", path, {"propagationPolicy": "Background"})
        except ApiError as error:
            return error.status == 404
        return False

    for path in paths:
        await is_gone(path)
    for path, kind in paths.items():
        await scenario.eventually(f"{kind} {path} is gone", partial(is_gone, path), SLOW_S)


async def is_released(scenario: Scenario, app: str) -> None:
    """Wait until nothing of the application is left: no pod, and nothing at all in the core."""

    async def is_gone() -> bool:
        pods = [pod for pod in await scenario.api.find("pods", scenario.namespace) if app_of(pod) == app]
        return not pods and not leftovers(await scenario.muster.dump())

    await scenario.eventually(f"nothing of {app} is left", is_gone, SLOW_S)


def app_of(pod: Json) -> str:
    """The application ID in the pod's labels; empty if it has none."""
    labels = pod["metadata"].get("labels", {})
    names = (f"{PREFIX}app-id", "applicationId", "spark-app-selector")
    return next((str(labels[name]) for name in names if name in labels), "")


def group_of(pod: Json) -> str:
    """The task group of the pod; empty if it has none."""
    return str(pod["metadata"].get("annotations", {}).get(f"{PREFIX}task-group-name", ""))
