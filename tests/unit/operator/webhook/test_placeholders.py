"""The placeholder annotation is reserved for Muster, in every notation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from muster_operator.model.names import INTERNAL_PREFIX
from muster_operator.webhook.context import Submitter
from tests.unit.operator.webhook.reviews import (
    ANN,
    CONTROLLER,
    KNOWN,
    PLACEHOLDER,
    WORKLOADS,
    a_description,
    a_thing,
    creating,
    settings,
    updating,
)

KINDS = ("Pod", *WORKLOADS)
US = Submitter(KNOWN.account, ("system:serviceaccounts",))


def with_annotation(kind: str, value: str = "true", **spec: Any) -> dict[str, Any]:
    return a_thing(kind, a_description(annotations={PLACEHOLDER: value}, **spec))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("submitter", [ANN, CONTROLLER])
@pytest.mark.parametrize("value", ["true", "1", "false", ""])
def test_the_placeholder_annotation_is_rejected_on_creation(kind: str, submitter: Submitter, value: str) -> None:
    refusal = creating(with_annotation(kind, value), submitter).refusal
    assert refusal.endswith(f"metadata.annotations[{PLACEHOLDER}] is written by Muster only: remove it")


@pytest.mark.parametrize("kind", KINDS)
def test_the_placeholder_annotation_is_rejected_on_update(kind: str) -> None:
    assert not updating(a_thing(kind, a_description()), with_annotation(kind)).is_allowed
    assert not updating(with_annotation(kind, "false"), with_annotation(kind, "true")).is_allowed


@pytest.mark.parametrize("entries", [{"bypassAuth": "true"}, {"externalUsers": "ann"}])
def test_no_setting_allows_users_to_create_placeholders(entries: dict[str, str]) -> None:
    assert not creating(with_annotation("Pod"), how=settings(**entries)).is_allowed


def test_placeholders_of_the_operator_are_allowed_unchanged() -> None:
    answer = creating(with_annotation("Pod", schedulerName="muster"), US)
    assert (answer.is_allowed, answer.object) == (True, None)


def test_an_equally_named_account_of_another_namespace_is_not_trusted() -> None:
    other = Submitter("system:serviceaccount:dev:muster-operator")
    assert not creating(with_annotation("Pod"), other).is_allowed


@pytest.mark.parametrize("kind", KINDS)
def test_objects_that_already_have_the_annotation_can_be_updated(kind: str) -> None:
    assert updating(with_annotation(kind), with_annotation(kind, schedulerName="muster")).is_allowed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("submitter", [ANN, CONTROLLER])
def test_the_annotation_can_be_removed_from_a_template_but_not_from_a_stored_pod(
    kind: str, submitter: Submitter
) -> None:
    answer = updating(with_annotation(kind), a_thing(kind, a_description()), submitter)
    assert ("do not remove it" in answer.refusal, answer.is_allowed) == (kind == "Pod", kind != "Pod")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["gang-outcome", "binding-signature", "anything-new", ""])
def test_every_annotation_of_the_internal_prefix_is_written_by_muster_only(kind: str, name: str) -> None:
    key = INTERNAL_PREFIX + name
    written = a_thing(kind, a_description(annotations={key: "resumed"}))
    for submitter in (ANN, CONTROLLER):
        assert key in creating(written, submitter).refusal
        assert key in updating(a_thing(kind, a_description()), written, submitter).refusal
    assert updating(written, written).is_allowed


def test_placeholders_of_another_scheduler_are_allowed() -> None:
    """A YuniKorn next to Muster creates placeholders with the same annotation."""
    nowhere = settings(processNamespaces="^ours$")
    beside = replace(KNOWN, scheduler_names=frozenset({"muster"}))
    assert creating(with_annotation("Pod", schedulerName="yunikorn"), known=beside, how=nowhere).is_allowed
    assert not creating(with_annotation("Pod", schedulerName="muster"), known=beside, how=nowhere).is_allowed
