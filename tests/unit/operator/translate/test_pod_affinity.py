"""Inter-pod constraints of a pod, with the defaults of kube-scheduler (TAG_POD_CONSTRAINTS)."""

import json
from typing import Any

import pytest

from muster_operator.model.errors import BadInputError
from muster_operator.model.settings import Settings
from muster_operator.translate.constraints import pod_constraints_tag
from muster_operator.translate.pods import read_pod
from muster_si import keys
from tests.unit.operator.controller.objects import Raw, a_pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
WEB: Raw = {"matchLabels": {"app": "web"}}
LABELS = {"app": "web", "track": "stable"}


def facts(spec: Raw, namespace: str = "dev", labels: dict[str, str] | None = None) -> Any:
    text = pod_constraints_tag(spec, namespace, LABELS if labels is None else labels)
    assert text == (json.dumps(json.loads(text), sort_keys=True, separators=(",", ":")) if text else "")
    return json.loads(text or "{}")


def term(**fields: Any) -> Any:
    """One term of required affinity, as it arrives."""
    spec = {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "zone", "labelSelector": WEB, **fields}]}}}
    return facts(spec)["affinity"][0]


def spread(**fields: Any) -> Any:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **fields}
    return facts({"topologySpreadConstraints": [constraint]})["spread"][0]


def test_a_pod_without_inter_pod_constraints_has_no_tag() -> None:
    assert pod_constraints_tag({}, "dev", LABELS) == ""
    assert (
        pod_constraints_tag({"affinity": {"nodeAffinity": {REQUIRED: {}}}, "topologySpreadConstraints": []}, "d", {})
        == ""
    )
    assert (
        pod_constraints_tag({"affinity": {"podAffinity": {REQUIRED: []}, "podAntiAffinity": None}}, "dev", LABELS) == ""
    )


def test_required_and_preferred_affinity_and_anti_affinity_terms_are_distinguished() -> None:
    near, apart = {"topologyKey": "zone", "labelSelector": WEB}, {"topologyKey": "host"}
    both = {
        "podAffinity": {REQUIRED: [near], PREFERRED: [{"weight": 10, "podAffinityTerm": near}]},
        "podAntiAffinity": {REQUIRED: [apart, near], PREFERRED: [{"weight": 5, "podAffinityTerm": apart}]},
    }
    own = {"namespaces": ["dev"]}
    assert facts({"affinity": both}) == {
        "affinity": [near | own],
        "antiAffinity": [apart | own, near | own],
        "preferred": [{"weight": 10, **near, **own}, {"weight": -5, **apart, **own}],
    }


@pytest.mark.parametrize(
    "written, namespaces, selector",
    [
        ({}, ["dev"], None),
        ({"namespaces": [], "namespaceSelector": None}, ["dev"], None),
        ({"namespaces": ["b", "a", "b"]}, ["a", "b"], None),
        ({"namespaceSelector": {}}, None, {}),
        ({"namespaceSelector": {"matchLabels": {"team": "x"}}}, None, {"matchLabels": {"team": "x"}}),
        ({"namespaces": ["a"], "namespaceSelector": {}}, ["a"], {}),
    ],
    ids=["neither", "empty", "named", "all", "selected", "both"],
)
def test_a_term_without_namespaces_applies_to_the_namespace_of_the_pod(
    written: Raw, namespaces: list[str] | None, selector: Raw | None
) -> None:
    found = term(**written)
    assert (found.get("namespaces"), found.get("namespaceSelector")) == (namespaces, selector)


@pytest.mark.parametrize("read", [term, spread], ids=["affinity", "spread"])
def test_a_missing_selector_and_an_empty_one_are_distinguished(read: Any) -> None:
    assert "labelSelector" not in read(labelSelector=None)
    assert read(labelSelector={})["labelSelector"] == {}
    assert read(labelSelector={"matchLabels": None, "matchExpressions": None})["labelSelector"] == {}


@pytest.mark.parametrize(
    "keys_of, added",
    [
        ({"matchLabelKeys": ["track", "other"]}, [{"key": "track", "operator": "In", "values": ["stable"]}]),
        ({"mismatchLabelKeys": ["track"]}, [{"key": "track", "operator": "NotIn", "values": ["stable"]}]),
        ({"matchLabelKeys": []}, None),
    ],
    ids=["match", "mismatch", "none"],
)
def test_label_keys_become_expressions_with_the_label_values_of_the_pod(keys_of: Raw, added: list[Raw] | None) -> None:
    assert term(**keys_of)["labelSelector"].get("matchExpressions") == added
    assert "labelSelector" not in term(**keys_of, labelSelector=None)


def test_label_keys_that_the_api_server_has_merged_stay_as_they_are() -> None:
    """The labels of a running pod may change; its affinity does not."""
    merged = [{"key": "track", "operator": "In", "values": ["canary"]}]
    selector = {"matchExpressions": merged}
    assert term(labelSelector=selector, matchLabelKeys=["track"])["labelSelector"]["matchExpressions"] == merged


def test_label_keys_of_a_spread_constraint_are_merged_with_the_current_labels() -> None:
    """As in kube-scheduler: expressions of the API server stay, and are not duplicated."""
    stable = {"key": "track", "operator": "In", "values": ["stable"]}
    canary = {"key": "track", "operator": "In", "values": ["canary"]}
    for there, then in ([], [stable]), ([stable], [stable]), ([canary], [canary, stable]):
        found = spread(labelSelector={"matchExpressions": there}, matchLabelKeys=["track"])
        assert found["labelSelector"]["matchExpressions"] == then


def test_a_spread_constraint_has_its_defaults_filled_in() -> None:
    assert spread(labelSelector=WEB) == {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": WEB,
        "minDomains": 1,
        "nodeAffinityPolicy": "Honor",
        "nodeTaintsPolicy": "Ignore",
    }
    written = {"maxSkew": 3, "minDomains": 2, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"}
    assert spread(**written).items() >= written.items()


def test_a_missing_topology_key_is_rejected() -> None:
    spec = {"affinity": {"podAntiAffinity": {REQUIRED: [{"labelSelector": WEB}]}}}
    with pytest.raises(BadInputError, match=r"podAntiAffinity\[0\].topologyKey: is missing"):
        pod_constraints_tag(spec, "dev", LABELS)


def test_pods_with_equal_constraints_share_one_string_in_memory_for_any_labels() -> None:
    spec = {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "zone", "labelSelector": WEB}]}}}
    assert pod_constraints_tag(spec, "dev", {"index": "0"}) is pod_constraints_tag(spec, "dev", {"index": "1"})
    assert pod_constraints_tag(spec, "dev", LABELS) != pod_constraints_tag(spec, "test", LABELS)


def test_pods_of_other_schedulers_have_the_same_inter_pod_tags() -> None:
    apart = {"podAntiAffinity": {REQUIRED: [{"topologyKey": "host", "labelSelector": WEB}]}}
    tags = []
    for scheduler in ("muster", "default-scheduler"):
        raw = a_pod(schedulerName=scheduler, nodeName="n1", affinity=apart)
        raw["metadata"] |= {"labels": LABELS, "deletionTimestamp": "2026-01-01T00:00:00Z"}
        raw["spec"]["containers"][0]["ports"] = [{"hostPort": 80}]
        pod = read_pod(raw, Settings())
        assert pod is not None
        tags.append({key: value for key, value in pod.tags.items() if key != keys.TAG_CREATION_TIME})
    assert (
        tags[0]
        == tags[1]
        == {
            keys.TAG_NAMESPACE: "dev",
            keys.TAG_POD_NAME: "pod",
            keys.TAG_POD_LABEL_PREFIX + "app": "web",
            keys.TAG_POD_LABEL_PREFIX + "track": "stable",
            keys.TAG_TERMINATING: "true",
            keys.TAG_DELETION_TIME: "1767225600",
            keys.TAG_POD_CONSTRAINTS: pod_constraints_tag({"affinity": apart}, "dev", LABELS),
            keys.CONTAINER_PORTS: '[["0.0.0.0","TCP",80]]',
        }
    )


def test_too_large_inter_pod_constraints_reject_own_pods_and_are_dropped_for_foreign_pods() -> None:
    long = {"podAffinity": {REQUIRED: [{"topologyKey": f"zone-{number:04}"} for number in range(2000)]}}
    own, foreign = (read_pod(a_pod(schedulerName=name, affinity=long), Settings()) for name in ("muster", "other"))
    assert own is not None
    assert foreign is not None
    assert keys.TAG_POD_CONSTRAINTS not in foreign.tags
    assert "bytes, more than 65536" in getattr(own, "membership").refusal  # noqa: B009
