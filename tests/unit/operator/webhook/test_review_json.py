"""Any bytes are decoded as a review or rejected; the patch contains exactly the changes."""

from __future__ import annotations

import base64
from contextlib import suppress
from typing import Any

import jsonpatch
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as some

from muster_operator.webhook import server
from muster_operator.webhook.context import AdmissionAnswer, Operation
from tests.unit.operator.webhook.test_server import a_question

KEYS = some.text(alphabet="ab/~.é", min_size=1, max_size=4)
JSON = some.recursive(
    some.none() | some.booleans() | some.integers(-9, 9) | some.text(max_size=4),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(some.binary(max_size=60) | JSON.map(orjson.dumps))
def test_any_bytes_are_read_as_a_review_or_rejected(body: bytes) -> None:
    with suppress(server.BadReview):  # anything else would be a crash
        assert server.read_review(body).uid


@given(
    some.dictionaries(some.sampled_from(["operation", "kind", "userInfo", "object", "oldObject", "namespace"]), JSON)
)
def test_a_review_with_any_values_is_read(values: dict[str, Any]) -> None:
    question = server.read_review(orjson.dumps(a_question(**values)))
    assert question.uid == "uid-1"
    if question.review is not None:
        assert question.review.operation in Operation
        assert isinstance(question.review.object, dict)


def test_too_deeply_nested_json_is_no_review() -> None:
    with pytest.raises(server.BadReview):
        server.read_review(b'{"request":' * 100_000)


@given(some.dictionaries(KEYS, JSON), some.dictionaries(KEYS, JSON))
def test_the_patch_turns_the_submitted_object_into_the_answer(old: dict[str, Any], new: dict[str, Any]) -> None:
    question = server.read_review(orjson.dumps(a_question(object=old)))
    response = orjson.loads(server.review_reply(question, AdmissionAnswer(object=new)))["response"]
    changes = orjson.loads(base64.b64decode(response["patch"])) if "patch" in response else []
    assert jsonpatch.apply_patch(old, changes) == new
    assert bool(changes) == (old != new)


def test_a_rejection_has_no_patch_and_a_limited_message() -> None:
    question = server.read_review(orjson.dumps(a_question()))
    response = orjson.loads(server.review_reply(question, AdmissionAnswer("n" * 9999, object={})))["response"]
    assert "patch" not in response
    assert len(response["status"]["message"]) == server.MESSAGE_LIMIT
