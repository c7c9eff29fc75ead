"""Nodes, namespaces and priority classes as the scheduler reads them."""

import json
from typing import Any

import pytest

from muster_operator.model.ids import MAX_AMOUNT
from muster_operator.model.settings import Settings
from muster_operator.translate.nodes import read_namespace, read_node, read_priority_class
from muster_operator.translate.pods import kubelet_refusal
from muster_si import keys
from tests.unit.operator.controller.objects import Raw, a_namespace, a_node

SETTINGS = Settings()


def test_the_capacity_of_a_node_is_its_allocatable() -> None:
    node = read_node(a_node(), SETTINGS)
    assert node is not None
    assert dict(node.capacity) == {"vcore": 8000, "memory": 32 * 2**30, "pods": 110}


def test_labels_taints_and_well_known_properties_are_node_attributes() -> None:
    labels = {"topology.kubernetes.io/zone": "z", "node.kubernetes.io/instance-type": "big", "gpu": "yes"}
    taints = [{"key": "gpu", "value": "1", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}]
    node = read_node(a_node(labels=labels, taints=taints), SETTINGS)
    assert node is not None
    assert node.attributes[keys.NODE_LABEL_PREFIX + "gpu"] == "yes"
    assert node.attributes[keys.FAILURE_DOMAIN_ZONE] == "z"
    assert node.attributes[keys.INSTANCE_TYPE] == "big"
    assert node.attributes[keys.NODE_READY] == "true"
    assert json.loads(node.attributes[keys.NODE_TAINTS]) == [{"key": "gpu", "value": "1", "effect": "NoSchedule"}]


def test_a_cordoned_node_is_unschedulable_and_has_the_unschedulable_attribute() -> None:
    cases: list[tuple[Raw, bool]] = [({"unschedulable": True}, True), ({"unschedulable": False}, False), ({}, False)]
    for spec, is_cordoned in cases:
        node = read_node({**a_node(), "spec": spec}, SETTINGS)
        assert node is not None
        assert node.schedulable is not is_cordoned
        assert node.attributes.get(keys.NODE_UNSCHEDULABLE) == ("true" if is_cordoned else None)


def attribute(key: str, **status: object) -> object:
    raw = a_node()
    raw["status"] |= status
    node = read_node(raw, SETTINGS)
    assert node is not None
    return json.loads(node.attributes.get(key, "null"))


def test_features_that_a_kubelet_declares_are_an_attribute() -> None:
    assert attribute(keys.NODE_FEATURES, declaredFeatures=["B", "A"]) == ["A", "B"]
    assert attribute(keys.NODE_FEATURES, declaredFeatures=[]) is None


def test_every_image_name_is_reported_with_its_size() -> None:
    images = [{"names": ["app@sha256:0", "app:1"], "sizeBytes": 7}, {"sizeBytes": 9}, {"names": None, "sizeBytes": 9}]
    assert attribute(keys.LOCAL_IMAGES, images=images) == {"app:1": 7, "app@sha256:0": 7}
    assert attribute(keys.LOCAL_IMAGES) is None


def test_only_the_largest_images_are_reported_if_there_are_too_many() -> None:
    """The core accepts 262,144 characters; a kubelet can be configured to report any number of images."""
    images = [
        {"names": [f"registry.example.com/{number:04}" + "x" * 100], "sizeBytes": number} for number in range(4999)
    ]
    images_tag = attribute(keys.LOCAL_IMAGES, images=images)
    assert isinstance(images_tag, dict)
    assert 1600 < len(images_tag) < 2000
    assert min(images_tag.values()) == 4999 - len(images_tag)
    assert len(json.dumps(images_tag)) < 262_144


def test_invalid_allocatable_amounts_are_clipped() -> None:
    raw = a_node()
    raw["status"]["allocatable"] = {"cpu": "x", "memory": "9e18", "gpu": "-1", "big": "1e30"}
    node = read_node(raw, SETTINGS)
    assert node is not None
    assert dict(node.capacity) == {"vcore": 0, "memory": 9 * 10**18, "gpu": 0, "big": 0}
    assert max(node.capacity.values()) <= MAX_AMOUNT


def test_node_resources_with_empty_or_too_long_names_are_skipped() -> None:
    """One of 317 characters is legal in Kubernetes; for it the core would refuse the node with all that is on it."""
    raw = a_node()
    raw["status"]["allocatable"] = {"example.com/fpga": "3", "hugepages-2Mi": "1Gi", "x" * 257: "1", "": "1"}
    node = read_node(raw, SETTINGS)
    assert node is not None
    assert dict(node.capacity) == {"example.com/fpga": 3, "hugepages-2Mi": 2**30}


def test_labels_do_not_override_attributes_of_the_same_name() -> None:
    labels = {"ready": "false", keys.NODE_TAINTS: "[]", "si.io/hostname": "other", "empty": ""}
    node = read_node(a_node("n1", labels=labels), SETTINGS)
    assert node is not None
    assert node.attributes[keys.NODE_READY] == "true"
    assert node.attributes[keys.HOST_NAME] == "n1"
    assert keys.NODE_TAINTS not in node.attributes
    assert {label: node.attributes[keys.NODE_LABEL_PREFIX + label] for label in labels} == labels


def test_objects_without_a_name_are_ignored() -> None:
    assert read_node({}, SETTINGS) is None
    assert read_namespace({}) is None
    assert read_priority_class({}) is None


def tags(raw: Raw) -> dict[str, str]:
    namespace = read_namespace(raw)
    assert namespace is not None
    assert namespace.problems == ()
    return dict(namespace.tags)


def test_a_namespace_quota_is_converted_to_scheduler_units() -> None:
    found = tags(a_namespace(namespace_quota='{"cpu": "2", "memory": "1Gi"}', parentqueue="root.team"))
    assert found["namespace.parentqueue"] == "root.team"
    assert json.loads(found["namespace.resourcequota"]) == {
        "resources": {"vcore": {"value": 2000}, "memory": {"value": 2**30}}
    }


def test_the_deprecated_quota_annotations_count_only_without_the_new_one() -> None:
    old = {"namespace_max_cpu": "1", "namespace_max_memory": "1k"}
    assert json.loads(tags(a_namespace(**old))["namespace.resourcequota"])["resources"] == {
        "vcore": {"value": 1000},
        "memory": {"value": 1000},
    }
    both = tags(a_namespace(namespace_quota='{"cpu": "5"}', **old))
    assert json.loads(both["namespace.resourcequota"])["resources"] == {"vcore": {"value": 5000}}


@pytest.mark.parametrize(
    "pair", [{"namespace_max_cpu": "1", "namespace_max_memory": "-1"}, {"namespace_max_memory": "much"}]
)
def test_one_invalid_deprecated_quota_annotation_disables_both_and_is_reported(pair: dict[str, str]) -> None:
    namespace = read_namespace(a_namespace(**pair))
    assert namespace is not None
    assert "namespace.resourcequota" not in namespace.tags
    assert namespace.problems[0].startswith("yunikorn.apache.org/namespace.max.memory")


def test_an_invalid_quota_is_ignored_without_fallback_and_other_annotations_still_apply() -> None:
    raw = a_namespace(namespace_quota="{", namespace_max_cpu="1", namespace_guaranteed='{"cpu": "1"}', parentqueue="p")
    namespace = read_namespace(raw)
    assert namespace is not None
    assert set(namespace.tags) == {"namespace", "namespace.resourceguaranteed", "namespace.parentqueue"}


@pytest.mark.parametrize("count", ["-1", "1.5", "many", " 4", "9" * 19])
def test_an_invalid_max_apps_value_is_ignored_and_reported(count: str) -> None:
    raw = a_namespace()
    raw["metadata"]["annotations"]["yunikorn.apache.org/namespace.maxApps"] = count
    namespace = read_namespace(raw)
    assert namespace is not None
    assert (set(namespace.tags), "namespace.maxApps" in namespace.problems[0]) == ({"namespace"}, True)


def test_guaranteed_and_max_apps_are_read() -> None:
    raw = a_namespace(namespace_guaranteed='{"cpu": "1"}')
    raw["metadata"]["annotations"]["yunikorn.apache.org/namespace.maxApps"] = "4"
    assert tags(raw)["namespace.resourcemaxapps"] == "4"
    assert "namespace.resourceguaranteed" in tags(raw)


@pytest.mark.parametrize(
    "quota",
    [
        "{",
        "[]",
        '{"cpu": "x"}',
        '{"cpu": "1", "memory": "-1"}',
        '{"cpu": true}',
        '{"cpu": 64}',
        '{"cpu": null}',
        '{"cpu": "1", "vcore": "1"}',
    ],
)
def test_one_invalid_value_disables_the_quota_and_is_reported(quota: str) -> None:
    namespace = read_namespace(a_namespace(namespace_quota=quota))
    assert namespace is not None
    assert "namespace.resourcequota" not in namespace.tags
    assert "namespace.quota" in namespace.problems[0]


@pytest.mark.parametrize("value, allowed", [("false", False), ("true", True), ("no", True), (None, True)])
def test_a_priority_class_opts_out_of_preemption_only_with_false(value: str | None, allowed: bool) -> None:  # noqa: FBT001
    annotations = {"yunikorn.apache.org/allow-preemption": value} if value else {}
    found = read_priority_class({"metadata": {"name": "high", "annotations": annotations}})
    assert found is not None
    assert found.allow_preemption is allowed


# -- Which failed pods were rejected by their kubelet: those that it did not start, with one of its reasons.

STARTED = {"name": "main", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
ENDED = {"name": "main", "state": {"terminated": {"exitCode": 137}}}
RESTARTED = {"name": "main", "state": {"waiting": {"reason": "x"}}, "lastState": {"terminated": {"exitCode": 1}}}
WAITS = {"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}


@pytest.mark.parametrize(
    "reason",
    [
        "OutOfcpu",
        "OutOfmemory",
        "OutOfpods",
        "OutOfephemeral-storage",
        "OutOfnvidia.com/gpu",
        "UnexpectedAdmissionError",
        "NodeAffinity",
        "TopologyAffinityError",
        "Evicted",
        "NodeShutdown",
    ],
)
def test_a_pod_that_failed_before_it_started_for_a_kubelet_reason_was_rejected(reason: str) -> None:
    assert kubelet_refusal({"phase": "Failed", "reason": reason, "message": "Pod was rejected"}) == reason
    assert kubelet_refusal({"phase": "Failed", "reason": reason, "containerStatuses": [WAITS]}) == reason


@pytest.mark.parametrize("status", [STARTED, ENDED, RESTARTED])
@pytest.mark.parametrize("field", ["containerStatuses", "initContainerStatuses"])
def test_a_pod_that_ran_was_not_rejected(field: str, status: dict[str, Any]) -> None:
    assert kubelet_refusal({"phase": "Failed", "reason": "Evicted", field: [status]}) == ""


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Failed", "reason": "DeadlineExceeded"},
        {"phase": "Failed", "reason": "ResourceReservationTimeout"},
        {"phase": "Failed"},
        {"phase": "Pending", "reason": "OutOfcpu"},
        {"phase": "Succeeded", "reason": "OutOfcpu"},
        {"phase": "Failed", "reason": ["OutOfcpu"], "containerStatuses": "odd"},
        {},
    ],
)
def test_other_pod_statuses_are_not_kubelet_rejections(status: dict[str, Any]) -> None:
    assert kubelet_refusal(status) == ""
