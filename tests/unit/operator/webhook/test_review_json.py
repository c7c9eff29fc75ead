"""Any bytes are decoded as a review or rejected; the patch contains exactly the changes."""

import base64
import copy
from contextlib import suppress
from typing import Any

import jsonpatch
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as some

from muster_operator.webhook import reviews
from muster_operator.webhook.context import KINDS, AdmissionAnswer, Operation
from muster_operator.webhook.decisions import decide
from tests.unit.operator.webhook.reviews import KNOWN, SETTINGS, a_description, a_thing, creating
from tests.unit.operator.webhook.test_server import a_question

KEYS = some.text(alphabet="ab/~.é", min_size=1, max_size=4)
JSON = some.recursive(
    some.none() | some.booleans() | some.integers(-9, 9) | some.text(max_size=4),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(some.binary(max_size=60) | JSON.map(orjson.dumps))
def test_any_bytes_are_read_as_a_review_or_rejected(body: bytes) -> None:
    with suppress(reviews.BadReview):  # anything else would be a crash
        assert reviews.read_review(body).uid


@given(
    some.dictionaries(some.sampled_from(["operation", "kind", "userInfo", "object", "oldObject", "namespace"]), JSON)
)
def test_a_review_with_any_values_is_read(values: dict[str, Any]) -> None:
    question = reviews.read_review(orjson.dumps(a_question(**values)))
    assert question.uid == "uid-1"
    if question.review is not None:
        assert question.review.operation in Operation
        assert isinstance(question.review.object, dict)


def test_too_deeply_nested_json_is_no_review() -> None:
    with pytest.raises(reviews.BadReview):
        reviews.read_review(b'{"request":' * 100_000)


@given(JSON.filter(lambda value: isinstance(value, dict)), some.dictionaries(KEYS, some.dictionaries(KEYS, JSON)))
def test_the_patch_adds_exactly_the_new_entries(old: dict[str, Any], added: dict[str, dict[str, Any]]) -> None:
    new = {**old}
    for key, entries in added.items():
        before = old.get(key)
        new[key] = {**before, **entries} if isinstance(before, dict) else entries
    changes = list(reviews.patch(old, new))
    assert jsonpatch.apply_patch(old, changes) == new
    assert bool(changes) == (old != new)


@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_to_a_review_as_json_is_the_answer_to_the_complete_object(kind: str) -> None:
    """Only some fields are decoded. The others decide nothing and stay as they are."""
    description = a_description(annotations={"a/b~c": "1"}, schedulerName="muster", tolerations=[{"key": "x"}])
    thing = a_thing(kind, {**description, "unread": {"a": [1]}}, unread=1)
    body = orjson.dumps(a_question(object=thing, kind={"kind": kind}, userInfo={"username": "ann", "groups": ["dev"]}))
    question = reviews.read_review(body)
    assert question.review is not None
    answer = decide(question.review, KNOWN, SETTINGS)
    response = orjson.loads(reviews.review_reply(question, answer))["response"]
    patched = jsonpatch.apply_patch(thing, orjson.loads(base64.b64decode(response["patch"])))
    assert patched == creating(thing, question.review.submitter).object


@pytest.mark.parametrize("way", ["spec", "status"])
def test_two_templates_with_another_unread_field_differ(way: str) -> None:
    """A template that did not change stays as it is, because a change would replace all its pods."""
    first = a_thing("Deployment", a_description(schedulerName="muster"))
    other = copy.deepcopy(first)
    other["spec"]["template"].setdefault(way, {})["unread"] = 1
    for stored, is_written in ((first, False), (other, True)):
        body = orjson.dumps(a_question(operation="UPDATE", object=first, oldObject=stored, kind={"kind": "Deployment"}))
        question = reviews.read_review(body)
        assert question.review is not None
        assert (decide(question.review, KNOWN, SETTINGS).object is not None) == is_written


@pytest.mark.parametrize(
    "body",
    [
        a_question(object={"metadata": {"labels": {"a": "x" * reviews.FIELD_LIMIT}}}),
        a_question(object={"data": {"a": "x" * reviews.ENTRIES_LIMIT}}, kind={"kind": "ConfigMap"}),
        a_question(object={"spec": {"many": [{}] * reviews.VALUES_LIMIT}}),
    ],
    ids=["one field", "entries", "tiny values"],
)
def test_what_is_decoded_of_a_review_is_limited(body: dict[str, Any]) -> None:
    with pytest.raises(reviews.BadReview, match="more than"):
        reviews.read_review(orjson.dumps(body))


def test_a_rejection_has_no_patch_and_a_limited_message() -> None:
    question = reviews.read_review(orjson.dumps(a_question()))
    response = orjson.loads(reviews.review_reply(question, AdmissionAnswer("n" * 9999, object={"a": "b"})))["response"]
    assert "patch" not in response
    assert len(response["status"]["message"]) == reviews.MESSAGE_LIMIT
