"""Builders of raw Kubernetes objects with defaults. A test specifies only the values that matter to it."""

import json
from typing import Any

Raw = dict[str, Any]

TASK_GROUPS = "yunikorn.apache.org/task-groups"
TASK_GROUP_NAME = "yunikorn.apache.org/task-group-name"
PARAMETERS = "yunikorn.apache.org/schedulingPolicyParameters"
APP_ID = "yunikorn.apache.org/app-id"
QUEUE = "yunikorn.apache.org/queue"
#: Unix seconds of CREATED.
CREATED_S = 1_767_225_600
CREATED = "2026-01-01T00:00:00Z"


def a_group(name: str = "workers", members: int = 3, **fields: Any) -> Raw:
    """Return a task group with one CPU and 1Gi per member."""
    return {"name": name, "minMember": members, "minResource": {"cpu": "1", "memory": "1Gi"}, **fields}


def gang_annotations(*groups: Raw, parameters: str = "", member_of: str = "") -> dict[str, str]:
    """Return the annotations of a gang's pod."""
    annotations = {TASK_GROUPS: json.dumps(groups)} if groups else {}
    if parameters:
        annotations[PARAMETERS] = parameters
    if member_of:
        annotations[TASK_GROUP_NAME] = member_of
    return annotations


def a_container(name: str = "main", **requests: str) -> Raw:
    """Return a container with requests such as ``cpu="1"``."""
    return {"name": name, "resources": {"requests": requests}}


def a_pod(name: str = "pod", *, app: str = "", annotations: dict[str, str] | None = None, **spec: Any) -> Raw:
    """Return a pod for Muster in namespace ``dev`` with the UID ``uid-<name>``. ``spec``: fields of its spec.

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
    """Return a ready node of 8 CPUs, 32Gi and 110 pods."""
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels or {}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def a_namespace(name: str = "dev", **annotations: str) -> Raw:
    """Return a namespace. Annotation names have no domain, and ``_`` for a dot."""
    written = {f"yunikorn.apache.org/{key.replace('_', '.')}": value for key, value in annotations.items()}
    return {"metadata": {"name": name, "annotations": written}}
