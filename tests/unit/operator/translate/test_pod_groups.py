"""PodGroups as Kubernetes serves them, and the gangs that they stand for."""

from typing import Any

import pytest

from muster_operator.model.cluster_events import PodGroupGone, PodGroupSeen
from muster_operator.model.pod_groups import GroupCondition, PodGroup
from muster_operator.model.pods import GangDefinition, Placement, PodGroupSource, Topology
from muster_operator.model.settings import Settings
from muster_operator.translate.gangs.dialects import read_gang
from muster_operator.translate.objects import read_deletion, read_object

Raw = dict[str, Any]
SETTINGS = Settings()


def a_group(spec: Raw | None = None, status: Raw | None = None, **metadata: Any) -> Raw:
    """Return a PodGroup `train` that needs three pods."""
    return {
        "metadata": {"namespace": "dev", "name": "train", "uid": "u1", "generation": 4, **metadata},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}, **(spec or {})},
        "status": status or {},
    }


def packed(*keys: str) -> Raw:
    return {"schedulingConstraints": {"topology": [{"key": key} for key in keys]}}


def read(raw: Raw) -> PodGroup:
    seen = read_object("podgroups", raw, SETTINGS)
    assert isinstance(seen, PodGroupSeen)
    return seen.group


def condition(kind: str, status: str, reason: str) -> Raw:
    return {
        "conditions": [
            {"type": "DisruptionTarget", "status": "True"},
            {"type": kind, "status": status, "reason": reason},
        ]
    }


@pytest.mark.parametrize(
    "raw, expected",
    [
        (a_group(), {}),
        (a_group({"schedulingPolicy": {"basic": {}}}), {"min_count": 0}),
        (a_group({"priority": 0}), {"priority": 0}),
        (a_group({"priority": 7, "preemptionPolicy": "Never"}), {"priority": 7, "preemption_policy": "Never"}),
        (a_group({"disruptionMode": {"single": {}}, "workloadRef": {"workloadName": "w", "templateName": "t"}}), {}),
        (a_group({"disruptionMode": "Pod"}), {}),
        (a_group(labels={"queue": "root.a", "applicationId": "job"}), {"queue": "root.a", "app": "job"}),
        (
            a_group(annotations={"yunikorn.apache.org/user.info": '{"user":"ann","groups":["ml"]}'}),
            {},
        ),
        (
            a_group(status=condition("PodGroupInitiallyScheduled", "True", "Scheduled")),
            {"condition": GroupCondition(is_scheduled=True, reason="Scheduled")},
        ),
        (
            a_group(status=condition("PodGroupScheduled", "False", "Unschedulable")),
            {"condition": GroupCondition(is_scheduled=False, reason="Unschedulable")},
        ),
    ],
)
def test_a_group_is_read_with_the_keys_that_pods_have(raw: Raw, expected: dict[str, Any]) -> None:
    fields: dict[str, Any] = {"min_count": 3, **expected}
    assert read(raw) == PodGroup("dev", "train", "u1", 4, **fields)


@pytest.mark.parametrize(
    "raw, problem",
    [
        (a_group({"schedulingPolicy": {"other": {}}}), "spec.schedulingPolicy is neither gang nor basic"),
        (a_group({"schedulingPolicy": {"gang": {}}}), "minCount is 0, less than 1"),
        (a_group({"schedulingPolicy": {"gang": {"minCount": -1}}}), "minCount is -1, less than 1"),
        (a_group({"schedulingPolicy": {"gang": {"minCount": 2**31}}}), "minCount is 2147483648, more than 10000"),
        (a_group({"schedulingPolicy": {"gang": {"minCount": "3"}}}), "minCount is 0, less than 1"),
        (a_group(packed("rack", "host")), "schedulingConstraints has more than one topology key"),
        (a_group(packed("")), "schedulingConstraints has more than one topology key"),
        (a_group({"schedulingConstraints": {"other": {}}}), "schedulingConstraints has more than one topology key"),
        (a_group({"schedulingPolicy": {"basic": {}}, **packed("rack")}), "schedulingConstraints is not supported yet"),
        (a_group({"resourceClaims": [{"name": "gpu"}]}), "resourceClaims is not supported"),
        (a_group({"parentCompositePodGroupName": "job"}), "parentCompositePodGroupName is not supported"),
        (a_group({"disruptionMode": {"all": {}}}), "disruptionMode.all is not supported"),
        (a_group({"disruptionMode": "PodGroup"}), "disruptionMode.all is not supported"),
        (a_group(annotations={"yunikorn.apache.org/app-id": "x" * 64}), "app-id has more than 63 characters"),
        (a_group(annotations={"yunikorn.apache.org/queue": "q" * 1025}), "queue has more than 1024 bytes"),
    ],
)
def test_what_muster_cannot_follow_names_the_field(raw: Raw, problem: str) -> None:
    found = read(raw).problem
    assert found.startswith('PodGroup "train": ')
    assert problem in found


@pytest.mark.parametrize("field", ["spec", "status", "metadata"])
@pytest.mark.parametrize("value", [None, [], "x", 7])
def test_any_other_form_of_a_group_is_read_or_ignored(field: str, value: object) -> None:
    assert read_object("podgroups", {**a_group(), field: value}, SETTINGS) is None or field != "metadata"


def test_a_deleted_group_is_named_with_its_namespace() -> None:
    assert read_deletion("podgroups", "dev/train") == PodGroupGone("dev/train")


def test_all_members_of_a_group_must_be_in_one_domain_of_its_topology() -> None:
    group = read(a_group(packed("rack")))
    assert (group.topology, group.problem) == ("rack", "")
    found = read_gang(PodGroupSource(name="train", min_count=3, topology=group.topology))
    assert isinstance(found, GangDefinition)
    assert found.topology == Topology(("rack",), required=True)


def test_the_gang_of_a_group_never_ends_before_it_is_scheduled() -> None:
    found = read_gang(PodGroupSource(name="train", min_count=3), Placement.RESERVE)
    assert isinstance(found, GangDefinition)
    assert [(group.name, group.min_member) for group in found.groups] == [("train", 3)]
    assert found.placement is Placement.DIRECT
    assert (found.style, found.wait_timeout_ms) == ("Hard", 10**12)


def test_a_group_stays_a_gang_if_its_members_do_not_fit_64_bits() -> None:
    found = read_gang(PodGroupSource(name="train", min_count=10_000), Placement.AUTO, {"memory": 2**62})
    assert isinstance(found, GangDefinition)
    assert found.size == 10_000


@pytest.mark.parametrize(
    "spec, size, problem",
    [
        ({"minMember": 3}, 3, ""),
        ({"minMember": 3, "scheduleTimeoutSeconds": 10, "minResources": {"cpu": "9"}}, 3, ""),
        ({}, 0, ""),
        ({"minMember": -1}, -1, "spec.minMember is -1, less than 0"),
        ({"minMember": 2**31}, 2**31, "spec.minMember is 2147483648, more than 10000"),
        ({"minMember": "3"}, 0, ""),
    ],
)
def test_pod_groups_of_scheduler_plugins_are_named_by_their_label(spec: Raw, size: int, problem: str) -> None:
    key = "dev/scheduling.x-k8s.io/pod-group=train"
    raw = {"metadata": {"namespace": "dev", "name": "train", "uid": "u1", "labels": {"queue": "root.a"}}, "spec": spec}
    seen = read_object("podgroups.scheduling.x-k8s.io", raw, SETTINGS)
    assert isinstance(seen, PodGroupSeen)
    assert (seen.group.key, seen.group.min_count, seen.group.queue) == (key, size, "root.a")
    assert problem in seen.group.problem
    assert bool(problem) is bool(seen.group.problem)
    assert read_deletion("podgroups.scheduling.x-k8s.io", "dev/train") == PodGroupGone(key)
