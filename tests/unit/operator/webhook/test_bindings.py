"""A binding can set neither the user of a pod nor the placeholder annotation."""

from __future__ import annotations

import pytest

from muster_operator.model.names import ANNOTATION_BINDING_SIGNATURE as BINDING
from muster_operator.webhook.context import AdmissionAnswer, Operation, Review, Submitter
from muster_operator.webhook.decisions import decide
from tests.unit.operator.webhook.reviews import CONTROLLER, KNOWN, PLACEHOLDER, SETTINGS, USER_INFO


def binding(written: dict[str, str], submitter: Submitter = CONTROLLER, namespace: str = "dev") -> AdmissionAnswer:
    thing = {"kind": "Binding", "metadata": {"name": "pod", "annotations": written}, "target": {"name": "node"}}
    return decide(Review(Operation.CREATE, "Binding", namespace, "pod", submitter, thing), KNOWN, SETTINGS)


@pytest.mark.parametrize(
    "written", [{USER_INFO: '{"user":"boss"}'}, {USER_INFO: ""}, {PLACEHOLDER: "true"}, {BINDING: ""}]
)
def test_reserved_annotations_on_a_binding_are_rejected_in_managed_namespaces(written: dict[str, str]) -> None:
    answer = binding(written)
    assert next(iter(written)) in answer.refusal
    assert not answer.is_allowed
    assert binding(written, namespace="kube-system").is_allowed


def test_a_binding_with_other_annotations_is_allowed_unchanged() -> None:
    assert binding({"gpu": "0"}) == AdmissionAnswer()
    assert binding({}) == AdmissionAnswer()


def test_a_binding_of_muster_can_carry_its_signature() -> None:
    assert binding({BINDING: "v1:0:0"}, Submitter(KNOWN.account)) == AdmissionAnswer()
