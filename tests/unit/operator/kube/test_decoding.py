"""Only `fieldsV1` is removed when JSON is decoded to an object."""

from typing import Any

import orjson
import pytest

from muster_operator.kube.watch import decoded_event, decoded_object

MANAGER = {
    "apiVersion": "v1",
    "fieldsType": "FieldsV1",
    "manager": "kubelet",
    "operation": "Update",
    "subresource": "status",
    "time": "2026-01-01T00:00:00Z",
}
METADATA: dict[str, Any] = {
    "annotations": {"a": "b"},
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "deletionGracePeriodSeconds": 30,
    "deletionTimestamp": "2026-01-01T00:00:00Z",
    "finalizers": ["x"],
    "generateName": "p-",
    "generation": 2,
    "labels": {"a": "b"},
    "managedFields": [MANAGER],
    "name": "p",
    "namespace": "ns",
    "ownerReferences": [{"kind": "Job", "name": "j", "uid": "u"}],
    "resourceVersion": "7",
    "uid": "uid-p",
}
OBJECTS: list[dict[str, Any]] = [
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {"containers": [{"name": "c"}], "any": 1},
        "status": {"phase": "Running"},
    },
    {"apiVersion": "v1", "kind": "Node", "spec": {"unschedulable": True}, "status": {"capacity": {"cpu": "1"}}},
    {"apiVersion": "v1", "kind": "Namespace", "spec": {"finalizers": []}, "status": {"phase": "Active"}},
    {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}, "binaryData": {"c": "ZA=="}, "immutable": True},
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 7, "globalDefault": False}
    | {"description": "d", "preemptionPolicy": "Never"},
]


@pytest.mark.parametrize("made", OBJECTS, ids=lambda made: made["kind"])
def test_decoding_an_object_drops_only_the_managed_fields(made: dict[str, Any]) -> None:
    complete = made | {
        "metadata": METADATA | {"managedFields": [MANAGER | {"fieldsV1": {"f:spec": {"f:containers": {}}}}]}
    }
    assert decoded_object(orjson.dumps(complete)) == made | {"metadata": METADATA}
    event = {"type": "ADDED", "object": complete}
    assert decoded_event(orjson.dumps(event)) == {"type": "ADDED", "object": made | {"metadata": METADATA}}


def test_an_error_event_is_decoded_completely() -> None:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "too old"}
    event = {"type": "ERROR", "object": status | {"reason": "Expired", "code": 410, "details": {"uid": "x"}}}
    assert decoded_event(orjson.dumps(event)) == event


@pytest.mark.parametrize("odd", [{"type": "ADDED", "object": {"metadata": 7}}, {"type": "ADDED", "object": []}, 3])
def test_json_of_another_shape_is_returned_unchanged(odd: object) -> None:
    assert decoded_event(orjson.dumps(odd)) == odd
    assert decoded_object(orjson.dumps(odd)) == odd if not isinstance(odd, dict) else True


def test_invalid_json_raises_a_value_error() -> None:
    for broken in (b'{"type":', b""):
        with pytest.raises(ValueError, match=r"."):
            decoded_event(broken)
