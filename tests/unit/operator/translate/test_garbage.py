"""No raw object raises an error, and every result is valid UTF-8 and fits 64 bits."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from muster_operator.model.ids import MAX_AMOUNT
from muster_operator.model.pods import GangDefinition, GangProblem, GangSource, Pod
from muster_operator.model.settings import Settings
from muster_operator.translate.gangs.dialects import read_gang
from muster_operator.translate.nodes import read_namespace, read_node, read_priority_class
from muster_operator.translate.pods import read_pod
from tests.unit.operator.controller.objects import a_container, a_group, a_namespace, a_node, a_pod

SETTINGS = Settings()
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
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
    pod["metadata"] |= {
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "uid": "u"}, {"kind": "DaemonSet"}],
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
