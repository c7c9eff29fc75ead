"""Objects of the API server without `fieldsV1`: which fields a manager wrote is half of a pod, and read by nobody here.

Who the managers are is read, placeholders are known by that (semantics 18). Decoding a pod of 8 KB whole takes 33 us,
passing over those parts 13 us. All else is kept as it is: `metadata` is named field by field because that is how one
is left out, and ObjectMeta is a closed list (Kubernetes API reference).
"""

from __future__ import annotations

from typing import Any, Final, TypedDict

import msgspec
import orjson

from muster_operator.translate.sketch import Sketch, sketched_event, sketched_pod


class _Manager(TypedDict, total=False):
    """ManagedFieldsEntry, but for `fieldsV1`."""

    apiVersion: Any
    fieldsType: Any
    manager: Any
    operation: Any
    subresource: Any
    time: Any


class _Metadata(TypedDict, total=False):
    """ObjectMeta, but for `selfLink`, which no server sends any more."""

    annotations: Any
    creationTimestamp: Any
    deletionGracePeriodSeconds: Any
    deletionTimestamp: Any
    finalizers: Any
    generateName: Any
    generation: Any
    labels: Any
    managedFields: list[_Manager] | None
    name: Any
    namespace: Any
    ownerReferences: Any
    resourceVersion: Any
    uid: Any


class _Object(TypedDict, total=False):
    """What is read of the kinds that are watched, at their top, and the Status that an ERROR carries."""

    apiVersion: Any
    kind: Any
    metadata: _Metadata
    spec: Any
    status: Any
    data: Any
    binaryData: Any
    immutable: Any
    value: Any
    globalDefault: Any
    description: Any
    preemptionPolicy: Any
    provisioner: Any
    volumeBindingMode: Any
    allowedTopologies: Any
    storageClassName: Any
    nodeTopology: Any
    capacity: Any
    maximumVolumeSize: Any
    code: Any
    message: Any
    reason: Any
    details: Any


class _Event(TypedDict):
    type: Any
    object: _Object


_OBJECT: Final = msgspec.json.Decoder(_Object)
_EVENT: Final = msgspec.json.Decoder(_Event)


def decoded_object(json: bytes | memoryview) -> Any:
    """An object of a list. Raises ValueError: it is no JSON."""
    try:
        return _OBJECT.decode(json)
    except msgspec.DecodeError:
        return orjson.loads(json)


def decoded_event(json: bytes | memoryview) -> Any:
    """An event of a watch. Raises ValueError: it is no JSON."""
    try:
        return _EVENT.decode(json)
    except msgspec.DecodeError:
        return orjson.loads(json)


def decoded_pod(json: bytes | memoryview) -> Any:
    """A pod of a list, as a Sketch if it can be read as one. Raises ValueError: it is no JSON."""
    try:
        return sketched_pod(json)
    except msgspec.DecodeError:
        return decoded_object(json)


def decoded_pod_event(json: bytes) -> Any:
    """An event of a watch of pods, with a Sketch where it can be read as one. Raises ValueError: it is no JSON."""
    try:
        event = sketched_event(json)
    except msgspec.DecodeError:  # a bookmark, an error, or a pod that is odd
        return decoded_event(json)
    return {"type": event.type, "object": event.object}


def whole(sketch: Sketch) -> Any:
    """All of the pod that a sketch is of. Raises ValueError: it is no JSON."""
    return decoded_event(sketch.json)["object"] if sketch.is_event else decoded_object(sketch.json)
