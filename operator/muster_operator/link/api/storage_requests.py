"""What is written on volumes and claims: each is read, looked at, and changed only as it was read.

The patch carries the resourceVersion that was read, so that the API server answers 409 where somebody else wrote
meanwhile; then it is read and looked at again. What is written, and how, is what kube-scheduler writes.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from muster_operator.link.api.session import MERGE_PATCH, Request
from muster_operator.model.commands import ClaimVolume, SelectNode, StorageCommand
from muster_operator.model.storage import ClaimRef
from muster_operator.model.vocabulary import FIELD_MANAGER
from muster_operator.translate.raw import Raw, mapping, strings, text
from muster_operator.translate.storage import SELECTED_NODE

#: On a volume: that it was for nobody before, so that it is free again when the claim goes.
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"


class Contested(Exception):
    """The object is not as it would have to be; the message says for people why."""


def read(command: StorageCommand) -> Request:
    """GET the volume or the claim."""
    return Request("GET", _path(command))


def change(command: StorageCommand, raw: Raw) -> Request | None:
    """The patch that the object, as read, needs; None if it is already so.

    Raises:
        Contested: it cannot be done any more.
    """
    fields = _volume_change(command, raw) if isinstance(command, ClaimVolume) else _claim_change(command, raw)
    if fields is None:
        return None
    metadata = mapping(raw.get("metadata"))
    known = {"uid": metadata.get("uid"), "resourceVersion": metadata.get("resourceVersion")}
    body = {**fields, "metadata": {**known, **fields.get("metadata", {})}}
    return Request("PATCH", f"{_path(command)}?fieldManager={FIELD_MANAGER}", orjson.dumps(body), MERGE_PATCH)


def _path(command: StorageCommand) -> str:
    if isinstance(command, ClaimVolume):
        return f"/api/v1/persistentvolumes/{command.volume}"
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
    """For nobody again, or for the claim that its owner named, which then has no UID."""
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
        raise Contested(f'persistentvolumeclaim "{command.claim.name}" is another one by now')
    if selected and selected != command.node:
        raise Contested(f'persistentvolumeclaim "{command.claim.name}" is made for node {selected}')
    return None if selected else {"metadata": {"annotations": {SELECTED_NODE: command.node}}}
