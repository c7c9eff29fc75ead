"""Commands as HTTP requests: paths, bodies and preconditions. Pure; `link.api.kube` sends them.

Every request names the pod's uid, so that a command for a pod that was deleted and made again under its name touches
nothing. Source: Kubernetes API reference v1 (Binding, DeleteOptions, Pod status), events.k8s.io/v1.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from muster_operator.link.api.session import MERGE_PATCH, STRATEGIC_PATCH, Request
from muster_operator.model.commands import (
    BindPod,
    DeletePod,
    FailPod,
    MarkDisrupted,
    MarkResumed,
    PostEvent,
    SetCondition,
    Subject,
)
from muster_operator.model.pods import PodRef
from muster_operator.model.vocabulary import (
    ANNOTATION_BINDING_SIGNATURE,
    ANNOTATION_GANG_OUTCOME,
    ANNOTATION_OUTCOME_SIGNATURE,
    FIELD_MANAGER,
    GANG_RESUMED,
    PLACEHOLDER_FIELD_MANAGER,
    REPORTING_CONTROLLER,
)

#: Seconds a bind may take: less than others get, because a session waits for the last binds of the one before.
BIND_S: Final = 5.0
#: Longest note of an event, bytes (events.k8s.io/v1 validation).
NOTE_LIMIT: Final = 1024
#: Events about cluster-wide objects live in this namespace, as the API server demands.
CLUSTER_EVENTS_NAMESPACE: Final = "default"


def bind(command: BindPod) -> Request:
    """POST the binding; its uid is a precondition: another pod of that name answers 409."""
    pod = command.pod
    metadata: dict[str, Any] = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
    if command.signature:  # the API server merges annotations of a binding into those of its pod
        metadata["annotations"] = {ANNOTATION_BINDING_SIGNATURE: command.signature}
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": command.node},
    }
    path = f"{_pod_path(pod)}/binding?fieldManager={FIELD_MANAGER}"
    return Request("POST", path, orjson.dumps(body), within_s=BIND_S, resource="pods/binding")


def delete(command: DeletePod) -> Request:
    """DELETE the pod of that uid; the API server deletes a pod without a node immediately."""
    options: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": command.pod.uid},
    }
    if command.force:
        options["gracePeriodSeconds"] = 0
    return Request("DELETE", _pod_path(command.pod), orjson.dumps(options))


def create(namespace: str, manifest: Mapping[str, Any]) -> Request:
    """POST a placeholder pod under the field manager that marks it as ours (semantics 18)."""
    path = f"/api/v1/namespaces/{namespace}/pods?fieldManager={PLACEHOLDER_FIELD_MANAGER}"
    return Request("POST", path, orjson.dumps(manifest))


def read(namespace: str, name: str) -> Request:
    """GET one pod."""
    return Request("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")


def fail(command: FailPod) -> Request:
    """PATCH the status of a pod that will never get a node: phase Failed (contract 6.2)."""
    status = {"phase": "Failed", "reason": command.reason, "message": command.message}
    return _patch(command.pod, "/status", {"status": status}, MERGE_PATCH)


def condition(command: SetCondition, now: datetime) -> Request:
    """PATCH the condition PodScheduled=False; conditions are merged by their type."""
    return _condition(command.pod, ("PodScheduled", "False", command.reason, command.message), now)


def mark_disrupted(command: MarkDisrupted, now: datetime) -> Request:
    """PATCH the condition DisruptionTarget=True, with the reason of kube-scheduler's preemptions."""
    reason = "PreemptionByScheduler"
    return _condition(command.pod, ("DisruptionTarget", "True", reason, command.message), now)


def mark_resumed(command: MarkResumed) -> Request:
    """PATCH the originator's annotation that says its reservation is over.

    Through the status subresource, which takes annotations and labels too: the operator has no right to patch pods.
    """
    annotations = {ANNOTATION_GANG_OUTCOME: GANG_RESUMED}
    if command.signature:
        annotations[ANNOTATION_OUTCOME_SIGNATURE] = command.signature
    return _patch(command.originator, "/status", {"metadata": {"annotations": annotations}}, MERGE_PATCH)


def event(command: PostEvent, name: str, instance: str, now: datetime) -> Request:
    """POST an event of its own, or the first of a series."""
    namespace = command.namespace or CLUSTER_EVENTS_NAMESPACE
    version = "coordination.k8s.io/v1" if command.subject is Subject.LEASE else "v1"
    regarding = {"apiVersion": version, "kind": command.subject.value, "name": command.name, "uid": command.uid}
    if command.namespace:
        regarding["namespace"] = command.namespace
    body = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "eventTime": micro_time(now),
        "reportingController": REPORTING_CONTROLLER,
        "reportingInstance": instance,
        "action": command.action,
        "reason": command.reason,
        "regarding": regarding,
        "note": shortened(command.note),
        "type": command.type.value,
    }
    path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    return Request("POST", path, orjson.dumps(body), resource="events")


def series(command: PostEvent, name: str, count: int, now: datetime) -> Request:
    """PATCH the event of a series: its action, note and count move on.

    Through the core group, because events.k8s.io/v1 lets a series count but never say something new.
    """
    namespace = command.namespace or CLUSTER_EVENTS_NAMESPACE
    body = {
        "action": command.action,
        "message": shortened(command.note),
        "series": {"count": count, "lastObservedTime": micro_time(now)},
    }
    return Request("PATCH", f"/api/v1/namespaces/{namespace}/events/{name}", orjson.dumps(body), MERGE_PATCH)


def shortened(note: str) -> str:
    """A note that the API server takes: at most NOTE_LIMIT bytes."""
    encoded = note.encode()
    return note if len(encoded) <= NOTE_LIMIT else encoded[: NOTE_LIMIT - 3].decode(errors="ignore") + "..."


def micro_time(now: datetime) -> str:
    """A time with microseconds, as Kubernetes writes MicroTime."""
    return f"{now.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def _condition(pod: PodRef, said: tuple[str, str, str, str], now: datetime) -> Request:
    """A condition of type, status, reason and message since now."""
    entry = dict(zip(("type", "status", "reason", "message"), said, strict=True))
    entry["lastTransitionTime"] = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return _patch(pod, "/status", {"status": {"conditions": [entry]}}, STRATEGIC_PATCH)


def _pod_path(pod: PodRef) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def _patch(pod: PodRef, subresource: str, body: dict[str, Any], content_type: str) -> Request:
    """A patch that carries the uid: the API server answers 409 where it is another pod."""
    whole = {**body, "metadata": {**body.get("metadata", {}), "uid": pod.uid}}
    path = f"{_pod_path(pod)}{subresource}?fieldManager={FIELD_MANAGER}"
    return Request("PATCH", path, orjson.dumps(whole), content_type)
