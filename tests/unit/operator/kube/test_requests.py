"""Commands as HTTP requests: each names the UID of the pod and changes only the fields it is about."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from muster_operator.kube import commands
from muster_operator.kube.session import Request
from muster_operator.model.commands import (
    BindPod,
    DeletePod,
    EventType,
    FailPod,
    MarkDisrupted,
    MarkResumed,
    PostEvent,
    SetCondition,
    Subject,
)
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.pods import PodRef

POD = PodRef("dev", "w0", PodUid("uid-w0"))
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def body(request: Request) -> dict[str, Any]:
    decoded: dict[str, Any] = orjson.loads(request.body or b"")
    return decoded


def an_event(note: str, subject: Subject = Subject.POD, namespace: str = "dev") -> dict[str, Any]:
    event = PostEvent(subject, namespace, "w0", "uid-w0", EventType.WARNING, "GangScheduling", "TaskGroupsError", note)
    return body(commands.event(event, "w0.1", "muster-0", NOW))


def test_a_binding_names_the_pod_uid_and_the_node() -> None:
    found = body(commands.bind(BindPod(POD, NodeName("n1"))))
    assert found["metadata"] == {"name": "w0", "namespace": "dev", "uid": "uid-w0"}
    assert found["target"] == {"apiVersion": "v1", "kind": "Node", "name": "n1"}


def test_a_delete_keeps_the_grace_period_unless_it_is_forced() -> None:
    assert "gracePeriodSeconds" not in body(commands.delete(DeletePod(POD, "why")))
    assert body(commands.delete(DeletePod(POD, "why", force=True)))["gracePeriodSeconds"] == 0


@pytest.mark.parametrize(
    "request_",
    [
        commands.condition(SetCondition(POD, "Unschedulable", "no room"), NOW),
        commands.fail(FailPod(POD, "ApplicationRejected", "why"), NOW),
        commands.mark_resumed(MarkResumed(POD)),
        commands.mark_disrupted(MarkDisrupted(POD, "why"), NOW),
    ],
    ids=["condition", "failure", "resumed", "disrupted"],
)
def test_a_patch_names_the_pod_uid(request_: Request) -> None:
    assert body(request_)["metadata"]["uid"] == "uid-w0"


def test_patches_contain_only_the_fields_they_change() -> None:
    failed = body(commands.fail(FailPod(POD, "ApplicationRejected", "why"), NOW))["status"]
    assert {**failed, "conditions": []} == {
        "phase": "Failed",
        "reason": "ApplicationRejected",
        "message": "why",
        "conditions": [],
    }
    [condition] = body(commands.condition(SetCondition(POD, "Unschedulable", "no room"), NOW))["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("PodScheduled", "Unschedulable")
    assert list(body(commands.mark_resumed(MarkResumed(POD)))["metadata"]["annotations"].values()) == ["resumed"]


def test_the_condition_of_a_failed_pod_does_not_say_that_it_waits() -> None:
    [condition] = body(commands.fail(FailPod(POD, "ReservationTimeout", "why"), NOW))["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
    assert (condition["reason"], condition["message"]) == ("ReservationTimeout", "why")


@pytest.mark.parametrize("node, written", [("n1", "n1"), ("", None)])
def test_the_condition_and_the_nominated_node_are_one_write(node: str, written: str | None) -> None:
    status = body(commands.condition(SetCondition(POD, "Unschedulable", "no room", NodeName(node)), NOW))["status"]
    assert status["nominatedNodeName"] == written
    assert len(status["conditions"]) == 1


def test_an_event_has_all_its_fields() -> None:
    found = an_event("note")
    assert found["regarding"] == {"apiVersion": "v1", "kind": "Pod", "name": "w0", "uid": "uid-w0", "namespace": "dev"}
    assert (found["reason"], found["action"], found["type"]) == ("GangScheduling", "TaskGroupsError", "Warning")


def test_an_event_of_a_node_is_created_in_the_default_namespace() -> None:
    assert an_event("note", Subject.NODE, "")["metadata"] == {"name": "w0.1", "namespace": "default"}


@pytest.mark.parametrize("character", ["x", "ü", "漢"])
def test_a_long_note_is_cut_to_the_limit_of_kubernetes(character: str) -> None:
    assert len(an_event(character * 5000)["note"].encode()) <= 1024
