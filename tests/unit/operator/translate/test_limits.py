"""Limits per pod on memory and messages of the operator, in bytes, checked before anything is built or cached."""

import gc
import json
import tracemalloc
from collections.abc import Iterable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_operator.kube.watch import decoded_pod, whole
from muster_operator.model import limits
from muster_operator.model.errors import BadInputError
from muster_operator.model.ids import MAX_AMOUNT
from muster_operator.model.pods import ForeignPod, GangDefinition, GangProblem, GangSource, Pod
from muster_operator.model.settings import Settings
from muster_operator.translate.gangs.dialects import read_gang
from muster_operator.translate.nodes import read_namespace, read_node, read_priority_class
from muster_operator.translate.pod_classes import PartialPod, PodClasses
from muster_operator.translate.pods import read_pod
from muster_operator.translate.values import TranslationCache, memoized
from muster_si import keys
from tests.unit.operator.controller.objects import (
    PARAMETERS,
    QUEUE,
    TASK_GROUP_NAME,
    TASK_GROUPS,
    Raw,
    a_container,
    a_group,
    a_namespace,
    a_node,
    a_pod,
    gang_annotations,
)

MIB = 1024 * 1024
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def anti_affinity(size: int, mark: str = "x") -> Raw:
    """Pod anti-affinity of this size in bytes."""
    terms = [
        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": f"{mark}-{number:06}"}}}
        for number in range(size // 90)
    ]
    return {"podAntiAffinity": {REQUIRED: terms}}


def read(raw: Raw) -> Pod | ForeignPod:
    found = read_pod(raw, Settings())
    assert found is not None
    return found


def own(raw: Raw) -> Pod:
    found = read(raw)
    assert isinstance(found, Pod)
    return found


def tag_bytes(pod: Pod | ForeignPod) -> int:
    return sum(len(value.encode()) for value in pod.tags.values())


def test_a_pending_pod_with_a_too_large_constraint_is_rejected_with_field_value_rule_and_fix() -> None:
    pod = own(a_pod(affinity=anti_affinity(MIB)))
    assert pod.membership.refusal.startswith("pod affinity and topology spread constraints: ")
    assert pod.membership.refusal.endswith(f"bytes, more than {limits.CONSTRAINT_BYTES}; write fewer or shorter terms")
    assert tag_bytes(pod) < 100


def test_a_bound_pod_is_counted_without_the_constraint_that_is_too_large() -> None:
    raw = a_pod(app="job", affinity=anti_affinity(MIB), nodeSelector={"zone": "a"}, nodeName="n1")
    pod = own(raw)
    assert pod.membership.refusal == ""
    assert dict(pod.resources) == {"vcore": 1000, "memory": 2**30, "pods": 1}
    assert keys.TAG_POD_CONSTRAINTS not in pod.tags
    assert keys.TAG_CONSTRAINTS in pod.tags


def test_a_pod_of_another_scheduler_is_counted_without_the_constraint_that_is_too_large() -> None:
    raw = a_pod(app="job", schedulerName="other", nodeName="n1", affinity=anti_affinity(MIB))
    pod = read(raw)
    assert isinstance(pod, ForeignPod)
    assert dict(pod.resources) == {"vcore": 1000, "memory": 2**30, "pods": 1}
    assert keys.TAG_POD_CONSTRAINTS not in pod.tags
    assert keys.TAG_POD_LABEL_PREFIX + "yunikorn.apache.org/app-id" in pod.tags


def many_labels() -> Raw:
    raw = a_pod()
    raw["metadata"]["labels"] = {f"example.com/{number:050}": "v" * 63 for number in range(1000)}
    return raw


def test_labels_and_constraints_share_one_size_limit() -> None:
    assert own(many_labels()).membership.refusal.startswith("labels: ")
    half = {**anti_affinity(40_000), "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [expressions(40_000)]}}}
    pod = own(a_pod(affinity=half))
    assert pod.membership.refusal.startswith("node constraints: ")
    assert "bytes of labels and other constraints, more than 65536 in total" in pod.membership.refusal
    bound = many_labels()
    bound["spec"]["nodeName"] = "n1"
    assert tag_bytes(own(bound)) < 100


def expressions(size: int) -> Raw:
    return {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["v" * 60] * (size // 63)}]}


def test_a_pod_read_by_class_has_the_same_label_size_limit() -> None:
    incoming = decoded_pod(orjson.dumps(many_labels()))
    assert isinstance(incoming, PartialPod)
    assert PodClasses().read(incoming, Settings()) is None
    assert own(whole(incoming)).membership.refusal.startswith("labels: ")


def test_a_pending_pod_has_a_resource_count_limit_and_a_bound_pod_has_none() -> None:
    requests = {f"example.com/r{number}": "1" for number in range(500)}
    assert own(a_pod(containers=[a_container(**requests)])).membership.refusal.startswith(
        "resource requests: 501 different resources, more than 128"
    )
    assert len(own(a_pod(containers=[a_container(**requests)], nodeName="n1")).resources) == 501


def test_only_claims_can_request_devices_by_class() -> None:
    requests = {f"gpus{keys.DEVICES_OF_CLASS}": "1"}
    assert own(a_pod(containers=[a_container(**requests)])).membership.refusal == (
        "resource requests: gpus.deviceclass.resource.k8s.io/devices is a name of quotas; "
        "request devices by a ResourceClaim"
    )


@pytest.mark.parametrize(
    "annotation, size, expected",
    [
        (QUEUE, 2_000, "queue xxxx"),
        (TASK_GROUP_NAME, 300, "task group xxxx"),
        ("yunikorn.apache.org/app-id", 200_000, "application ID xxxx"),
    ],
)
def test_a_pod_with_a_too_long_name_is_rejected_and_the_name_is_not_kept(
    annotation: str, size: int, expected: str
) -> None:
    member = own(a_pod(annotations={annotation: "x" * size})).membership
    assert member.refusal.startswith(expected)
    assert str(size) in member.refusal
    assert len(repr(member)) < 2_000


@pytest.mark.parametrize(
    "annotation, most", [(TASK_GROUPS, limits.TASK_GROUPS_BYTES), (PARAMETERS, limits.PARAMETERS_BYTES)]
)
def test_a_definition_that_is_too_long_is_a_problem_and_is_not_kept(annotation: str, most: int) -> None:
    annotations = gang_annotations(a_group(), parameters="gangSchedulingStyle=Hard")
    annotations[annotation] += " " * most
    source = own(a_pod(annotations=annotations)).membership.gang
    assert source.is_written
    assert len(repr(source)) < 1_000
    found = read_gang(source)
    assert isinstance(found, GangProblem)
    assert found.message.startswith(f"{annotation}: {len(annotations[annotation])} bytes, more than {most}")


def test_a_user_annotation_that_is_too_long_is_ignored_and_reported() -> None:
    groups = [f"group-{number:08}" for number in range(10_000)]
    written = json.dumps({"user": "ann", "groups": groups})
    member = own(a_pod(annotations={"yunikorn.apache.org/user.info": written})).membership
    assert member.user.user == "nobody"
    assert f"it has {len(written)} bytes, more than {limits.USER_INFO_BYTES}" in member.user_problem


def test_a_gang_has_a_bounded_number_of_groups_and_members() -> None:
    def gang(*groups: Raw) -> GangDefinition | GangProblem | None:
        return read_gang(GangSource(json.dumps(groups)))

    def small(number: int) -> Raw:
        return {"name": str(number), "minMember": 1, "minResource": {"cpu": "1"}}

    assert isinstance(gang(*map(small, range(100))), GangDefinition)
    many = gang(*map(small, range(101)))
    assert isinstance(many, GangProblem)
    assert many.message == "task-groups: 101 task groups, more than 100; merge task groups with equal members"
    assert isinstance(gang(a_group(members=limits.GANG_MEMBERS)), GangDefinition)
    assert isinstance(gang(a_group(members=limits.GANG_MEMBERS + 1)), GangProblem)


def test_all_members_of_a_gang_share_one_text_of_its_definition() -> None:
    annotations = gang_annotations(*(a_group(f"g{number}") for number in range(50)))
    first, second = (own(a_pod(name, annotations=dict(annotations))).membership.gang for name in ("a", "b"))
    assert first is second


def test_deleted_pods_leave_almost_no_memory_allocated() -> None:
    """With 1 MB of anti-affinity each, and annotations, images and quantities that are as long as they may be."""

    def a_hostile_pod(number: int, **fields: Any) -> bytes:
        raw = a_pod(f"p{number}", affinity=anti_affinity(MIB, str(number)), **fields)
        raw["metadata"]["annotations"] = {
            TASK_GROUPS: json.dumps([a_group(f"{number}-{group}") for group in range(2_000)]),
            "yunikorn.apache.org/user.info": json.dumps({"user": f"u{number}" + "x" * 50_000}),
        }
        return orjson.dumps(raw)

    def decode_pods(number: int) -> None:
        for scheduler in ("other", "muster"):
            for node in ("", "n1"):
                container = a_container(cpu=f"{number}" * 100_000) | {"image": f"{number}" * 20_000}
                fields = {"containers": [container], "nodeName": node}
                read(orjson.loads(a_hostile_pod(number, schedulerName=scheduler, **fields)))

    decode_pods(0)
    tracemalloc.start()
    decode_pods(1)
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < MIB


def test_the_translation_cache_is_limited_in_bytes_and_keeps_used_entries() -> None:
    memo: TranslationCache[str] = TranslationCache(len, limit_bytes=100_000)
    built: list[bytes] = []

    def build(text: bytes) -> str:
        built.append(text)
        return "v" * 500

    for number in range(1_000):
        memo.get(b"usual", build)
        memo.get(b"%d" % number, build)
        assert memo.bytes <= 100_000
    assert built.count(b"usual") == 1
    assert len(memo) > 100


def test_the_translation_cache_keeps_neither_long_texts_nor_long_values() -> None:
    memo: TranslationCache[str] = TranslationCache(len)
    memo.get(b"x" * (limits.MEMO_ENTRY_BYTES + 1), lambda _: "short")
    memo.get(b"short", lambda _: "x" * MIB)
    assert len(memo) == 0


def test_too_long_parts_are_rejected_before_they_are_read() -> None:
    read_parts: list[Raw] = []

    def build(parts: Raw) -> str:
        read_parts.append(parts)
        return ""

    with pytest.raises(BadInputError, match="field: 70008 bytes, more than 65536; write fewer"):
        memoized("field", build)({"a": "x" * 70_000})
    assert read_parts == []


# -- No raw object raises an error, and every result is valid UTF-8 and fits 64 bits.

SETTINGS = Settings()
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TEXT = st.text(st.characters(exclude_categories=()), max_size=12)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.sampled_from(["1", "100m", "1e400", "-5"])
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=8
)


def paths(value: Any, prefix: tuple[Any, ...] = ()) -> Iterable[tuple[Any, ...]]:
    """Yield every path in a nested value."""
    yield prefix
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from paths(child, (*prefix, key))


@st.composite
def broken(draw: st.DrawFn, valid: Any) -> Any:
    """A valid object with up to three values replaced by garbage."""
    value = json.loads(json.dumps(valid))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from([path for path in paths(value) if path] or [()]))
        if not path:
            return draw(JSON)
        parent = value
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1]] = draw(JSON)
    return value


def a_rich_pod() -> dict[str, Any]:
    """A pod with something in every field that is read."""
    requirement = {"key": "zone", "operator": "In", "values": ["a"]}
    term = {"matchExpressions": [requirement], "matchFields": [requirement]}
    required = {REQUIRED: {"nodeSelectorTerms": [term]}}
    preferred = {PREFERRED: [{"weight": 1, "preference": term}]}
    selector = {"matchLabels": {"a": "b"}, "matchExpressions": [requirement]}
    near = {"topologyKey": "zone", "labelSelector": selector, "namespaceSelector": selector, "matchLabelKeys": ["a"]}
    weighted = {"weight": 1, "podAffinityTerm": near}
    pod = a_pod(
        "rich",
        app="job",
        annotations={
            "yunikorn.apache.org/user.info": "{}",
            "internal.yunikorn.apache.org/placeholder": "true",
            "traceparent": "0" * 55,
            "yunikorn.apache.org/gang-size": "2",
            "gang.scheduling.koordinator.sh/name": "g",
            "gang.scheduling.koordinator.sh/groups": "[]",
        },
        affinity={"nodeAffinity": required | preferred, "podAffinity": {REQUIRED: [near], PREFERRED: [weighted]}},
        topologySpreadConstraints=[{**near, "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2}],
        containers=[{**a_container(cpu="1"), "image": "app", "ports": [{"hostPort": 80, "hostIP": "::"}]}],
        volumes=[{"image": {"reference": "data"}}],
        resourceClaims=[{"name": "gpu"}],
        tolerations=[{"key": "a", "operator": "Exists"}],
        nodeSelector={"a": "b"},
        initContainers=[{"name": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}],
        overhead={"cpu": "1m"},
        resources={"requests": {"cpu": "2"}},
        schedulingGates=[{"name": "g"}],
        imagePullSecrets=[{"name": "s"}],
        priority=3,
        priorityClassName="p",
        terminationGracePeriodSeconds=60,
        nodeName="n1",
    )
    pod["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] = "k"
    pod["metadata"] |= {
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "uid": "u"}, {"kind": "DaemonSet", "controller": True}],
        "managedFields": [{"manager": "muster-placeholder"}],
    }
    pod["status"] |= {
        "nominatedNodeName": "n7",
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "1"}, "resources": {"requests": {}}}],
    }
    return pod


def assert_sound(texts: Iterable[str], amounts: Iterable[int]) -> None:
    for text in texts:
        text.encode()
    for amount in amounts:
        assert -MAX_AMOUNT <= amount <= MAX_AMOUNT


@given(broken(a_rich_pod()) | JSON)
def test_a_malformed_pod_is_read_safely_or_ignored(raw: Any) -> None:
    pod = read_pod(raw if isinstance(raw, dict) else {"metadata": raw}, SETTINGS)
    if pod is not None:
        assert_sound((pod.ref.name, pod.ref.namespace, pod.node or ""), pod.resources.values())
        assert_sound((*pod.tags, *pod.tags.values()), ())
    if isinstance(pod, Pod):
        member = pod.membership
        assert_sound((member.app, member.queue, member.user.user, member.refusal), ())
        assert_sound(pod.image_pull_secrets + member.conflicts + pod.gates, ())


def a_rich_node() -> dict[str, Any]:
    """A node with something in every field that is read."""
    node = a_node(labels={"a": "b"}, taints=[{"key": "a", "effect": "NoSchedule"}])
    node["status"] |= {"images": [{"names": ["app", "b"], "sizeBytes": 7}], "declaredFeatures": ["Other"]}
    return node


@given(broken(a_rich_node()) | JSON)
def test_a_malformed_node_is_read_safely_or_ignored(raw: Any) -> None:
    node = read_node(raw if isinstance(raw, dict) else {"metadata": raw}, SETTINGS)
    if node is not None:
        assert_sound((*node.attributes, *node.attributes.values(), *node.capacity), node.capacity.values())
        assert min(node.capacity.values(), default=0) >= 0


@given(JSON, TEXT)
def test_a_malformed_namespace_is_read_safely(value: Any, text: str) -> None:
    raw = a_namespace(namespace_quota=json.dumps(value), namespace_guaranteed=text, namespace_max_cpu=text)
    namespace = read_namespace(raw)
    assert namespace is not None
    assert_sound((*namespace.tags.values(), *namespace.problems), ())
    read_namespace({"metadata": value})
    read_priority_class({"metadata": value})


@given(broken([a_group(affinity={}, tolerations=[{}], labels={"a": "b"})]) | JSON)
def test_a_malformed_gang_is_read_as_a_gang_or_a_problem_with_a_fix(value: Any) -> None:
    found = read_gang(GangSource(json.dumps(value), "gangSchedulingStyle=x"))
    assert isinstance(found, GangDefinition | GangProblem)
    if isinstance(found, GangProblem):
        assert found.message.startswith("task-groups")
        assert "; " in found.message
    else:
        assert_sound((group.pod_fields for group in found.groups), found.placeholder_ask.values())


@given(TEXT, TEXT)
def test_any_text_is_read_as_a_gang_a_problem_or_none(groups: str, parameters: str) -> None:
    found = read_gang(GangSource(groups, parameters))
    assert found is None or isinstance(found, GangDefinition | GangProblem)
