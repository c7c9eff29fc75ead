"""Host ports, images, declared features and preferences, decoded as in kube-scheduler 1.37."""

from __future__ import annotations

import json
from typing import Any

import pytest

from muster_operator.model.pods import Pod
from muster_operator.model.settings import Settings
from muster_operator.translate.pods import read_pod
from muster_si import keys
from tests.unit.operator.controller.objects import Raw, a_pod


def tag(name: str, **spec: Any) -> Any:
    pod = read_pod(a_pod(**spec), Settings())
    assert isinstance(pod, Pod)
    assert pod.membership.refusal == ""
    return json.loads(pod.tags.get(name, "null"))


def ports(*written: Raw, **container: Any) -> Any:
    return tag(keys.CONTAINER_PORTS, containers=[{"name": "main", "ports": list(written), **container}])


@pytest.mark.parametrize(
    "written, expected",
    [
        ({"hostPort": 80}, [["0.0.0.0", "TCP", 80]]),  # noqa: S104 - what Kubernetes calls every address
        ({"hostPort": 53, "hostIP": "10.0.0.1", "protocol": "UDP"}, [["10.0.0.1", "UDP", 53]]),
        ({"hostPort": 80, "hostIP": "::"}, [["::", "TCP", 80]]),
        ({"containerPort": 80}, None),
        ({"containerPort": 80, "hostPort": 0}, None),
    ],
)
def test_only_host_ports_count_and_a_missing_address_means_all_addresses(written: Raw, expected: Any) -> None:
    assert ports(written) == expected


def test_ports_of_all_containers_are_reported_once_and_in_order() -> None:
    container = {"name": "main", "ports": [{"hostPort": 90}, {"hostPort": 80}]}
    found = tag(keys.CONTAINER_PORTS, containers=[container, {"name": "second", "ports": [{"hostPort": 80}]}])
    assert [port for _, _, port in found] == [80, 90]


@pytest.mark.parametrize("policy, counts", [("Always", True), (None, False), ("OnFailure", False)])
def test_only_restartable_init_containers_keep_their_ports(policy: Any, *, counts: bool) -> None:
    container = {"name": "init", "ports": [{"hostPort": 80}], "restartPolicy": policy}
    assert (tag(keys.CONTAINER_PORTS, initContainers=[container]) is not None) is counts


@pytest.mark.parametrize(
    "written, expected",
    [
        ("app", "app:latest"),
        ("app:1.2", "app:1.2"),
        ("registry:5000/app", "registry:5000/app:latest"),
        ("registry:5000/app:1", "registry:5000/app:1"),
        ("app@sha256:0f", "app@sha256:0f"),
    ],
)
def test_image_names_are_normalized_as_nodes_report_them(written: str, expected: str) -> None:
    assert tag(keys.TAG_PREFERENCES, containers=[{"name": "main", "image": written}]) == {"images": [expected]}


def test_images_are_reported_once_per_container_and_volume_images_separately() -> None:
    found = tag(
        keys.TAG_PREFERENCES,
        containers=[{"name": "a", "image": "b"}, {"name": "b", "image": "a:1"}],
        initContainers=[{"name": "c", "image": "b"}],
        volumes=[{"name": "v", "image": {"reference": "data"}}, {"name": "w", "emptyDir": {}}],
    )
    assert found == {"images": ["a:1", "b:latest", "b:latest"], "volumeImages": ["data:latest"]}


def test_preferred_node_affinity_is_reported_with_its_weights() -> None:
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    written = [{"weight": 80, "preference": term}, {"weight": 1, "preference": {}}, {"weight": 0, "preference": term}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": written}}
    assert tag(keys.TAG_PREFERENCES, affinity=affinity) == {"nodeAffinity": written[:2]}


RULE = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
RESTART_ALL = "RestartAllContainersOnContainerExits"


@pytest.mark.parametrize(
    "spec, features",
    [
        ({"containers": [{"name": "main", "restartPolicyRules": [RULE]}]}, [RESTART_ALL]),
        ({"initContainers": [{"name": "init", "restartPolicyRules": [RULE]}]}, [RESTART_ALL]),
        ({"containers": [{"name": "main", "restartPolicyRules": [{**RULE, "action": "Restart"}]}]}, None),
        ({"hostNetwork": True, "hostUsers": False}, ["UserNamespacesHostNetworkSupport"]),
        ({"hostNetwork": True, "hostUsers": True}, None),
        ({"hostNetwork": True}, None),
        ({"hostUsers": False}, None),
        ({"containers": [{"volumeMounts": [{"bindMountOptions": ["noexec"]}]}]}, ["VolumeBindMountOptions"]),
        ({"initContainers": [{"volumeMounts": [{}, {"bindMountOptions": ["nodev"]}]}]}, ["VolumeBindMountOptions"]),
        ({"ephemeralContainers": [{"volumeMounts": [{"bindMountOptions": ["nodev"]}]}]}, ["VolumeBindMountOptions"]),
        ({"containers": [{"volumeMounts": [{"bindMountOptions": []}, {"mountPath": "/v"}]}]}, None),
    ],
)
def test_required_features_are_inferred_as_in_kube_scheduler(spec: Raw, features: Any) -> None:
    assert (tag(keys.TAG_CONSTRAINTS, **spec) or {}).get("features") == features
