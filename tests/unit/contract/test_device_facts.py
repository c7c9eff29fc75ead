"""The core reads every document of devices that the operator writes."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from muster_core.model.devices import DeviceClaim, DeviceClass, DeviceSlice
from muster_core.si.storage import read_cluster_object
from muster_operator.model.cluster_events import DeviceClaimSeen, DeviceClassSeen, DeviceSliceSeen
from muster_operator.model.settings import Settings
from muster_operator.translate.objects import read_object
from muster_si import muster_pb2

Raw = dict[str, Any]
DRIVER = "gpu.example.com"
TERM = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}, {"key": "x", "operator": "Exists"}]}
SELECTOR = {"nodeSelectorTerms": [TERM]}
TOLERATION = {"key": "health", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 30}
CEL = {"cel": {"expression": "true"}}


def read_by_core(plural: str, raw: Raw) -> Any:
    """The object as the core reads it from the operator's fact."""
    match read_object(plural, raw, Settings()):
        case DeviceSliceSeen(found):
            reported = found.reported
        case DeviceClassSeen(device_class):
            reported = device_class.reported
        case DeviceClaimSeen(claim):
            reported = claim.reported
        case other:
            raise AssertionError(other)
    kind = muster_pb2.Fact.Kind.Value(reported.kind.value)
    fact = muster_pb2.Fact(kind=kind, name=reported.name, attributes=reported.attributes, gone=reported.gone)
    [taken], rejected = read_cluster_object([fact])
    assert rejected == []
    return taken


def a_slice(*devices: Raw, **spec: Any) -> Raw:
    pool = {"name": "p", "generation": 2**62, "resourceSliceCount": 3}
    return {"metadata": {"name": "s"}, "spec": {"driver": DRIVER, "pool": pool, "devices": list(devices), **spec}}


DEVICE: Raw = {
    "name": "gpu-0",
    "attributes": {
        "model": {"string": "a"},
        "cores": {"int": -(2**63)},
        "ecc": {"bool": False},
        "other.io/driver": {"version": "1.2.3"},
    },
    "capacity": {
        "memory": {"value": "80Gi", "requestPolicy": {"default": 1, "validRange": {"min": 1, "step": 1}}},
        "lanes": {"value": 4, "requestPolicy": {"default": "1", "validValues": ["1", "2"]}},
    },
    "allowMultipleAllocations": True,
    "bindingConditions": ["a"] * 4,
    "bindingFailureConditions": ["b"] * 4,
    "bindsToNode": True,
    "taints": [{"key": "health", "value": "bad", "effect": "NoExecute"}],
    "consumesCounters": [{"counterSet": "c", "counters": {"m": {"value": "1"}}}],
}
SLICES = {
    "node": a_slice(DEVICE, nodeName="n1"),
    "nodes": a_slice(DEVICE, nodeSelector=SELECTOR),
    "all": a_slice(DEVICE, allNodes=True),
    "per device": a_slice(
        {**DEVICE, "nodeName": "n1"},
        {"name": "b", "nodeSelector": SELECTOR},
        {"name": "c", "allNodes": True},
        perDeviceNodeSelection=True,
    ),
    "unsupported": a_slice({**DEVICE, "nodeAllocatableResources": {"c": 1}}, nodeName="n1", skipNodeOperations=["x"]),
    "counters": a_slice(sharedCounters=[{"name": "c", "counters": {"m": {"value": "1"}}}], devices=None),
}


@pytest.mark.parametrize("raw", SLICES.values(), ids=SLICES)
def test_slices(raw: Raw) -> None:
    assert isinstance(read_by_core("resourceslices", raw), DeviceSlice)


def test_classes() -> None:
    specs: list[Raw] = [{}, {"selectors": [CEL] * 32}, {"selectors": [{"regex": "x"}]}, {"config": [{"opaque": {}}]}]
    specs.append({"extendedResourceName": "x.io/gpu"})
    for spec in specs:
        assert isinstance(read_by_core("deviceclasses", {"metadata": {"name": "c"}, "spec": spec}), DeviceClass)


def a_request(name: str = "one", **fields: Any) -> Raw:
    return {"name": name, "exactly": {"deviceClassName": "gpus", **fields}}


def a_claim(*requests: Raw, status: Raw | None = None, **devices: Any) -> Raw:
    owner = {"kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}
    metadata = {"name": "c", "namespace": "dev", "uid": "uid-c", "ownerReferences": [owner]}
    return {"metadata": metadata, "spec": {"devices": {"requests": list(requests), **devices}}, "status": status or {}}


RESULT = {"request": "one", "driver": DRIVER, "pool": "p", "device": "gpu-0", "tolerations": [TOLERATION]}
CLAIMS = {
    "exactly": a_claim(
        a_request(selectors=[CEL] * 32, count=2**63 - 1, adminAccess=True, tolerations=[TOLERATION] * 16),
        a_request("all", allocationMode="All", capacity={"requests": {"memory": "1Gi"}}),
        constraints=[
            {"requests": ["one"], "matchAttribute": f"{DRIVER}/numa"},
            {"distinctAttribute": f"{DRIVER}/rack"},
        ],
    ),
    "first available": a_claim(
        {"name": "any", "firstAvailable": [{"name": f"s{number}", "deviceClassName": "c"} for number in range(8)]}
    ),
    "unsupported": a_claim(a_request(allocationMode="Some"), a_request("b", tolerations=[{"operator": "Gt"}])),
    "unknown": a_claim({"name": "one"}, constraints=[{"distinctAttribute": "a/b"}, {"other": True}]),
    "allocated": a_claim(
        a_request(),
        status={
            "allocation": {"devices": {"results": [RESULT] * 32}, "nodeSelector": SELECTOR},
            "reservedFor": [{"resource": "pods", "name": f"p{number}", "uid": f"u{number}"} for number in range(256)],
        },
    ),
    "everywhere": a_claim(
        a_request(),
        status={
            "allocation": {
                "devices": {
                    "results": [
                        {**RESULT, "adminAccess": True},
                        {**RESULT, "shareID": "s", "consumedCapacity": {"m": "1"}},
                    ]
                }
            }
        },
    ),
    "conditions": a_claim(
        a_request(), status={"allocation": {"devices": {"results": [{**RESULT, "bindingConditions": ["x"]}]}}}
    ),
    "too large": a_claim(a_request(selectors=[{"cel": {"expression": "x" * 10_240}}] * 8)),
}


@pytest.mark.parametrize("raw", CLAIMS.values(), ids=CLAIMS)
def test_claims(raw: Raw) -> None:
    found = read_by_core("resourceclaims", raw)
    assert isinstance(found, DeviceClaim)
    assert (found.allocation is not None) == ("allocation" in raw["status"])


def test_the_largest_slice_that_kubernetes_accepts() -> None:
    attributes = {f"{number:02}{'a' * 60}.example.com/{'i' * 32}": {"string": "v" * 64} for number in range(32)}
    devices = [{"name": f"device-{number:03}{'d' * 40}", "attributes": attributes} for number in range(128)]
    raw = a_slice(*devices, nodeName="n1")
    assert len(orjson.dumps(raw)) > 512 * 1024
    assert isinstance(read_by_core("resourceslices", raw), DeviceSlice)
