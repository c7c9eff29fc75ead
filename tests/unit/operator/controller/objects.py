"""Raw Kubernetes objects with defaults: a test states only what matters to it."""

from __future__ import annotations

import json
from typing import Any

Raw = dict[str, Any]

TASK_GROUPS = "yunikorn.apache.org/task-groups"
TASK_GROUP_NAME = "yunikorn.apache.org/task-group-name"
PARAMETERS = "yunikorn.apache.org/schedulingPolicyParameters"
APP_ID = "yunikorn.apache.org/app-id"
QUEUE = "yunikorn.apache.org/queue"
#: Epoch second of CREATED.
CREATED_S = 1_767_225_600
CREATED = "2026-01-01T00:00:00Z"


def a_group(name: str = "workers", members: int = 3, **fields: Any) -> Raw:
    """A task group of one CPU and 1Gi a member."""
    return {"name": name, "minMember": members, "minResource": {"cpu": "1", "memory": "1Gi"}, **fields}


def gang_annotations(*groups: Raw, parameters: str = "", member_of: str = "") -> dict[str, str]:
    """The annotations of a gang's pod."""
    annotations = {TASK_GROUPS: json.dumps(groups)} if groups else {}
    if parameters:
        annotations[PARAMETERS] = parameters
    if member_of:
        annotations[TASK_GROUP_NAME] = member_of
    return annotations


def a_container(name: str = "main", **requests: str) -> Raw:
    """A container; ``cpu="1"`` is what it requests."""
    return {"name": name, "resources": {"requests": requests}}


def a_pod(name: str = "pod", *, app: str = "", annotations: dict[str, str] | None = None, **spec: Any) -> Raw:
    """A pod for Muster in namespace ``dev`` whose UID is ``uid-<name>``; ``spec`` are fields of its spec.

    ``app``: the ID of its application, or its identity, ``dev/<id>``.
    """
    return {
        "metadata": {
            "name": name,
            "namespace": "dev",
            "uid": f"uid-{name}",
            "creationTimestamp": CREATED,
            "labels": {APP_ID: app.rpartition("/")[2]} if app else {},
            "annotations": annotations or {},
        },
        "spec": {"schedulerName": "muster", "containers": [a_container(cpu="1", memory="1Gi")], **spec},
        "status": {"phase": "Pending"},
    }


def a_node(name: str = "n1", *, labels: dict[str, str] | None = None, **spec: Any) -> Raw:
    """A ready node of 8 CPUs, 32Gi and 110 pods."""
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels or {}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def a_namespace(name: str = "dev", **annotations: str) -> Raw:
    """A namespace; annotation names without their domain, ``_`` for a dot."""
    written = {f"yunikorn.apache.org/{key.replace('_', '.')}": value for key, value in annotations.items()}
    return {"metadata": {"name": name, "annotations": written}}
