"""An AdmissionReview as it comes and as it goes back (admission.k8s.io/v1): bytes become values, and values bytes."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, Final

import jsonpatch
import orjson

from muster_operator.admission.review import Answer, Operation, Review, Submitter
from muster_operator.translate.raw import Raw, mapping, text

#: Statuses of a refusal, as users see them: forbidden, or "try again".
FORBIDDEN: Final = 403
UNAVAILABLE: Final = 503
#: A message that kubectl prints whole.
MESSAGE_LIMIT: Final = 4096


class BadReview(ValueError):
    """What came is no AdmissionReview that we can answer."""


@dataclass(frozen=True, slots=True)
class Question:
    """A review and the id that its answer has to carry. `review` is None for an operation that we have no word in."""

    uid: str
    review: Review | None


def read(body: bytes) -> Question:
    """Understand what the API server asks.

    Raises:
        BadReview: it cannot be understood.
    """
    try:
        request = mapping(mapping(orjson.loads(body)).get("request"))
    except (orjson.JSONDecodeError, RecursionError) as error:
        raise BadReview(f"no JSON: {error}") from error
    uid = text(request.get("uid"))
    if not uid:
        raise BadReview("no AdmissionReview: request.uid is missing")
    operation = text(request.get("operation"))
    if operation not in set(Operation) or not isinstance(request.get("object"), dict):
        return Question(uid, None)
    old = request.get("oldObject")
    review = Review(
        operation=Operation(operation),
        kind=text(mapping(request.get("kind")).get("kind")),
        namespace=text(request.get("namespace")),
        name=text(request.get("name")),
        submitter=_submitter(mapping(request.get("userInfo"))),
        object=mapping(request.get("object")),
        old=mapping(old) if isinstance(old, dict) else None,
    )
    return Question(uid, review)


def reply(question: Question, answer: Answer, status: int = FORBIDDEN) -> bytes:
    """The answer as the API server wants to hear it: what is to be changed as a JSON patch (RFC 6902)."""
    said: dict[str, Any] = {"uid": question.uid, "allowed": answer.is_allowed}
    if not answer.is_allowed:
        reason = "ServiceUnavailable" if status == UNAVAILABLE else "Forbidden"
        said["status"] = {"code": status, "reason": reason, "message": answer.refusal[:MESSAGE_LIMIT]}
    if answer.warnings:
        said["warnings"] = list(answer.warnings)
    if answer.is_allowed and answer.object is not None and question.review is not None:
        changes = patch(question.review.object, answer.object)
        if changes:
            said["patchType"] = "JSONPatch"
            said["patch"] = base64.b64encode(orjson.dumps(changes)).decode()
    return orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": said})


def patch(old: Raw, new: Raw) -> list[dict[str, Any]]:
    """The changes from one to the other."""
    return list(jsonpatch.make_patch(old, new))


def _submitter(info: Raw) -> Submitter:
    groups = info.get("groups")
    return Submitter(
        text(info.get("username")), tuple(text(group) for group in groups) if isinstance(groups, list) else ()
    )
