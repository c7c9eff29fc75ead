"""Every review gets the same answer each time, and an admitted object is admitted again."""

import copy
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from muster_operator.model.names import ANNOTATION_NAMESPACE_ENABLE
from muster_operator.webhook.context import KINDS, AdmissionAnswer, ClusterSnapshot, Operation, Review, Submitter
from muster_operator.webhook.decisions import decide
from tests.unit.operator.webhook import reviews
from tests.unit.operator.webhook.reviews import ANN, BOB, CONTROLLER, KNOWN, KUBELET, SETTINGS, WORKLOADS, info

KEYS = st.sampled_from([reviews.USER_INFO, reviews.PLACEHOLDER, reviews.APP_ID, reviews.QUEUE, "applicationId", "a"])
VALUES = st.sampled_from([info(ANN), info(BOB), '{"user":"ann"}', "true", "", "\x00", "\ud800", "{}", "root.a"])
ENTRIES = st.dictionaries(KEYS, VALUES | st.text(max_size=5), max_size=4)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(["muster", "yunikorn", "default-scheduler", ""])
SPECS = st.fixed_dictionaries(
    {}, optional={"schedulerName": NAMES, "nodeName": st.just("n1"), "priorityClassName": NAMES}
)
DESCRIPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries({}, optional={"labels": ENTRIES | JSON, "annotations": ENTRIES | JSON})
        | JSON,
        "spec": SPECS | JSON,
    },
)
SUBMITTERS = st.sampled_from([ANN, BOB, CONTROLLER, KUBELET, Submitter(KNOWN.account), Submitter("")]) | st.builds(
    Submitter, st.text(max_size=5), st.lists(st.text(max_size=3), max_size=3).map(tuple)
)
NAMESPACES = st.sampled_from(["dev", "bypassed", "kube-system", "muster", ""])
KNOWLEDGE: ClusterSnapshot = replace(
    KNOWN, namespaces={"bypassed": {ANNOTATION_NAMESPACE_ENABLE[0]: "false"}}, may_be_preempted={"muster": False}
)


@st.composite
def questions(draw: st.DrawFn) -> Review:
    """Anything from what users write to what no API server sends."""
    kind = draw(st.sampled_from(["Pod", "Pod", *WORKLOADS, "Secret"]))
    known_kind = "Pod" if kind == "Secret" else kind

    def thing() -> Any:
        if draw(st.integers(0, 9)):
            return KINDS[known_kind].replaced({"kind": kind}, draw(DESCRIPTIONS))
        made = draw(JSON)
        return made if isinstance(made, dict) else {}

    operation = draw(st.sampled_from(Operation))
    old = thing() if operation is Operation.UPDATE else None
    return Review(operation, kind, draw(NAMESPACES), "thing", draw(SUBMITTERS), thing(), old)


def answer(review: Review) -> AdmissionAnswer:
    return decide(review, KNOWLEDGE, SETTINGS)


@given(questions())
@settings(max_examples=60, deadline=None)
def test_every_review_has_one_answer_and_is_not_modified(review: Review) -> None:
    before = copy.deepcopy(review)
    first = answer(review)
    assert first == answer(copy.deepcopy(review))
    assert review == before
    assert first.object != review.object, "what is not changed is not written"
    assert len(first.refusal) < 1000


@given(questions())
@settings(max_examples=60, deadline=None)
def test_a_mutated_object_is_admitted_unchanged_again(review: Review) -> None:
    first = answer(review)
    if first.object is not None:
        again = answer(replace(review, object=first.object))
        assert (again.refusal, again.object) == ("", None)


@given(questions())
@settings(max_examples=40, deadline=None)
def test_a_stored_object_can_always_be_updated_without_changes(review: Review) -> None:
    """Controllers remove finalizers; a rejection would keep the object permanently."""
    same = replace(review, operation=Operation.UPDATE, old=review.object)
    assert (answer(same).refusal, answer(same).object) == ("", None)


def test_too_deeply_nested_objects_are_rejected() -> None:
    def deep() -> dict[str, Any]:
        thing: dict[str, Any] = {}
        for _ in range(20_000):
            thing = {"a": thing}
        return {"kind": "Deployment", "spec": {"template": {"spec": thing}}}

    assert reviews.updating(deep(), deep()).refusal == "Deployment is nested too deeply: remove unknown fields"
