"""Builders of ResourceClaims and DeviceClasses for scenarios: raw objects and their events."""

from __future__ import annotations

from typing import Any

from muster_operator.model.cluster_events import ClusterEvent
from muster_operator.model.devices import ChosenDevice, ChosenDevices
from muster_operator.model.storage import ClaimRef
from tests.unit.operator.controller.storage import seen

Raw = dict[str, Any]

DRIVER = "gpu.example.com"
#: The claim that most scenarios use.
GPU = ClaimRef("dev", "gpu", "uid-gpu")
ENTRY = {"name": "gpu", "resourceClaimName": "gpu"}
MADE = {"name": "gpu", "resourceClaimTemplateName": "any"}


def a_result(device: str = "gpu-0", request: str = "one") -> Raw:
    """Return a result of an allocation."""
    return {"request": request, "driver": DRIVER, "pool": "n1", "device": device}


def an_allocation(*devices: str, node: str = "n1") -> Raw:
    """Return an allocation of these devices on a node."""
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "devices": {"results": [a_result(device) for device in devices or ("gpu-0",)]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [here]}]},
    }


def a_claim(
    name: str = "gpu",
    *,
    owner: str = "",
    reserved: tuple[str, ...] = (),
    allocation: Raw | None = None,
    manager: str = "muster",
    devices_status: list[Raw] | None = None,
    **fields: Any,
) -> Raw:
    """Return a claim in ``dev`` for one device, with the UID ``uid-<name>``. ``owner``: UID of the pod it is made for.

    ``manager``: who has written it; ``fields``: further metadata, or ``devices``.
    """
    devices = fields.pop("devices", {"requests": [{"name": "one", "exactly": {"deviceClassName": "gpus"}}]})
    metadata = {"name": name, "namespace": "dev", "uid": f"uid-{name}", "resourceVersion": "7", **fields}
    metadata["managedFields"] = [{"manager": "kubectl"}, {"manager": manager, "subresource": "status"}]
    if owner:
        metadata["ownerReferences"] = [{"kind": "Pod", "name": "p", "uid": owner, "controller": True}]
    status: Raw = {} if allocation is None else {"allocation": allocation}
    if devices_status:
        status["devices"] = devices_status
    if reserved:
        status["reservedFor"] = [{"resource": "pods", "name": uid, "uid": uid} for uid in reserved]
    return {"metadata": metadata, "spec": {"devices": devices}, "status": status}


def device_claim_seen(name: str = "gpu", **fields: Any) -> ClusterEvent:
    """Return the event of a claim."""
    return seen("resourceclaims", a_claim(name, **fields))


def device_class_seen(name: str = "gpus", **spec: Any) -> ClusterEvent:
    """Return the event of a class."""
    return seen("deviceclasses", {"metadata": {"name": name}, "spec": spec})


def chosen(claim: ClaimRef = GPU, device: str = "gpu-0", node: str = "n1") -> ChosenDevices:
    """Return the core's choice of a device for a claim."""
    return ChosenDevices(claim, (ChosenDevice("one", DRIVER, "n1", device),), node)
