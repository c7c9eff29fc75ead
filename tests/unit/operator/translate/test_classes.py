"""A pod that is decoded by its class equals the completely decoded pod, for any content."""

import ast
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import structs

from muster_operator.kube.watch import decoded_object, decoded_pod, decoded_pod_event, whole
from muster_operator.model.pods import ForeignPod, Pod
from muster_operator.model.settings import Settings
from muster_operator.translate import constraints, pod_classes, pods
from muster_operator.translate.pod_classes import PartialPod, PodClasses
from muster_operator.translate.pods import read_pod
from muster_si import keys
from tests.unit.operator.controller.objects import TASK_GROUP_NAME, Raw, a_container, a_group, a_pod, gang_annotations
from tests.unit.operator.translate.test_limits import a_rich_pod, broken

SETTINGS = Settings()
TABLE = json.loads((Path(__file__).parent / "pods_of_kube_scheduler.json").read_text())


def by_class(known: PodClasses, raw: Raw, settings: Settings = SETTINGS) -> Pod | ForeignPod | None:
    """As the operator reads it: by its class where that is possible, else whole."""
    found = decoded_pod(orjson.dumps(raw))
    pod = known.read(found, settings) if isinstance(found, PartialPod) else None
    if isinstance(pod, Pod):
        assert pod.common.items() <= pod.tags.items()
        return structs.replace(pod, common={})  # contains no more than the tags
    return pod or read_pod(whole(found) if isinstance(found, PartialPod) else found, settings)


def is_of_a_class(known: PodClasses, raw: Raw, settings: Settings = SETTINGS) -> bool:
    found = decoded_pod(orjson.dumps(raw))
    return isinstance(found, PartialPod) and known.read(found, settings) is not None


@st.composite
def partial(draw: st.DrawFn) -> Raw:
    """A pod with some of the fields that are read."""
    pod = a_rich_pod()
    for part in ("metadata", "spec", "status"):
        for field in draw(st.sets(st.sampled_from(sorted(pod[part])))):
            if (part, field) not in {("metadata", "name"), ("metadata", "uid")}:
                del pod[part][field]
    if draw(st.booleans()):
        pod["spec"]["schedulerName"] = draw(st.sampled_from(["muster", "default-scheduler"]))
    return pod


@given(partial() | broken(a_rich_pod()))
def test_every_member_of_a_class_is_read_as_if_it_was_alone(raw: Any) -> None:
    try:
        text = orjson.dumps(raw)
    except TypeError:
        assume(False)
    assume(isinstance(raw, dict) and isinstance(raw.get("metadata"), dict))
    known, other = PodClasses(), orjson.loads(text)
    other["metadata"] |= {"name": "other", "uid": "uid-other", "creationTimestamp": "2026-02-02T00:00:00Z"}
    other["metadata"]["labels"] = {**_labels(other), "index": "7"}
    for one in (raw, other, raw):
        assert by_class(known, one) == read_pod(decoded_object(orjson.dumps(one)), SETTINGS)


def _labels(raw: Raw) -> Raw:
    labels = raw["metadata"].get("labels")
    return labels if isinstance(labels, dict) else {}


@pytest.mark.parametrize("number", range(0, len(TABLE), 7))
def test_resizes_and_sidecars_are_counted_the_same_with_and_without_classes(number: int) -> None:
    made, known = TABLE[number], PodClasses()
    pod = a_pod() | {"spec": {"schedulerName": "muster", **made["spec"]}, "status": made["status"]}
    assert by_class(known, pod) == read_pod(pod, SETTINGS)


def running(pod: Raw) -> None:
    pod["spec"]["nodeName"] = "n1"
    since = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:07Z"}
    pod["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}, since]}


def terminating(pod: Raw) -> None:
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


def preempted(pod: Raw) -> None:
    terminating(pod)
    target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}, target]


def waiting(pod: Raw) -> None:
    pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "R", "message": "why"}]


def nominated(pod: Raw) -> None:
    waiting(pod)
    pod["status"]["nominatedNodeName"] = "n1"


def indexed(pod: Raw) -> None:
    pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] = "3"


def with_a_token(pod: Raw) -> None:
    pod["spec"]["volumes"] = [{"name": "kube-api-access-x7k2p", "projected": {"sources": []}}]


def annotated_by_others(pod: Raw) -> None:
    pod["metadata"]["annotations"]["cni.example.com/address"] = "10.0.0.7"


@pytest.mark.parametrize(
    "change", [running, terminating, preempted, waiting, nominated, indexed, with_a_token, annotated_by_others]
)
def test_fields_of_a_single_pod_do_not_create_a_new_class(change: Callable[[Raw], None]) -> None:
    annotations = gang_annotations(a_group(), member_of="workers")
    plain, changed = (a_pod(name, app="job", annotations=dict(annotations), volumes=[{"name": "x"}]) for name in "ab")
    change(changed)
    known = PodClasses()
    assert is_of_a_class(known, plain)
    assert is_of_a_class(known, changed)
    assert len(known) == 1
    assert by_class(known, changed) == read_pod(changed, SETTINGS)


def test_different_applications_groups_requests_and_selectors_are_different_classes() -> None:
    known = PodClasses()
    pods = [
        a_pod(app="one"),
        a_pod(app="two"),
        a_pod(app="one", annotations=gang_annotations(a_group(), member_of="workers")),
        a_pod(app="one", containers=[a_container(cpu="3")]),
        a_pod(app="one", nodeSelector={"zone": "a"}),
    ]
    assert len({repr(by_class(known, pod)) for pod in pods}) == len(pods)


def test_a_pod_with_facts_derived_from_its_name_or_uid_is_read_without_a_class() -> None:
    known = PodClasses()
    assert not is_of_a_class(known, a_pod(volumes=[{"name": "scratch", "ephemeral": {}}]))
    assert not is_of_a_class(known, a_pod(app="job-uniqueautogen"))
    assert not is_of_a_class(known, a_pod(), Settings(unique_app_ids=True))


def test_a_rejected_pod_is_read_without_a_class() -> None:
    known = PodClasses()
    assert not is_of_a_class(known, a_pod(containers=[a_container(cpu="no amount")]))
    assert not is_of_a_class(known, a_pod(app="a" * 64))


def test_members_with_equal_labels_share_their_common_tags() -> None:
    known, pods = PodClasses(), [a_pod(name, app="job") for name in ("a", "b", "c")]
    pods[2]["metadata"]["labels"]["index"] = "2"
    first, second, third = (known.read(decoded_pod(orjson.dumps(pod)), SETTINGS) for pod in pods)
    assert isinstance(first, Pod)
    assert isinstance(second, Pod)
    assert isinstance(third, Pod)
    assert first.common is second.common
    assert set(first.tags) - set(first.common) == {keys.TAG_POD_NAME, keys.TAG_CREATION_TIME}
    assert third.common == {}


def test_changed_settings_apply_to_cached_classes() -> None:
    known, pod = PodClasses(), a_pod(app="job")
    assert isinstance(by_class(known, pod), Pod)
    assert isinstance(by_class(known, pod, Settings(scheduler_names=frozenset({"other"}))), ForeignPod)


def test_spread_constraints_with_match_label_keys_create_a_class_per_label_set() -> None:
    spread = {"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["hash"]}
    known, found = PodClasses(), set()
    for value in ("a", "b"):
        pod = a_pod(app="job", topologySpreadConstraints=[spread | {"labelSelector": {}}])
        pod["metadata"]["labels"]["hash"] = value
        read = by_class(known, pod)
        assert read == read_pod(pod, SETTINGS)
        found.add(repr(read))
    assert len(found) == 2


def test_a_watch_decodes_pods_partially_and_other_events_completely() -> None:
    pod = a_pod(app="job")
    event = decoded_pod_event(orjson.dumps({"type": "ADDED", "object": pod}))
    assert event["type"] == "ADDED"
    assert isinstance(event["object"], PartialPod)
    assert whole(event["object"]) == pod
    for other in (
        {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "7"}, "spec": {"containers": None}}},
        {"type": "ERROR", "object": {"kind": "Status", "code": 410}},
    ):
        assert decoded_pod_event(orjson.dumps(other)) == other


def test_memory_is_bounded() -> None:
    known = PodClasses(limit_bytes=32 * 1024)
    for number in range(50):
        assert is_of_a_class(known, a_pod(app=f"job-{number}"))
    assert 2 <= len(known) <= 16


def the_class(known: PodClasses, raw: Raw) -> object:
    """What all pods of a class share as one object, as long as the class is remembered."""
    found = decoded_pod(orjson.dumps(raw))
    pod = known.read(found, SETTINGS) if isinstance(found, PartialPod) else None
    assert isinstance(pod, Pod)
    return pod.membership


def test_a_namespace_with_many_classes_does_not_evict_those_of_other_namespaces() -> None:
    known, usual, noisy = PodClasses(limit_bytes=64 * 1024), a_pod(app="job"), a_pod()
    noisy["metadata"]["namespace"] = "noisy"
    before, first = the_class(known, usual), the_class(known, noisy)
    for number in range(200):
        noisy["metadata"]["annotations"] = {TASK_GROUP_NAME: f"g{number}"}
        the_class(known, noisy)
    assert the_class(known, usual) is before
    assert the_class(known, noisy | {"metadata": noisy["metadata"] | {"annotations": {}}}) is not first


def fields_read_of(spec: str, module: ModuleType) -> set[str]:
    """Fields that a module reads of an object in a variable named `spec`."""
    assert module.__file__ is not None
    read = set()
    for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=found), attr="get"), args=[ast.Constant(value=str(key)), *_]
            ):
                pass
            case ast.Subscript(value=ast.Name(id=found), slice=ast.Constant(value=str(key))):
                pass
            case _:
                continue
        if found == spec:
            read.add(key)
    return read


def test_every_field_of_a_pod_that_is_translated_is_decoded() -> None:
    read = fields_read_of("spec", pods) | fields_read_of("spec", constraints)
    assert read > {"affinity", "hostNetwork", "priority"}
    assert read <= {field.encode_name for field in structs.fields(pod_classes.Spec)}, "add the field to Spec"


@pytest.mark.parametrize(
    "place, key",
    [
        ("annotations", "yunikorn.apache.org/taskGroups"),
        ("annotations", "task-groups"),
        ("annotations", "muster.example.com/queue"),
        ("labels", "yunikorn.apache.org/allow-preemption"),
        ("labels", "applicaionId"),
    ],
)
def test_a_misspelt_name_of_one_pod_is_not_a_property_of_its_class(place: str, key: str) -> None:
    known, usual = PodClasses(), a_pod("usual")
    usual["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = json.dumps({key: "x"})
    odd = a_pod("odd")
    odd["metadata"].setdefault(place, {})[key] = "x"
    for raw, count in ((usual, 0), (odd, 1), (usual, 0)):
        pod = by_class(known, raw)
        assert isinstance(pod, Pod)
        assert len(pod.membership.misspelt) == count
        assert pod == read_pod(raw, SETTINGS)
    assert is_of_a_class(known, usual)
    assert not is_of_a_class(known, odd)
    odd["spec"]["nodeName"] = "n1"
    assert is_of_a_class(known, odd)
