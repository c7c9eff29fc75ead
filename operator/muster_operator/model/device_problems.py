"""Texts of problems with devices and their claims, worded as in kube-scheduler where it has one. See `problems`."""

from __future__ import annotations


def device_claims_disabled() -> str:
    """Scheduling of pods with ResourceClaims is experimental, and disabled.

    Set `kubernetes.deviceClaims` to `true` and restart the operator.
    """
    return 'resource claims (DRA) need the setting kubernetes.deviceClaims: "true", which is experimental'


def claim_not_created(entry: str) -> str:
    """Kubernetes has not created the ResourceClaim from its template yet.

    If that lasts, check that the template exists, and the log of kube-controller-manager.
    """
    return f'ResourceClaim of "{entry}" not created yet'


def extended_claim_not_created(resources: str) -> str:
    """No ResourceClaim exists yet for extended resources that DeviceClasses provide.

    If that lasts, the text has the answer of the API server.
    """
    return f"ResourceClaim for extended resources not created yet: {resources}"


def resource_claim_missing(claim: str) -> str:
    """The pod names a ResourceClaim that does not exist.

    Create it.
    """
    return f'resourceclaim "{claim}" not found'


def special_claim_gone(claim: str) -> str:
    """The claim for extended resources of the pod was deleted before the pod had a node. It is not created again.

    Delete the pod, so that its controller creates another one.
    """
    return f'resourceclaim "{claim}" for its extended resources is gone; delete the pod, so that another is created'


def claim_of_pod_group(claim: str) -> str:
    """The ResourceClaim was created for a PodGroup, which Muster does not support.

    Use a claim of each pod, or a named one.
    """
    return f'resourceclaim "{claim}" is a claim of a PodGroup, which is not supported'


def claim_of_another_pod(claim: str, pod: str) -> str:
    """The status of the pod names a ResourceClaim that was not created for it.

    Create the pod again.
    """
    return f'resourceclaim "{claim}" was not created for pod "{pod}" (pod is not owner)'


def reservation_lost(claim: str) -> str:
    """Another client changed the ResourceClaim after it was reserved for the pod. The core chooses again."""
    return f'resourceclaim "{claim}" lost its devices or the reservation for the pod'


def binding_failed(condition: str) -> str:
    """The driver of a device set one of its bindingFailureConditions, so that the pod cannot be bound.

    Check the driver.
    """
    return f"a device is not ready: {condition}"


def devices_not_ready(seconds: float, waiting: str) -> str:
    """Drivers did not make devices ready for the pod, or for members of its gang, in `service.volumeBindTimeout`.

    Check the drivers, or set a longer timeout.
    """
    return f"not ready within {seconds:g} s: {waiting}"


def devices_taken_back() -> str:
    """A pod with the devices of the ResourceClaim was not bound, and Muster removes the allocation."""
    return "its devices are being deallocated"


def device_class_missing(name: str) -> str:
    """The DeviceClass of a request was deleted after the core chose the devices.

    Create it again.
    """
    return f'deviceclass "{name}" not found'
