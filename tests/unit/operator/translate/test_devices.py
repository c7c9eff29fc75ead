"""Slices, classes and claims of devices as facts for the core, claims of pods, and allocations as written."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from muster_operator.model import limits
from muster_operator.model.cluster_events import (
    DeviceClaimSeen,
    DeviceClassSeen,
    DeviceSliceSeen,
    PodSeen,
    TaintRuleSeen,
)
from muster_operator.model.devices import (
    ChosenDevice,
    ChosenDevices,
    DeviceClaim,
    DeviceClass,
    DeviceSlice,
    PodClaim,
    TaintRule,
)
from muster_operator.model.ids import PodUid
from muster_operator.model.pods import Pod
from muster_operator.model.settings import Settings
from muster_operator.model.storage import ClaimRef, ClusterObject
from muster_operator.translate.devices import allocation, chosen_devices, tainted
from muster_operator.translate.objects import read_deletion, read_object
from muster_operator.translate.pod_classes import PodClasses, partial_pod
from muster_si import keys
from tests.unit.operator.controller.objects import a_pod

Raw = dict[str, Any]
DRIVER = "gpu.example.com"
IS_BIG = {"cel": {"expression": f'device.capacity["{DRIVER}"].memory.isGreaterThan(quantity("40Gi"))'}}
TOLERATION = {"key": "health", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 30}
OPAQUE = {"opaque": {"driver": DRIVER, "parameters": {"mode": "shared"}}}


def document(found: ClusterObject) -> Any:
    assert not found.gone
    return orjson.loads(found.attributes[keys.FACT_OBJECT])


def a_slice(*devices: Raw, **spec: Any) -> Raw:
    spec = {"nodeName": "n1", **spec}
    pool = {"name": "n1", "generation": 2, "resourceSliceCount": 1}
    return {"metadata": {"name": "s"}, "spec": {"driver": DRIVER, "pool": pool, "devices": list(devices), **spec}}


def slice_seen(raw: Raw) -> DeviceSlice:
    fact = read_object("resourceslices", raw, Settings())
    assert isinstance(fact, DeviceSliceSeen)
    return fact.slice


def a_claim(*requests: Raw, status: Raw | None = None, **devices: Any) -> Raw:
    metadata = {"name": "c", "namespace": "dev", "uid": "uid-c"}
    return {"metadata": metadata, "spec": {"devices": {"requests": list(requests), **devices}}, "status": status or {}}


def claim_seen(raw: Raw) -> DeviceClaim:
    fact = read_object("resourceclaims", raw, Settings())
    assert isinstance(fact, DeviceClaimSeen)
    return fact.claim


def exactly(name: str = "one", device_class: str = "gpus", **fields: Any) -> Raw:
    return {"name": name, "exactly": {"deviceClassName": device_class, **fields}}


def a_class(name: str = "gpus", **spec: Any) -> DeviceClass:
    fact = read_object("deviceclasses", {"metadata": {"name": name}, "spec": spec}, Settings())
    assert isinstance(fact, DeviceClassSeen)
    return fact.device_class


# -- facts ------------------------------------------------------------------------------------------------------------


def test_a_slice_is_translated_completely() -> None:
    device = {
        "name": "gpu-0",
        "attributes": {"model": {"string": "a"}, "other.io/cores": {"int": 0}, "ecc": {"bool": False}},
        "capacity": {
            "memory": {
                "value": "80Gi",
                "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi", "max": "40Gi", "step": "1Gi"}},
            },
            "lanes": {"value": 4, "requestPolicy": {"default": 1, "validValues": [1, "2"]}},
        },
        "allowMultipleAllocations": True,
        "bindingConditions": ["ready"],
        "bindingFailureConditions": ["broken"],
        "bindsToNode": True,
        "taints": [{"key": "health", "value": "bad", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}],
        "consumesCounters": [{"counterSet": "gpu", "counters": {"memory": {"value": "10Gi"}, "cores": {"value": 2}}}],
    }
    assert document(slice_seen(a_slice(device)).reported) == {
        "driver": DRIVER,
        "pool": "n1",
        "generation": 2,
        "slices": 1,
        "node": "n1",
        "devices": [
            {
                "name": "gpu-0",
                "attributes": {
                    f"{DRIVER}/model": {"string": "a"},
                    "other.io/cores": {"int": 0},
                    f"{DRIVER}/ecc": {"bool": False},
                },
                "capacity": {"memory": "80Gi", "lanes": "4"},
                "policies": {
                    "memory": {"default": "1Gi", "min": "1Gi", "max": "40Gi", "step": "1Gi", "values": []},
                    "lanes": {"default": "1", "values": ["1", "2"]},
                },
                "shared": True,
                "conditions": ["ready"],
                "failures": ["broken"],
                "binds": True,
                "taints": [{"key": "health", "value": "bad", "effect": "NoExecute"}],
                "consumes": {"gpu": {"memory": "10Gi", "cores": "2"}},
            }
        ],
    }
    shared = a_slice(sharedCounters=[{"name": "gpu", "counters": {"memory": {"value": "80Gi"}}}])
    assert document(slice_seen(shared).reported)["counters"] == {"gpu": {"memory": "80Gi"}}


TERM = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}


@pytest.mark.parametrize(
    "spec, device, expected",
    [
        ({"allNodes": True}, {}, {"all": True}),
        ({"nodeSelector": {"nodeSelectorTerms": [TERM]}}, {}, {"nodes": [TERM]}),
        ({"perDeviceNodeSelection": True}, {"nodeName": "n2"}, {"perDevice": True, "node": "n2"}),
        ({}, {}, {}),
    ],
)
def test_a_slice_reports_where_its_devices_are(spec: Raw, device: Raw, expected: Raw) -> None:
    found = document(slice_seen(a_slice({"name": "d", **device}, nodeName=None, **spec)).reported)
    fields = ("node", "nodes", "all", "perDevice")
    [found_device] = found["devices"]
    assert {field: (found | found_device)[field] for field in fields if field in found | found_device} == expected


UNSUPPORTED_DEVICES = {
    "consumesCounters": (
        [{"counterSet": "c", "compatibilityGroups": ["g"]}],
        "compatibility groups (compatibilityGroups)",
    ),
    "nodeAllocatableResources": ({"cpu": {}}, "node-allocatable resources (nodeAllocatableResources)"),
    "attributes": ({"models": {"strings": ["a", "b"]}}, "list attributes"),
}


@pytest.mark.parametrize("field", UNSUPPORTED_DEVICES)
def test_a_device_with_a_feature_that_muster_lacks_names_it(field: str) -> None:
    value, feature = UNSUPPORTED_DEVICES[field]
    [unusable, usable] = document(slice_seen(a_slice({"name": "d", field: value}, {"name": "e"})).reported)["devices"]
    assert unusable["unsupported"] == feature
    assert usable == {"name": "e"}


def test_a_slice_in_the_form_of_kubernetes_1_34_makes_its_devices_unusable() -> None:
    """Its counters are left out, so that they do not make the pool invalid, and the reason names the feature."""
    counters = [{"name": "c", "counters": {"memory": {"value": "8"}}}]
    device = {"name": "d", "consumesCounters": [{"counterSet": "c", "counters": {"memory": {"value": "4"}}}]}
    found = document(slice_seen(a_slice(device, sharedCounters=counters)).reported)
    feature = "shared counters beside devices (the form of Kubernetes 1.34)"
    assert (found["devices"], found["unsupported"], "counters" in found) == ([{"name": "d"}], feature, False)


def test_a_slice_beyond_the_limit_is_reported_as_gone() -> None:
    """Its pool is incomplete then, and gives no devices."""
    devices = [{"name": "d", "attributes": {"a": {"string": "x" * limits.DEVICE_SLICE_BYTES}}}]
    assert slice_seen(a_slice(*devices)).reported.gone


def test_the_largest_slice_that_kubernetes_accepts_is_reported() -> None:
    attributes = {f"{number:02}{'a' * 60}.example.com/{'i' * 32}": {"string": "v" * 64} for number in range(32)}
    devices = [{"name": f"device-{number:03}{'d' * 40}", "attributes": attributes} for number in range(128)]
    assert len(document(slice_seen(a_slice(*devices)).reported)["devices"]) == 128


BAD = {"key": "broken", "value": "", "effect": "NoSchedule"}


def a_rule(selector: Raw | None, name: str = "r") -> TaintRule:
    raw = {
        "metadata": {"name": name},
        "spec": {"taint": BAD} | ({} if selector is None else {"deviceSelector": selector}),
    }
    fact = read_object("devicetaintrules", raw, Settings())
    assert isinstance(fact, TaintRuleSeen)
    return fact.rule


@pytest.mark.parametrize(
    "selector, expected",
    [
        ({}, ["d", "e"]),
        ({"driver": DRIVER, "pool": "n1"}, ["d", "e"]),
        ({"device": "e"}, ["e"]),
        ({"driver": "other.example.com"}, []),
        ({"pool": "n2"}, []),
        (None, []),
    ],
)
def test_a_taint_rule_taints_the_devices_that_it_selects(selector: Raw | None, expected: list[str]) -> None:
    """As in Kubernetes 1.37, a rule without a selector selects nothing."""
    found = slice_seen(a_slice({"name": "d"}, {"name": "e"}))
    devices = document(tainted(found, [a_rule(selector)]))["devices"]
    assert [device["name"] for device in devices if device.get("taints") == [BAD]] == expected
    assert tainted(found, []) is found.reported


def test_more_taints_than_the_limit_make_a_device_unusable() -> None:
    rules = [a_rule({}, f"r{number}") for number in range(limits.DEVICE_TAINTS + 1)]
    [device] = document(tainted(slice_seen(a_slice({"name": "d"})), rules))["devices"]
    assert (len(device["taints"]), device["unsupported"]) == (limits.DEVICE_TAINTS, "more than 64 taints")


def test_a_class_has_its_selectors() -> None:
    assert document(a_class(selectors=[IS_BIG]).reported) == {"selectors": [IS_BIG["cel"]["expression"]]}
    assert document(a_class(selectors=[{"regex": "x"}]).reported) == {"unsupported": "selectors that are not CEL"}
    assert document(a_class(extendedResourceName="x.io/gpu").reported) == {"resource": "x.io/gpu"}


def test_a_claim_is_translated_completely() -> None:
    claim = a_claim(
        exactly(selectors=[IS_BIG], count=2, adminAccess=True, tolerations=[TOLERATION]),
        exactly("all", allocationMode="All"),
        {
            "name": "any",
            "firstAvailable": [
                {"name": "big", "deviceClassName": "big"},
                {"name": "two", "deviceClassName": "small", "count": 2},
            ],
        },
        constraints=[
            {"requests": ["one"], "matchAttribute": f"{DRIVER}/numa"},
            {"distinctAttribute": f"{DRIVER}/rack"},
        ],
        status={"reservedFor": [{"resource": "pods", "name": "p", "uid": "uid-p"}]},
    )
    claim["metadata"]["ownerReferences"] = [{"kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}]
    found = claim_seen(claim)
    assert document(found.reported) == {
        "uid": "uid-c",
        "owner": "uid-p",
        "reserved": ["uid-p"],
        "requests": [
            {
                "name": "one",
                "class": "gpus",
                "selectors": [IS_BIG["cel"]["expression"]],
                "mode": "ExactCount",
                "count": 2,
                "admin": True,
                "tolerations": [TOLERATION],
            },
            {"name": "all", "class": "gpus", "mode": "All"},
            {
                "name": "any",
                "alternatives": [
                    {"name": "big", "class": "big", "mode": "ExactCount", "count": 1},
                    {"name": "two", "class": "small", "mode": "ExactCount", "count": 2},
                ],
            },
        ],
        "constraints": [{"requests": ["one"], "match": f"{DRIVER}/numa"}, {"distinct": f"{DRIVER}/rack"}],
    }
    assert (found.owner, found.reserved, found.is_allocated) == ("uid-p", ("uid-p",), False)


UNSUPPORTED_CLAIMS = {
    "derived": (a_claim(exactly(derivedAttributes=[{"name": "x"}])), "derived attributes (derivedAttributes)"),
    "mode": (a_claim(exactly(allocationMode="Some")), "allocationMode Some"),
    "selector": (a_claim(exactly(selectors=[{"regex": "x"}])), "selectors that are not CEL"),
    "toleration": (a_claim(exactly(tolerations=[{"operator": "Gt"}])), "the operator of a toleration"),
    "request": (a_claim({"name": "one", "someOf": []}), "the kind of request one"),
    "alternative": (
        a_claim({"name": "any", "firstAvailable": [{"name": "a", "derivedAttributes": [{"name": "x"}]}]}),
        "derived attributes (derivedAttributes)",
    ),
    "constraint": (a_claim(exactly(), constraints=[{"sameRack": True}]), "the kind of a constraint"),
}


@pytest.mark.parametrize("raw, feature", UNSUPPORTED_CLAIMS.values(), ids=UNSUPPORTED_CLAIMS)
def test_a_claim_with_a_feature_that_muster_lacks_names_it_unless_it_is_allocated(raw: Raw, feature: str) -> None:
    assert document(claim_seen(raw).reported)["unsupported"] == feature
    raw = {**raw, "status": {"allocation": {"devices": {"results": []}}}}
    assert "unsupported" not in document(claim_seen(raw).reported)


def test_an_allocation_is_reported_with_its_devices_and_nodes() -> None:
    result = {"request": "one", "driver": DRIVER, "pool": "n1", "device": "gpu-0"}
    admin = {**result, "device": "gpu-1", "adminAccess": True, "tolerations": [TOLERATION]}
    status = {"allocation": {"devices": {"results": [result, admin]}, "nodeSelector": {"nodeSelectorTerms": [TERM]}}}
    found = claim_seen(a_claim(exactly(), status=status))
    assert found.is_allocated
    assert document(found.reported)["allocation"] == {
        "results": [result, {**result, "device": "gpu-1", "admin": True}],
        "nodes": [TERM],
    }
    share = {**result, "shareID": "s", "consumedCapacity": {"memory": "1Gi"}}
    shares = [share, {**share, "consumedCapacity": None}]
    found = claim_seen(a_claim(exactly(), status={"allocation": {"devices": {"results": shares}}}))
    consumed = [one["consumed"] for one in document(found.reported)["allocation"]["results"]]
    assert consumed == [{"memory": "1Gi"}, {}]
    assert "nodes" not in document(found.reported)["allocation"]


@pytest.mark.parametrize(
    "conditions, binding",
    [
        (None, ""),
        ({}, ""),
        ({"ready": "False"}, ""),
        ({"ready": "True"}, None),
        ({"ready": "True", "broken": "False"}, None),
        ({"ready": "True", "broken": "True"}, r"broken of device gpu-0: because\x1b[31m\n"),
    ],
)
def test_a_pod_may_be_bound_when_the_conditions_of_its_devices_are_true(
    conditions: dict[str, str] | None, binding: str | None
) -> None:
    plain = {"request": "one", "driver": DRIVER, "pool": "n1", "device": "gpu-1"}
    result = {**plain, "device": "gpu-0", "bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
    status: Raw = {"allocation": {"devices": {"results": [plain, result]}}}
    if conditions is not None:
        written = [
            {"type": name, "status": value, "message": "because\x1b[31m\n"} for name, value in conditions.items()
        ]
        device = {field: result[field] for field in ("driver", "pool", "device")}
        status["devices"] = [{**device, "conditions": written}, {**device, "shareID": "other"}]
    assert claim_seen(a_claim(exactly(), status=status)).binding == binding


def test_the_devices_of_a_claim_beyond_the_limit_still_count() -> None:
    expression = {"cel": {"expression": "x" * 10_240}}
    result = {"request": "one", "driver": DRIVER, "pool": "n1", "device": "gpu-0"}
    raw = a_claim(exactly(selectors=[expression] * 8), status={"allocation": {"devices": {"results": [result]}}})
    found = document(claim_seen(raw).reported)
    assert found["unsupported"] == f"requests of more than {limits.FACT_BYTES} bytes"
    assert ("requests" in found, found["allocation"]["results"]) == (False, [result])


def test_the_devices_of_an_allocation_beyond_the_limit_still_count() -> None:
    """A driver of a fabric can write the names of all nodes into the selector."""
    nodes = {
        "key": "kubernetes.io/hostname",
        "operator": "In",
        "values": [f"node-{number:060}" for number in range(1_200)],
    }
    selector = {"nodeSelectorTerms": [{"matchExpressions": [nodes]}]}
    result = {"request": "one", "driver": DRIVER, "pool": "p", "device": "d"}
    status = {"allocation": {"devices": {"results": [result]}, "nodeSelector": selector}}
    found = document(claim_seen(a_claim(exactly(), status=status)).reported)
    assert found == {
        "uid": "uid-c",
        "allocation": {"results": [result], "nodes": []},
        "unsupported": f"an allocation of more than {limits.FACT_BYTES} bytes",
    }


def test_the_devices_of_an_allocation_with_many_capacities_count_as_a_whole() -> None:
    names = [f"domain-of-a-driver.{'x' * 40}.example.com/capacity-{number:02}" for number in range(32)]
    result = {"request": "one", "driver": DRIVER, "pool": "p", "device": "d"}
    share = {**result, "shareID": "s", "consumedCapacity": dict.fromkeys(names, "42949672960")}
    raw = a_claim(exactly(), status={"allocation": {"devices": {"results": [share] * 32}}})
    found = document(claim_seen(raw).reported)
    assert found["allocation"] == {"results": [result] * 32, "nodes": []}


def test_configurations_beyond_the_limit_are_not_kept() -> None:
    config = [{"opaque": {"driver": DRIVER, "parameters": {str(number): {} for number in range(800)}}}] * 16
    found = claim_seen(a_claim(exactly(), config=config))
    assert document(found.reported)["unsupported"] == f"configurations of more than {limits.FACT_BYTES} bytes"
    assert found.configurations == ""
    kept = claim_seen(a_claim(exactly(), config=config[:1]))
    assert orjson.loads(kept.configurations) == config[:1]
    allocated = a_claim(exactly(), config=config[:1], status={"allocation": {"devices": {"results": []}}})
    assert claim_seen(allocated).configurations == "", "it is not written again"


@pytest.mark.parametrize("plural", ["resourceslices", "devicetaintrules", "deviceclasses", "resourceclaims"])
def test_objects_of_devices_that_are_no_objects_are_no_events(plural: str) -> None:
    for raw in ({}, {"metadata": None, "spec": 3}, {"metadata": {"name": ""}}):
        assert read_object(plural, raw, Settings()) is None
    hostile = {"metadata": {"name": "x"}, "spec": {"devices": [None, {"attributes": [1]}, 3], "pool": "p"}}
    assert read_object(plural, hostile, Settings()) is not None
    assert read_deletion(plural, "x") is not None


# -- pods -------------------------------------------------------------------------------------------------------------


def claims_of(raw: Raw) -> tuple[PodClaim, ...]:
    fact = read_object("pods", raw, Settings())
    assert isinstance(fact, PodSeen)
    assert isinstance(fact.pod, Pod)
    return fact.pod.claims


def test_pods_of_a_class_have_their_own_claims() -> None:
    classes = PodClasses()
    entries = [{"name": "gpu", "resourceClaimTemplateName": "t"}, {"name": "nic", "resourceClaimName": "shared"}]
    for name, statuses, gpu in (
        ("w0", [{"name": "gpu", "resourceClaimName": "w0-gpu-x"}], "w0-gpu-x"),
        ("w1", [{"name": "gpu"}], None),
        ("w2", None, ""),
        ("w3", [{"name": "nic", "resourceClaimName": "forged"}], ""),
    ):
        raw = a_pod(name, resourceClaims=entries)
        raw["status"]["resourceClaimStatuses"] = statuses
        expected = (PodClaim("gpu", gpu, is_made=True), PodClaim("nic", "shared", is_made=False))
        pod = classes.read(partial_pod(orjson.dumps(raw)), Settings())
        assert isinstance(pod, Pod)
        assert pod.claims == claims_of(raw) == expected
    assert len(classes) == 1


# -- allocations ------------------------------------------------------------------------------------------------------


def choose(*results: tuple[str, str], **fields: Any) -> ChosenDevices:
    devices = tuple(ChosenDevice(request, DRIVER, "n1", device) for request, device in results)
    return ChosenDevices(ClaimRef("dev", "c", "uid-c"), devices, **fields)


def written(raw: Raw, chosen: ChosenDevices, *classes: DeviceClass) -> Any:
    found = allocation(claim_seen(raw), chosen, {one.name: one for one in classes}, PodUid("uid-p"))
    return orjson.loads(found)


def a_result(request: str, device: str, **fields: Any) -> Raw:
    return {"request": request, "driver": DRIVER, "pool": "n1", "device": device, **fields}


def test_a_share_of_a_device_has_an_id_of_its_own_that_is_equal_in_each_attempt() -> None:
    consumed = [{"memory": "1Gi"}, {}]
    devices = tuple(ChosenDevice("one", DRIVER, "n1", "gpu-0", False, one, ("ready",), ("bad",)) for one in consumed)
    claim = a_claim(exactly(capacity={"requests": {"memory": "1Gi"}}))
    assert document(claim_seen(claim).reported)["requests"][0]["capacity"] == {"memory": "1Gi"}
    chosen = ChosenDevices(ClaimRef("dev", "c", "uid-c"), devices, "n1")
    results = written(claim, chosen, a_class())["devices"]["results"]
    assert results == written(claim, chosen, a_class())["devices"]["results"]
    assert [one.get("consumedCapacity") for one in results] == [{"memory": "1Gi"}, None]
    assert len({one["shareID"] for one in results}) == 2
    conditions = [(one["bindingConditions"], one["bindingFailureConditions"]) for one in results]
    assert conditions == [(["ready"], ["bad"])] * 2


def test_an_allocation_has_results_with_tolerations_and_the_node() -> None:
    found = written(
        a_claim(exactly(tolerations=[TOLERATION]), exactly("two")),
        choose(("one", "gpu-0"), ("two", "gpu-1"), node="n1"),
        a_class(),
    )
    here = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    assert found == {
        "devices": {"results": [a_result("one", "gpu-0", tolerations=[TOLERATION]), a_result("two", "gpu-1")]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [here]}]},
    }


def test_an_allocation_of_network_devices_has_their_nodes_or_none() -> None:
    found = written(a_claim(exactly()), choose(("one", "gpu-0"), terms=(TERM,)), a_class())
    assert found["nodeSelector"] == {"nodeSelectorTerms": [TERM]}
    assert "nodeSelector" not in written(a_claim(exactly()), choose(("one", "gpu-0")), a_class())


def test_configurations_of_classes_come_first_and_once() -> None:
    """As kube-scheduler writes them: a configuration for all requests names none."""
    other = {"opaque": {"driver": DRIVER, "parameters": {"mode": "own"}}}
    raw = a_claim(
        exactly(),
        exactly("two"),
        exactly("three", "nics"),
        config=[{"requests": ["two"], **other}, {"requests": ["one", "two", "three"], **other}, other],
    )
    results = choose(("one", "gpu-0"), ("two", "gpu-1"), ("three", "nic-0"))
    found = written(raw, results, a_class(config=[OPAQUE]), a_class("nics"))
    assert found["devices"]["config"] == [
        {"source": "FromClass", "requests": ["one", "two"], **OPAQUE},
        {"source": "FromClaim", "requests": ["two"], **other},
        {"source": "FromClaim", **other},
        {"source": "FromClaim", **other},
    ]
    found = written(a_claim(exactly()), choose(("one", "gpu-0")), a_class(config=[OPAQUE]))
    assert found["devices"]["config"] == [{"source": "FromClass", **OPAQUE}]


def test_only_the_chosen_alternative_brings_its_class_and_configuration() -> None:
    raw = a_claim(
        {
            "name": "any",
            "firstAvailable": [
                {"name": "big", "deviceClassName": "big"},
                {"name": "small", "deviceClassName": "gpus", "tolerations": [TOLERATION]},
            ],
        },
        exactly("nic", "nics"),
        config=[
            {"requests": ["any/big"], **OPAQUE},
            {"requests": ["any/small"], **OPAQUE},
            {"requests": ["any"], **OPAQUE},
        ],
    )
    chosen = choose(("any/small", "gpu-0"), ("nic", "nic-0"))
    found = written(raw, chosen, a_class("big", config=[OPAQUE]), a_class(config=[OPAQUE]), a_class("nics"))
    assert found["devices"] == {
        "results": [a_result("any/small", "gpu-0", tolerations=[TOLERATION]), a_result("nic", "nic-0")],
        "config": [
            {"source": "FromClass", "requests": ["any/small"], **OPAQUE},
            {"source": "FromClaim", "requests": ["any/small"], **OPAQUE},
            {"source": "FromClaim", "requests": ["any"], **OPAQUE},
        ],
    }


def test_an_allocation_without_its_class_fails() -> None:
    with pytest.raises(KeyError, match="gpus"):
        written(a_claim(exactly()), choose(("one", "gpu-0")))


def test_the_choice_of_the_core_is_read() -> None:
    text = orjson.dumps(
        [
            {"claim": "dev/c", "uid": "u", "results": [a_result("one", "gpu-0", admin=True)], "node": "n1"},
            {"claim": "dev/d", "uid": "v", "results": [a_result("one", "gpu-1")], "terms": [TERM]},
        ]
    ).decode()
    admin = ChosenDevice("one", DRIVER, "n1", "gpu-0", is_admin=True)
    other = ChosenDevice("one", DRIVER, "n1", "gpu-1")
    assert chosen_devices(text) == (
        ChosenDevices(ClaimRef("dev", "c", "u"), (admin,), "n1"),
        ChosenDevices(ClaimRef("dev", "d", "v"), (other,), "", (TERM,)),
    )


COUNTS: dict[str, tuple[list[Raw], dict[str, int]]] = {
    "requests": ([exactly(count=2), exactly("two"), exactly("nic", "nics")], {"gpus": 3, "nics": 1}),
    "all devices": ([exactly(allocationMode="All")], {"gpus": 32}),
    "more than a claim can have": ([exactly(count=2**63 - 1)], {"gpus": 32}),
    "administrators": ([exactly(adminAccess=True, allocationMode="All")], {}),
    "alternatives": (
        [
            {
                "name": "any",
                "firstAvailable": [
                    {"name": "a", "deviceClassName": "gpus", "count": 1},
                    {"name": "b", "deviceClassName": "small", "count": 4},
                    {"name": "c", "deviceClassName": "gpus", "count": 2},
                ],
            }
        ],
        {"gpus": 2, "small": 4},
    ),
}


@pytest.mark.parametrize("requests, expected", COUNTS.values(), ids=COUNTS)
def test_queues_count_the_devices_of_a_claim_by_class_also_when_it_is_allocated(
    requests: list[Raw], expected: dict[str, int]
) -> None:
    named = {f"{name}.deviceclass.resource.k8s.io/devices": count for name, count in expected.items()}
    allocated: Raw = {"allocation": {"devices": {"results": []}}}
    assert [claim_seen(a_claim(*requests, status=status)).devices for status in (None, allocated)] == [named, named]
