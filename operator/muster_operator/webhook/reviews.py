"""Reads AdmissionReviews, and writes the answers to them.

Only the fields that decisions read are decoded. Every pod of the cluster can send a body, and each value that is
decoded takes many times its size in memory and holds the interpreter lock meanwhile.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import orjson
from msgspec import UNSET, Struct, UnsetType
from msgspec import Raw as Json

from muster_operator.translate.values import Raw, mapping, text
from muster_operator.webhook.context import KINDS, AdmissionAnswer, Operation, Review, Submitter

#: HTTP statuses of a rejection, as users see them: forbidden, or temporarily unavailable.
FORBIDDEN: Final = 403
UNAVAILABLE: Final = 503

#: Maximum characters of a message, so that kubectl displays it completely.
MESSAGE_LIMIT: Final = 4096

#: Maximum bytes of the labels, of the annotations and of another decoded field. All annotations of an object have at
#: most 256 KiB, before JSON escapes some characters.
FIELD_LIMIT: Final = 2**20

#: Maximum bytes of the entries of a ConfigMap. They have at most 1 MiB before JSON escapes some characters.
ENTRIES_LIMIT: Final = 2**21

#: Maximum number of values in a body, counted by its separators. Skipping millions of tiny values would hold the
#: interpreter lock for a long time.
VALUES_LIMIT: Final = 2**18
_FEW_BYTES: Final = 2**17

#: Key of the complete JSON of a pod or template, so that two differ if any of their fields does.
_COMPLETE: Final = ""


class BadReview(ValueError):
    """The request is not a valid AdmissionReview."""


@dataclass(frozen=True, slots=True)
class ReviewRequest:
    """A review and its UID, which the response repeats. `review` is None for an operation that is always allowed."""

    uid: str
    review: Review | None


_Field = Json | UnsetType


class _Request(Struct, gc=False, rename="camel"):
    """AdmissionRequest."""

    uid: _Field = UNSET
    operation: _Field = UNSET
    kind: _Field = UNSET
    namespace: _Field = UNSET
    name: _Field = UNSET
    user_info: _Field = UNSET
    object: _Field = UNSET
    old_object: _Field = UNSET


class _Question(Struct, gc=False):
    """AdmissionReview."""

    request: _Request


class _Part(Struct, gc=False, rename="camel"):
    """The fields that are read at any depth of an object."""

    metadata: _Field = UNSET
    spec: _Field = UNSET
    template: _Field = UNSET
    job_template: _Field = UNSET
    data: _Field = UNSET
    binary_data: _Field = UNSET
    name: _Field = UNSET
    uid: _Field = UNSET
    labels: _Field = UNSET
    annotations: _Field = UNSET
    owner_references: _Field = UNSET
    scheduler_name: _Field = UNSET
    node_name: _Field = UNSET
    priority_class_name: _Field = UNSET
    scheduling_group: _Field = UNSET


_NAMES: Final = dict(zip(_Part.__struct_encode_fields__, _Part.__struct_fields__, strict=True))
_METADATA: Final = ("name", "uid", "labels", "annotations", "ownerReferences")
_SPEC: Final = ("schedulerName", "nodeName", "priorityClassName", "schedulingGroup")
_QUESTIONS: Final = msgspec.json.Decoder(_Question)
_PARTS: Final = msgspec.json.Decoder(_Part)


def read_review(body: bytes) -> ReviewRequest:
    """Reads an AdmissionReview.

    Raises:
        BadReview: the request is not valid.
    """
    if len(body) > _FEW_BYTES and sum(map(body.count, (b",", b"{", b"["))) > VALUES_LIMIT:
        raise BadReview(f"the review has more than {VALUES_LIMIT} values")
    try:
        request = _QUESTIONS.decode(body).request
        return _read(request)
    except (msgspec.MsgspecError, orjson.JSONDecodeError, RecursionError) as error:
        raise BadReview(f"no AdmissionReview: {error}") from error


def _read(request: _Request) -> ReviewRequest:
    uid = text(_value("request.uid", request.uid))
    if not uid:
        raise BadReview("no AdmissionReview: request.uid is missing")
    operation = text(_value("request.operation", request.operation))
    if operation not in set(Operation) or not _is_object(request.object):
        return ReviewRequest(uid, None)
    kind = text(mapping(_value("request.kind", request.kind)).get("kind"))
    info = mapping(_value("request.userInfo", request.user_info))
    groups = info.get("groups")
    review = Review(
        operation=Operation(operation),
        kind=kind,
        namespace=text(_value("request.namespace", request.namespace)),
        name=text(_value("request.name", request.name)),
        submitter=Submitter(text(info.get("username")), tuple(map(text, groups)) if isinstance(groups, list) else ()),
        object=_object(kind, request.object),
        old=_object(kind, request.old_object) if _is_object(request.old_object) else None,
    )
    return ReviewRequest(uid, review)


def _is_object(field: _Field) -> bool:
    return field is not UNSET and bytes(memoryview(field)[:1]) == b"{"


def _value(name: str, field: _Field, limit: int = FIELD_LIMIT) -> Any:
    """Decodes a field completely. None = it is absent."""
    if field is UNSET:
        return None
    with memoryview(field) as encoded:
        if len(encoded) > limit:
            raise BadReview(f"{name} has {len(encoded)} bytes, more than {limit}: write less")
        return orjson.loads(encoded)


def _object(kind: str, field: _Field) -> Raw:
    """The parts of an object that decisions about its kind read."""
    if kind == "ConfigMap":
        part = _part(field)
        names = ("data", "binaryData")
        entries = _values(part, names, ENTRIES_LIMIT)
        return {**entries, "metadata": _values(_part(part.metadata), _METADATA)}
    return _description(field, KINDS[kind].template if kind in KINDS else ())


def _description(field: _Field, way: tuple[str, ...]) -> Raw:
    """The metadata of an object, and its pod or template at the end of the path."""
    part = _part(field)
    found: Raw = {}
    if _is_object(part.metadata):
        found["metadata"] = _values(_part(part.metadata), _METADATA)
    if way:
        below = getattr(part, _NAMES[way[0]])
        return {**found, way[0]: _description(below, way[1:])} if _is_object(below) else found
    if _is_object(part.spec):
        found["spec"] = _values(_part(part.spec), _SPEC)
    return {**found, _COMPLETE: field}


def _part(field: _Field) -> _Part:
    return _PARTS.decode(field) if field is not UNSET and _is_object(field) else _Part()


def _values(part: _Part, names: Iterable[str], limit: int = FIELD_LIMIT) -> Raw:
    fields = ((name, getattr(part, _NAMES[name])) for name in names)
    return {name: _value(name, field, limit) for name, field in fields if field is not UNSET}


def review_reply(question: ReviewRequest, answer: AdmissionAnswer, status: int = FORBIDDEN) -> bytes:
    """The AdmissionReview response. Changes of the object are a JSON patch (RFC 6902)."""
    response: dict[str, Any] = {"uid": question.uid, "allowed": answer.is_allowed}
    if not answer.is_allowed:
        reason = "ServiceUnavailable" if status == UNAVAILABLE else "Forbidden"
        response["status"] = {"code": status, "reason": reason, "message": answer.refusal[:MESSAGE_LIMIT]}
    if answer.warnings:
        response["warnings"] = list(answer.warnings)
    if answer.is_allowed and answer.object is not None and question.review is not None:
        changes = list(patch(question.review.object, answer.object))
        if changes:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(orjson.dumps(changes)).decode()
    return orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})


def patch(old: Raw, new: Raw, way: str = "") -> Iterator[dict[str, Any]]:
    """Yields the operations that add or replace the entries of `new` that `old` does not have. Nothing is removed."""
    for key, value in new.items():
        place, before = f"{way}/{key.replace('~', '~0').replace('/', '~1')}", old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            yield from patch(before, value, place)
        elif key not in old or before != value:
            yield {"op": "add", "path": place, "value": value}
