"""Writes that precede a bind: a volume or a node for a PersistentVolumeClaim, devices for a ResourceClaim.

Other controllers change these objects too. So each is read, compared with what the command wants, and patched with its
resource version as precondition. A repeated write changes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from muster_operator.kube.http import Policies, Retry
from muster_operator.kube.session import MERGE_PATCH, Reply, Request
from muster_operator.model.commands import ClaimCommand, ClaimVolume, ReserveClaim, SelectNode
from muster_operator.model.names import FIELD_MANAGER
from muster_operator.model.storage import ClaimRef
from muster_operator.translate.storage import SELECTED_NODE
from muster_operator.translate.values import Raw, items, mapping, objects, strings, text

#: Annotation of a volume that was not pre-bound, so that it becomes available when the binding is undone.
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"


class Contested(Exception):
    """The object has changed, so that the command cannot be carried out. The message is the reason."""


def read_claim_object(command: ClaimCommand) -> Request:
    """Reads the volume or the claim of the command."""
    return Request("GET", _path(command))


def claim_patch(command: ClaimCommand, raw: Raw) -> Request | None:
    """The next patch for the object in its present state. None if none is needed.

    Raises:
        Contested: the command cannot be carried out any more.
    """
    fields = _change(command, raw)
    if fields is None:
        return None
    path = _path(command) + ("/status" if "status" in fields else "")
    metadata = mapping(raw.get("metadata"))
    known = {"uid": metadata.get("uid"), "resourceVersion": metadata.get("resourceVersion")}
    body = {**fields, "metadata": {**known, **fields.get("metadata", {})}}
    return Request("PATCH", f"{path}?fieldManager={FIELD_MANAGER}", orjson.dumps(body), MERGE_PATCH)


def is_first(request: Request) -> bool:
    """Whether the patch of a ResourceClaim is that of its finalizer, which precedes its allocation."""
    return "/status?" not in request.path


def _change(command: ClaimCommand, raw: Raw) -> dict[str, Any] | None:
    """What is to be changed now. Raises Contested, see `claim_patch`."""
    match command:
        case ClaimVolume():
            return _volume_change(command, raw)
        case SelectNode():
            return _claim_change(command, raw)
        case ReserveClaim():
            return _reservation_change(command, raw)


def _path(command: ClaimCommand) -> str:
    if isinstance(command, ClaimVolume):
        return f"/api/v1/persistentvolumes/{command.volume}"
    if isinstance(command, ReserveClaim):
        return f"/apis/resource.k8s.io/v1/namespaces/{command.claim.namespace}/resourceclaims/{command.claim.name}"
    return f"/api/v1/namespaces/{command.claim.namespace}/persistentvolumeclaims/{command.claim.name}"


def _volume_change(command: ClaimVolume, raw: Raw) -> dict[str, Any] | None:
    written, claim = mapping(raw.get("spec")).get("claimRef"), command.claim
    now = ClaimRef(*(text(mapping(written).get(field)) for field in ("namespace", "name", "uid")))
    is_for_it = isinstance(written, dict) and now.key == claim.key and now.uid in {"", claim.uid}
    if command.undo:
        is_bound = mapping(raw.get("status")).get("phase") == "Bound"
        return _freed(raw) if is_for_it and now.uid and not is_bound else None
    if isinstance(written, dict) and not is_for_it:
        raise Contested(f'persistentvolume "{command.volume}" was taken by claim {now.key}')
    if now.uid:
        return None
    ref = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": claim.namespace, "name": claim.name}
    fields: dict[str, Any] = {"spec": {"claimRef": {**ref, "uid": claim.uid}}}
    if not isinstance(written, dict):
        fields["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
    return fields


def _freed(raw: Raw) -> dict[str, Any]:
    """Undoes the binding. A volume that its user had pre-bound to a claim keeps that claim, without UID."""
    if BOUND_BY_CONTROLLER in strings(mapping(raw.get("metadata")).get("annotations")):
        return {"spec": {"claimRef": None}, "metadata": {"annotations": {BOUND_BY_CONTROLLER: None}}}
    return {"spec": {"claimRef": {"uid": None, "resourceVersion": None}}}


def _claim_change(command: SelectNode, raw: Raw) -> dict[str, Any] | None:
    metadata, spec = mapping(raw.get("metadata")), mapping(raw.get("spec"))
    selected = strings(metadata.get("annotations")).get(SELECTED_NODE, "")
    is_same = metadata.get("uid") == command.claim.uid
    if command.undo:
        is_ours = is_same and selected == command.node and not text(spec.get("volumeName"))
        return {"metadata": {"annotations": {SELECTED_NODE: None}}} if is_ours else None
    if not is_same:
        raise Contested(f'persistentvolumeclaim "{command.claim.name}" was deleted and created again')
    if selected and selected != command.node:
        raise Contested(f'persistentvolumeclaim "{command.claim.name}" is provisioned for node {selected}')
    return None if selected else {"metadata": {"annotations": {SELECTED_NODE: command.node}}}


#: Finalizer of an allocated ResourceClaim. kube-controller-manager removes it with the allocation.
DEVICE_FINALIZER: Final = "resource.kubernetes.io/delete-protection"


def _reservation_change(command: ReserveClaim, raw: Raw) -> dict[str, Any] | None:
    """First the finalizer, then allocation and reservation in one write, as kube-scheduler does."""
    metadata, status, claim = mapping(raw.get("metadata")), mapping(raw.get("status")), command.claim
    is_same, consumers = metadata.get("uid") == claim.uid, objects(status.get("reservedFor"))
    is_reserved = any(consumer.get("uid") == command.pod.uid for consumer in consumers)
    if command.undo:
        return _unreserved(command, status) if is_same else None
    if not is_same:
        raise Contested(f'resourceclaim "{claim.name}" was deleted and created again')
    if metadata.get("deletionTimestamp"):
        raise Contested(f'resourceclaim "{claim.name}" is being deleted')
    found, chosen = status.get("allocation"), orjson.loads(command.allocation) if command.allocation else None
    if found is None and chosen is None:
        raise Contested(f'resourceclaim "{claim.name}" got deallocated elsewhere in the meantime')
    if found is not None and chosen is not None and _devices_of(found) != _devices_of(chosen):
        raise Contested(f'resourceclaim "{claim.name}" got allocated elsewhere in the meantime')
    if found is not None and is_reserved:
        return None
    finalizers = items(metadata.get("finalizers"))
    if found is None and DEVICE_FINALIZER not in finalizers:
        return {"metadata": {"finalizers": [*finalizers, DEVICE_FINALIZER]}}
    if chosen is not None and any(one.get("bindingConditions") for one in chosen["devices"]["results"]):
        chosen["allocationTimestamp"] = datetime.now(tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    consumer = {"resource": "pods", "name": command.pod.name, "uid": command.pod.uid}
    reserved = consumers if is_reserved else [*consumers, consumer]
    return {"status": {"reservedFor": reserved} | ({"allocation": chosen} if found is None else {})}


def _unreserved(command: ReserveClaim, status: Raw) -> dict[str, Any] | None:
    """Removes the reservation, and the allocation if no other pod uses or awaits it, and no other one was written."""
    consumers = objects(status.get("reservedFor"))
    others = [consumer for consumer in consumers if consumer.get("uid") != command.pod.uid]
    found = status.get("allocation")
    is_it = not command.allocation or _devices_of(found or {}) == _devices_of(orjson.loads(command.allocation))
    if not others and found is not None and is_it and not command.keeps:
        return {"status": {"reservedFor": None, "allocation": None}}
    return {"status": {"reservedFor": others}} if len(others) < len(consumers) else None


def _devices_of(allocation: Raw) -> list[tuple[str, ...]]:
    """The devices of an allocation, with the requests that they are for."""
    results = objects(mapping(mapping(allocation).get("devices")).get("results"))
    return sorted(tuple(text(one.get(field)) for field in ("request", "driver", "pool", "device")) for one in results)


def create(manifest: Raw) -> Request:
    """Creates a ResourceClaim."""
    path = f"/apis/resource.k8s.io/v1/namespaces/{manifest['metadata']['namespace']}/resourceclaims"
    return Request("POST", f"{path}?fieldManager={FIELD_MANAGER}", orjson.dumps(manifest))


def read_created(manifest: Raw) -> Request:
    """Reads the ResourceClaim that has the name of the manifest."""
    metadata = manifest["metadata"]
    path = f"/apis/resource.k8s.io/v1/namespaces/{metadata['namespace']}/resourceclaims"
    return Request("GET", f"{path}/{metadata['name']}")


Send = Callable[[ClaimCommand, Request, Retry], Awaitable[Reply]]

#: Maximum number of attempts on an object that other controllers also change.
_MAX_ATTEMPTS: Final = 8
_CONFLICT: Final = 409


async def write(command: ClaimCommand, send: Send, policies: Policies) -> Reply:
    """Reads and patches the object, and returns the last reply. A claim of devices gets its finalizer first.

    After a conflict the object is read again. If the command cannot be carried out any more, the reply is a conflict
    with the reason.
    """
    known = command.known if isinstance(command, ReserveClaim) else ""
    reply = Reply(200, known.encode()) if known else Reply(_CONFLICT, b"")
    for _ in range(_MAX_ATTEMPTS):
        if reply.status == _CONFLICT:
            reply = await send(command, read_claim_object(command), policies.read)
        if not reply.ok:
            break
        try:
            request = claim_patch(command, reply.json())
        except Contested as contested:
            return Reply(_CONFLICT, orjson.dumps({"reason": "Contested", "message": str(contested)}))
        if request is None:
            break
        reply = await send(command, request, policies.delete)
        if reply.ok and not (isinstance(command, ReserveClaim) and is_first(request)):
            return _complete(command, reply)
    return reply


def _complete(command: ClaimCommand, reply: Reply) -> Reply:
    """The reply, or a conflict if the API server dropped fields of the allocation, which it does without their gate."""
    if not isinstance(command, ReserveClaim) or command.undo or not command.allocation:
        return reply
    stored = objects(
        mapping(mapping(mapping(reply.json().get("status")).get("allocation")).get("devices")).get("results")
    )
    chosen = orjson.loads(command.allocation)["devices"]["results"]
    dropped = sorted({field for one, there in zip(chosen, stored, strict=False) for field in one.keys() - there.keys()})
    if not dropped:
        return reply
    message = f"the API server does not store {', '.join(dropped)}: its feature gate is off"
    return Reply(_CONFLICT, orjson.dumps({"reason": "Contested", "message": message}))
