"""Commands as request bodies; the placeholder pod is in ``placeholders``. Address and field manager are the link's."""

from __future__ import annotations

from typing import Final

from muster_operator.model import vocabulary as words
from muster_operator.model.commands import BindPod, DeletePod, FailPod, PostEvent, SetCondition
from muster_operator.translate.raw import Raw

#: Kubernetes refuses longer notes (events.k8s.io/v1).
_MAX_NOTE: Final = 1024


def binding_body(command: BindPod) -> Raw:
    """For POST on the pod's binding subresource; the UID makes sure that it is still the same pod."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": command.pod.name, "namespace": command.pod.namespace, "uid": command.pod.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": command.node},
    }


def delete_body(command: DeletePod) -> Raw:
    """For DELETE: the UID as precondition, no waiting where the pod is ours."""
    body: Raw = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": command.pod.uid}}
    return body | {"gracePeriodSeconds": 0} if command.at_once else body


def condition_patch(command: SetCondition, transition_time: str) -> Raw:
    """A strategic merge patch of the status subresource; the time is RFC 3339."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": command.reason,
        "message": command.message,
        "lastTransitionTime": transition_time,
    }
    return {"metadata": {"uid": command.pod.uid}, "status": {"conditions": [condition]}}


def failure_patch(command: FailPod) -> Raw:
    """A strategic merge patch of the status subresource."""
    return {
        "metadata": {"uid": command.pod.uid},
        "status": {"phase": "Failed", "reason": command.reason, "message": command.message},
    }


def resumed_patch() -> Raw:
    """A merge patch of the originator (commands.MarkResumed)."""
    return {"metadata": {"annotations": {words.ANNOTATION_GANG_OUTCOME: words.GANG_RESUMED}}}


def event_body(command: PostEvent, name: str, instance: str, event_time: str) -> Raw:
    """An events.k8s.io/v1 Event. ``instance`` is the reporting process; the time is RFC 3339 with microseconds.

    An event about a node lives in the default namespace, where Kubernetes' own are.
    """
    regarding = {"apiVersion": "v1", "kind": str(command.subject), "name": command.name, "uid": command.uid}
    if command.namespace:
        regarding["namespace"] = command.namespace
    note = command.note if len(command.note) <= _MAX_NOTE else command.note[: _MAX_NOTE - 1] + "…"
    while len(note.encode()) > _MAX_NOTE:
        note = note[:-2] + "…"
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": command.namespace or "default"},
        "eventTime": event_time,
        "reportingController": words.REPORTING_CONTROLLER,
        "reportingInstance": instance,
        "type": str(command.type),
        "reason": command.reason,
        "action": command.action,
        "note": note,
        "regarding": regarding,
    }
