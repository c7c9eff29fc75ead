"""Extended resources that a DeviceClass provides: the special ResourceClaim of a pod, and the status that names it.

Source: Kubernetes 1.37, `extendeddynamicresources.go` of the DynamicResources plugin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from muster_operator.model.devices import DeviceClass, PodClaim
from muster_operator.model.pods import PodRef
from muster_operator.translate.values import Raw, mapping, nanos, objects, text
from muster_si import keys

#: The annotation of the claim.
ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
#: Names the claim among those of the pod. No entry of a pod has this name, because it has a space.
ENTRY = "extended resources"
_NANOS = 1_000_000_000
_NAME_CHARACTERS = 253


def providers(classes: Iterable[DeviceClass]) -> dict[str, str]:
    """The class by extended resource. Of several with the same resource the newest, then the first by name."""
    found: dict[str, str] = {}
    for one in sorted(classes, key=lambda one: (-one.created_s, one.name)):
        if one.resource:
            found.setdefault(one.resource, one.name)
        found[keys.RESOURCE_OF_CLASS + one.name] = one.name
    return found


def claim_of_status(status: Raw) -> tuple[tuple[PodClaim, ...], frozenset[str]]:
    """The special claim that the pod's status names, and the resources that its devices are for."""
    written = mapping(status.get("extendedResourceClaimStatus"))
    name = text(written.get("resourceClaimName"))
    if not name:
        return (), frozenset()
    resources = {text(one.get("resourceName")) for one in objects(written.get("requestMappings"))}
    return (PodClaim(ENTRY, name, is_made=True),), frozenset(resources)


def claim(pod: PodRef, spec: Raw, classes: Mapping[str, str]) -> tuple[Raw, Raw]:
    """The special claim of a pod for these resources, and the pod's `extendedResourceClaimStatus`.

    `classes`: the class by resource. Differs: the name is that of the pod and a hash, so that a repeated creation finds
    the claim.
    """
    requests, mappings = _requests(spec, classes)
    suffix = f"-extended-resources-{sha256(pod.uid.encode()).hexdigest()[:5]}"
    name = pod.name[: _NAME_CHARACTERS - len(suffix)].rstrip("-.") + suffix
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
    manifest = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": name,
            "namespace": pod.namespace,
            "annotations": {ANNOTATION: "true"},
            "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": requests}},
    }
    return manifest, {"resourceClaimName": name, "requestMappings": mappings}


def is_same(one: Raw, other: Raw) -> bool:
    """Whether two special claims ask for the same. A claim that a user wrote may ask for other devices."""
    return _wanted(one) == _wanted(other)


def _wanted(raw: Raw) -> tuple[object, ...]:
    is_special = mapping(mapping(raw.get("metadata")).get("annotations")).get(ANNOTATION) == "true"
    devices = mapping(mapping(raw.get("spec")).get("devices"))
    requests = [
        {**one, "exactly": {"allocationMode": "ExactCount", "count": 1} | dict(mapping(one.get("exactly")))}
        for one in objects(devices.get("requests"))
    ]
    return is_special, requests, devices.get("constraints") or [], devices.get("config") or []


def _requests(spec: Raw, classes: Mapping[str, str]) -> tuple[list[Raw], list[Raw]]:
    """The requests of the claim, and which of them each container uses.

    An init container that is no sidecar uses the devices of the containers that start after it, and only requests what
    these lack. Init containers of this kind share one such request, the largest.
    """
    inits = objects(spec.get("initContainers"))
    containers = [*inits, *objects(spec.get("containers"))]
    is_short = [at < len(inits) and one.get("restartPolicy") != "Always" for at, one in enumerate(containers)]
    requests: list[Raw] = []
    mappings: list[Raw] = []
    for resource, device_class in sorted(classes.items()):
        lasting: list[Raw | None] = [None] * len(containers)
        for at, container in enumerate(containers):
            if not is_short[at]:
                lasting[at], used = _request(at, container, resource, device_class, ())
                mappings += used
        short: list[Raw] = []
        of_short: list[Raw] = []
        for at, container in enumerate(containers):
            if is_short[at]:
                request, used = _request(at, container, resource, device_class, lasting[at:])
                short += [request] if request is not None else []
                of_short += used
        largest = max(short, key=_count, default=None)
        if largest is not None:
            names = {request["name"] for request in short}
            of_short = [
                {**used, "requestName": largest["name"]} if used["requestName"] in names else used for used in of_short
            ]
            requests.append(largest)
        mappings += of_short
        requests += [request for request in lasting if request is not None]
    return sorted(requests, key=lambda request: text(request["name"])), mappings


def _count(request: Raw) -> int:
    return int(request["exactly"]["count"])


def _request(
    at: int, container: Raw, resource: str, device_class: str, reusable: Sequence[Raw | None]
) -> tuple[Raw | None, list[Raw]]:
    """The request of a container for what the reusable requests lack, and the requests that it uses."""
    written = mapping(mapping(container.get("resources")).get("requests"))
    count, left = divmod(nanos(resource, written.get(resource, 0)), _NANOS)
    if left or count <= 0:
        return None, []
    used = {"containerName": text(container.get("name")), "resourceName": resource}
    mappings: list[Raw] = []
    for request in reusable:
        if request is not None:
            count -= _count(request)
            mappings.append({**used, "requestName": request["name"]})
            if count <= 0:
                return None, mappings
    name = f"container-{at}-request-{sorted(written).index(resource)}"
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}
    return {"name": name, "exactly": exactly}, [*mappings, {**used, "requestName": name}]
