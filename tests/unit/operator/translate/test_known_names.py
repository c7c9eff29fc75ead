"""Labels and annotations that nothing reads are reported with what to write instead."""

import pytest

from muster_operator.translate.known_names import (
    NAMESPACE_ANNOTATIONS,
    POD_ANNOTATIONS,
    namespace_problems,
    pod_problems,
)
from muster_operator.translate.nodes import read_namespace

Y = "yunikorn.apache.org/"


@pytest.mark.parametrize(
    "annotation, advice",
    [
        ("taskGroups", f"did you mean {Y}task-groups?"),
        ("taskGroup", f"did you mean {Y}task-group-name?"),
        ("taskGroupName", f"did you mean {Y}task-group-name?"),
        ("allowPreemption", f"did you mean {Y}allow-preemption?"),
        ("gangSchedulingStyle", f"write gangSchedulingStyle=... into annotation {Y}schedulingPolicyParameters"),
        ("namespace.quota", f"{Y}namespace.quota is an annotation of namespaces"),
        (
            "colour",
            (
                "names with this prefix: allow-preemption, app-id, gang-size, queue, schedulingPolicyParameters, "
                "task-group-name, task-groups, user.info"
            ),
        ),
    ],
)
def test_an_unknown_annotation_of_a_pod_is_named_with_its_remedy(annotation: str, advice: str) -> None:
    found = pod_problems({"annotations": {f"{Y}{annotation}": "x"}, "labels": {f"{Y}app-id": "a"}})
    assert found == (f"annotation {Y}{annotation} has no effect; {advice}",)


@pytest.mark.parametrize("name", ["task-groups", "task-group-name", "schedulingPolicyParameters", "gang-size"])
@pytest.mark.parametrize("place", ["label", "annotation"])
def test_the_name_of_a_gang_without_its_domain_is_named(place: str, name: str) -> None:
    found = pod_problems({f"{place}s": {name: "x"}})
    assert found == (f"{place} {name} has no effect; did you mean annotation {Y}{name}?",)


def test_empty_task_groups_are_named() -> None:
    [found] = pod_problems({"annotations": {f"{Y}task-groups": "", f"{Y}task-group-name": "g"}})
    assert found.startswith(f"annotation {Y}task-groups has no effect; it is empty; write a JSON array")


@pytest.mark.parametrize("present, meant", [("task-group-name", "task-groups"), ("task-groups", "task-group-name")])
def test_a_name_that_the_pod_has_already_is_not_suggested(present: str, meant: str) -> None:
    [found] = pod_problems({"annotations": {f"{Y}{present}": "x", f"{Y}task-group": "x"}})
    assert found == f"annotation {Y}task-group has no effect; did you mean {Y}{meant}?"


@pytest.mark.parametrize(
    "value, is_named", [("no", True), ("True", True), ("true", False), ("false", False), ("", False)]
)
def test_a_value_of_allow_preemption_that_is_no_boolean_is_named(value: str, is_named: bool) -> None:  # noqa: FBT001
    advice = f'annotation {Y}allow-preemption: "{value}" has no effect; write "true" or "false"'
    assert pod_problems({"annotations": {f"{Y}allow-preemption": value}}) == ((advice,) if is_named else ())


@pytest.mark.parametrize(
    "label, advice",
    [
        (f"{Y}application-id", f"did you mean {Y}app-id?"),
        (f"{Y}allow-preemption", "write it as an annotation"),
        ("muster.apache.org/queue", f"did you mean {Y}queue?"),
        ("applicaionId", "did you mean applicationId?"),
        ("application-id", "did you mean applicationId?"),
    ],
)
def test_an_unknown_label_of_a_pod_is_named_with_its_remedy(label: str, advice: str) -> None:
    assert pod_problems({"labels": {label: "x"}}) == (f"label {label} has no effect; {advice}",)


def test_known_names_and_names_of_others_are_not_reported() -> None:
    others = {"app": "x", "applicationid": "x", "example.com/queue": "q", "devcluster.muster/run-for": "1s"}
    mine = dict.fromkeys(sorted(POD_ANNOTATIONS), "true")
    legacy = {f"{Y}username": "ann", "internal.yunikorn.apache.org/placeholder": "true"}
    assert pod_problems({"labels": {f"{Y}app-id": "a", **others}, "annotations": {**mine, **legacy}}) == ()
    assert (
        namespace_problems({"labels": others, "annotations": dict.fromkeys(sorted(NAMESPACE_ANNOTATIONS), "x")}) == ()
    )


def test_misspelt_names_and_resources_of_a_namespace_are_named_and_its_quota_applies() -> None:
    metadata = {
        "name": "team",
        "labels": {f"{Y}namespace.quota": "4"},
        "annotations": {
            f"{Y}namespace.qouta": "{}",
            f"{Y}namespace.quota": '{"cpu": "4", "Memory": "8Gi", "requests.nvidia.com/gpu": "1"}',
        },
    }
    namespace = read_namespace({"metadata": metadata})
    assert namespace is not None
    assert (namespace.problems, "namespace.resourcequota" in namespace.tags) == ((), True)
    limits_nothing = "limits nothing, because no pod requests a resource of this name; did you mean"
    assert namespace.misspelt == (
        f"label {Y}namespace.quota has no effect; write it as an annotation",
        f"annotation {Y}namespace.qouta has no effect; did you mean {Y}namespace.quota?",
        f"{Y}namespace.quota: Memory {limits_nothing} memory?",
        f"{Y}namespace.quota: requests.nvidia.com/gpu {limits_nothing} nvidia.com/gpu?",
    )


def test_of_very_many_names_32_are_compared_and_three_are_reported() -> None:
    foreign = {f"muster.example.com/name-{number}": "x" for number in range(40)}
    assert pod_problems({"annotations": foreign | {"muster.example.com/queue": "x"}}) == ()
    assert len(pod_problems({"annotations": {"muster.example.com/queue": "x"} | foreign})) == 1
    assert len(pod_problems({"annotations": {f"{Y}taskGroups-{number}": "x" for number in range(5_000)}})) == 3
