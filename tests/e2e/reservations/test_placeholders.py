"""Placeholders as a real API server stores them and its garbage collector deletes them."""

import re
from collections import Counter
from collections.abc import Iterable

import pytest

from devcluster.api import Json
from devcluster.audit import Write
from devcluster.nodes import FakeNode
from tests.e2e.conditions import wait_for_event
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import PLACEHOLDER, PREFIX, Group, a_gang, a_pod, is_bound, with_annotations
from tests.e2e.priority_classes import create_class
from tests.e2e.scenario import Scenario

INTERNAL = "internal.yunikorn.apache.org/"
SIGNATURE = re.compile(r"v1:[0-9a-f]{12}:[\w-]{43}")
LIMIT_RANGER = "kubernetes.io/limit-ranger"
"""Annotation of the LimitRange admission on every pod that it changes."""

STORAGE = {"ephemeral-storage": "64Gi"}


def restricted(pod: Json) -> Json:
    """The same pod with the fields that Pod Security `restricted` requires."""
    pod["spec"]["securityContext"] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    for container in pod["spec"]["containers"]:
        container["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return pod


async def placeholders(scenario: Scenario, count: int, *, bound: int = 0) -> list[Json]:
    """Wait for ``count`` placeholders, of which ``bound`` are bound."""

    async def exist() -> list[Json]:
        found = await scenario.pods(placeholders=True)
        return found if len(found) == count and len(await scenario.bound(placeholders=True)) == bound else []

    return await scenario.eventually(f"{count} placeholders, {bound} bound", exist)


def shape(pod: Json, owner: Json, group: Json) -> None:
    """Every field of a placeholder pod, as the API server stores it."""
    meta, spec, container = pod["metadata"], pod["spec"], pod["spec"]["containers"][0]
    assert meta["name"].startswith("tg-shape-workers-")
    assert meta["labels"] == {"team": "x", f"{PREFIX}app-id": "shape", f"{PREFIX}queue": "root.shapes"}
    annotations = {key: value for key, value in meta["annotations"].items() if key != LIMIT_RANGER}
    signatures = {key for key, value in annotations.items() if SIGNATURE.fullmatch(value)}
    is_bound_too = {f"{INTERNAL}binding-signature"} if is_bound(pod) else set()
    assert signatures == {f"{INTERNAL}placeholder-signature"} | is_bound_too
    assert annotations.pop(f"{INTERNAL}placeholder-ordinal") in {"0", "1", "2"}
    assert {key: value for key, value in annotations.items() if key not in signatures} == {
        "note": "y",
        "sidecar.istio.io/inject": "false",
        "linkerd.io/inject": "disabled",
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
        PLACEHOLDER: "true",
        f"{INTERNAL}placeholder-requests": '{"cpu":"1","memory":"64Mi"}',
        f"{PREFIX}task-group-name": "workers",
        f"{PREFIX}schedulingPolicyParameters": "placeholderTimeoutInSeconds=600 gangPlacement=Reserve",
    }
    reference = {"apiVersion": "v1", "kind": "Pod", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
    assert meta["ownerReferences"] == [{**reference, "controller": True, "blockOwnerDeletion": True}]
    assert (container["name"], container["image"], container["imagePullPolicy"]) == (
        "pause",
        "pause:mine",
        "IfNotPresent",
    )
    size = {"cpu": "1", "memory": "64Mi", "ephemeral-storage": "1Gi"}  # ephemeral storage comes from the LimitRange
    assert container["resources"] == {"requests": size, "limits": {**size, "ephemeral-storage": "2Gi"}}
    assert container["securityContext"] == {
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert spec["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
        "runAsUser": 1000,
        "runAsGroup": 2000,
        "fsGroup": 3000,
    }
    expected = {
        "restartPolicy": "Never",
        "schedulerName": "muster",
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "priorityClassName": "shaped",
        "imagePullSecrets": [{"name": "pull"}],
        "nodeSelector": {"disk": "ssd"},
    }
    assert {field: spec.get(field) for field in expected} == expected
    assert not spec.get("hostNetwork")
    assert [t for t in spec["tolerations"] if t.get("key") == "gpu"] == [{"key": "gpu", "operator": "Exists"}]
    assert "volumes" not in spec


async def test_placeholders_match_the_contract_and_pass_a_restricted_namespace(
    open_scenario: OpenScenario,
) -> None:
    """With a LimitRange that adds requests to every container, and settings for image and IDs."""
    config = {
        "gang.placeholdersFollowMembers": "false",
        "service.placeholderImage": "pause:mine",
        "service.placeholderRunAsUser": "1000",
        "service.placeholderRunAsGroup": "2000",
        "service.placeholderFsGroup": "3000",
    }
    ssd = FakeNode("node-0", cpu="4", labels={"disk": "ssd"}, extra=STORAGE)
    scenario = await open_scenario([ssd], config)
    await scenario.occupy("node-0", "2")
    enforce = {"pod-security.kubernetes.io/enforce": "restricted"}
    await scenario.api.patch("namespaces", scenario.namespace, {"metadata": {"labels": enforce}})
    limits = {
        "type": "Container",
        "default": {"ephemeral-storage": "2Gi"},
        "defaultRequest": {"ephemeral-storage": "1Gi"},
    }
    limit_range = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": [limits]}}
    await scenario.create([limit_range])
    await create_class(scenario.api, "shaped", 7)
    extra: Json = {
        "labels": {"team": "x"},
        "annotations": {"note": "y"},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
    }
    group = Group("workers", 3, extra=extra)
    shaped = a_gang("shape", [group], timeout_s=600, queue="root.shapes", placement="Reserve")
    gang = [restricted(pod) for pod in shaped]
    for pod in gang:
        pod["spec"] |= {"priorityClassName": "shaped", "imagePullSecrets": [{"name": "pull"}]}
    await scenario.create(gang)
    found = await placeholders(scenario, 3, bound=2)
    owner = await scenario.api.get("pods", "shape-workers-0", scenario.namespace)
    for pod in found:
        shape(pod, owner, group.definition())
    await scenario.cluster.add_nodes([FakeNode("node-1", labels={"disk": "ssd"}, extra=STORAGE)])
    await scenario.all_bound(3)
    await scenario.api.delete("priorityclasses", "shaped")


@pytest.mark.parametrize("style", ["Soft", "Hard"])
async def test_a_resource_quota_that_rejects_placeholders_ends_the_gang_without_waiting(
    style: str, open_scenario: OpenScenario
) -> None:
    """Soft: the pod is scheduled as usual. Hard: it fails with the reason. No pod waits indefinitely.

    Each in its own namespace, because the controller may write the usage of deleted pods over that of new ones.
    """
    scenario = await open_scenario([FakeNode("node-0")])
    spec = {"hard": {"pods": "4"}}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec}
    await scenario.create([quota])

    async def is_in_force() -> bool:
        found = await scenario.api.get("resourcequotas", "q", scenario.namespace)
        status: Json = found.get("status", {})
        return dict(status.get("used", {})) == {"pods": "0"}

    await scenario.eventually("the quota is in force", is_in_force)
    await scenario.create(
        a_gang("gang", [Group("workers", 4, real=1)], style=style, timeout_s=600, placement="Reserve")
    )
    if style == "Soft":
        await wait_for_event(scenario, "gang-workers-0", "creating placeholder", "exceeded quota")
        await scenario.all_bound(1)
        return

    async def has_failed() -> bool:
        status: Json = (await scenario.api.get("pods", "gang-workers-0", scenario.namespace))["status"]
        return status.get("reason") == "ApplicationFailed" and "exceeded quota" in status.get("message", "")

    await scenario.eventually("the pod failed with the reason", has_failed)

    async def is_reported() -> bool:
        events = [(event["involvedObject"]["name"], event.get("action")) for event in await scenario.events()]
        return ("gang-workers-0", "PlaceholderCreateFailed") in events

    await scenario.eventually("the event is on the pod", is_reported)


async def test_placeholders_of_a_stopped_muster_are_collected_and_orphans_are_deleted(
    open_scenario: OpenScenario,
) -> None:
    """The garbage collector deletes placeholders with their originator. A finished originator leaves orphans."""
    scenario = await open_scenario([FakeNode("node-0", cpu="2500m")])
    await scenario.create(a_gang("swept", [Group("workers", 2, real=1)], timeout_s=600, placement="Reserve"))

    async def is_running() -> bool:
        return "swept-workers-0" in {pod["metadata"]["name"] for pod in await scenario.bound()}

    await scenario.eventually("the first gang runs", is_running)
    await scenario.create(a_gang("ended", [Group("workers", 2, real=1)], timeout_s=600, placement="Reserve"))
    await scenario.eventually("both gangs have placeholders", lambda: _names(scenario, {"swept": 1, "ended": 2}))
    await scenario.muster.operator.kill()
    await scenario.muster.stop()
    finished = await scenario.api.get("pods", "ended-workers-0", scenario.namespace)
    user_pod = with_annotations(a_pod("mine", cpu="100m"), {PLACEHOLDER: "true"})
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "ended-workers-0", "uid": finished["metadata"]["uid"]}
    user_pod["metadata"]["ownerReferences"] = [reference]
    await scenario.create([user_pod])
    await scenario.api.delete("pods", "swept-workers-0", scenario.namespace, grace_s=0)
    await scenario.eventually(
        "the garbage collector has deleted the placeholders", lambda: _names(scenario, {"swept": 0, "ended": 2})
    )
    done = {"status": {"phase": "Succeeded"}}
    await scenario.api.patch("pods", "ended-workers-0", done, scenario.namespace, subresource="status")
    await scenario.muster.start()
    await scenario.eventually("no orphan is left", lambda: _names(scenario, {"swept": 0, "ended": 0}))

    async def is_reported() -> bool:
        events = await scenario.events()
        return any(one["involvedObject"]["name"] == "mine" and one["reason"] == "TaskRejected" for one in events)

    await scenario.eventually("the user's own pod is reported", is_reported)
    user_pod = await scenario.api.get("pods", "mine", scenario.namespace)
    assert not is_bound(user_pod)
    assert "deletionTimestamp" not in user_pod["metadata"]
    await scenario.api.delete("pods", "mine", scenario.namespace, grace_s=0)


async def _names(scenario: Scenario, expected: dict[str, int]) -> bool:
    """Whether each application has the expected number of placeholders."""
    names = [pod["metadata"]["name"] for pod in await scenario.api.find("pods", scenario.namespace)]
    return all(sum(name.startswith(f"tg-{app}-") for name in names) == count for app, count in expected.items())


@pytest.mark.parametrize("cpu, of_kubelet", [("4", 0), ("2", 4)], ids=["room for both", "full"])
async def test_the_kubelet_deletes_no_placeholder_whose_node_has_room_for_its_member(
    cpu: str, of_kubelet: int, open_scenario: OpenScenario
) -> None:
    """The operator's delete removes the object there. Elsewhere the kubelet does, after the container has ended."""
    scenario = await open_scenario([FakeNode("node-0", cpu=cpu)])
    await scenario.create(a_gang("gang", [Group("workers", 4, cpu="500m")], placement="Reserve"))
    await scenario.all_bound(4)

    async def are_logged() -> bool:
        own, others = _deleted(scenario, scenario.writes(of_operator=True)), _deleted(scenario, scenario.writes())
        return len(own) == 4 and len(others - own) >= of_kubelet

    await scenario.eventually("the deletes of all placeholders are in the audit log", are_logged)
    assert max(_deleted(scenario, scenario.writes(of_operator=True)).values()) <= 2  # repeated after five seconds
    by_others = _deleted(scenario, scenario.writes()) - _deleted(scenario, scenario.writes(of_operator=True))
    assert len(by_others) == of_kubelet


def _deleted(scenario: Scenario, writes: Iterable[Write]) -> Counter[str]:
    """How often each pod of the scenario was deleted. The operator repeats a delete that was not seen in time."""
    found = (write for write in writes if write.what == "delete pods" and write.succeeded)
    return Counter(write.name for write in found if write.namespace == scenario.namespace)
