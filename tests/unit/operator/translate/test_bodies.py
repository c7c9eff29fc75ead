"""Commands as request bodies."""

from __future__ import annotations

from muster_operator.model.commands import (
    BindPod,
    DeletePod,
    EventType,
    FailPod,
    PostEvent,
    SetCondition,
    Subject,
)
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.pods import PodRef
from muster_operator.translate import bodies

POD = PodRef("dev", "w0", PodUid("uid-w0"))


def test_a_binding_names_the_pods_uid_and_the_node() -> None:
    body = bodies.binding_body(BindPod(POD, NodeName("n1")))
    assert body["metadata"] == {"name": "w0", "namespace": "dev", "uid": "uid-w0"}
    assert body["target"] == {"apiVersion": "v1", "kind": "Node", "name": "n1"}


def test_a_delete_has_the_uid_as_precondition() -> None:
    assert bodies.delete_body(DeletePod(POD, "why", at_once=False))["preconditions"] == {"uid": "uid-w0"}
    assert "gracePeriodSeconds" not in bodies.delete_body(DeletePod(POD, "why", at_once=False))
    assert bodies.delete_body(DeletePod(POD, "why"))["gracePeriodSeconds"] == 0


def test_patches_touch_only_what_they_are_about() -> None:
    condition = bodies.condition_patch(SetCondition(POD, "Unschedulable", "no room"), "2026-01-01T00:00:00Z")
    assert condition["status"]["conditions"][0]["reason"] == "Unschedulable"
    assert bodies.failure_patch(FailPod(POD, "ApplicationRejected", "why"))["status"] == {
        "phase": "Failed",
        "reason": "ApplicationRejected",
        "message": "why",
    }
    assert list(bodies.resumed_patch()["metadata"]["annotations"].values()) == ["resumed"]


def an_event(note: str, subject: Subject = Subject.POD, namespace: str = "dev") -> dict[str, object]:
    event = PostEvent(subject, namespace, "w0", "uid-w0", EventType.WARNING, "GangScheduling", "TaskGroupsError", note)
    return bodies.event_body(event, "w0.1", "muster-0", "2026-01-01T00:00:00.000000Z")


def test_an_event_is_complete() -> None:
    body = an_event("note")
    assert body["regarding"] == {"apiVersion": "v1", "kind": "Pod", "name": "w0", "uid": "uid-w0", "namespace": "dev"}
    assert (body["reason"], body["action"], body["type"]) == ("GangScheduling", "TaskGroupsError", "Warning")


def test_an_event_of_a_node_lives_in_the_default_namespace() -> None:
    body = an_event("note", Subject.NODE, "")
    assert body["metadata"] == {"name": "w0.1", "namespace": "default"}


def test_a_long_note_is_cut_to_what_kubernetes_takes() -> None:
    for character in ("x", "ü", "漢"):
        note = an_event(character * 5000)["note"]
        assert isinstance(note, str)
        assert len(note.encode()) <= 1024
