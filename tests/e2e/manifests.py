"""Builders of user objects: a test passes only the relevant values."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from devcluster.api import Json

PREFIX = "yunikorn.apache.org/"
PLACEHOLDER = "internal.yunikorn.apache.org/placeholder"
IMAGE = "registry.k8s.io/pause:3.10.2"


@dataclass(frozen=True, slots=True)
class Group:
    """One task group: ``members`` placeholders; ``real`` pods (None: as many), of ``real_cpu`` if that differs."""

    name: str
    members: int
    cpu: str = "1"
    memory: str = "64Mi"
    real: int | None = None
    real_cpu: str | None = None
    extra: Mapping[str, object] = field(default_factory=dict)

    def definition(self) -> Json:
        """The element of the ``task-groups`` annotation."""
        size = {"cpu": self.cpu, "memory": self.memory}
        return {"name": self.name, "minMember": self.members, "minResource": size, **self.extra}


def a_pod(
    name: str,
    *,
    cpu: str = "1",
    memory: str = "64Mi",
    labels: Mapping[str, str] | None = None,
    scheduler: str = "muster",
) -> Json:
    """A pod of one container with these requests."""
    container = {"name": "c", "image": IMAGE, "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels or {}), "annotations": {}},
        "spec": {
            "schedulerName": scheduler,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        },
    }


def a_member(app: str, group: str, name: str, groups: Sequence[Group], parameters: str = "", cpu: str = "") -> Json:
    """A real pod of a task group; every member carries the whole definition."""
    own = next((g for g in groups if g.name == group), groups[0])
    pod = a_pod(name, cpu=cpu or own.real_cpu or own.cpu, memory=own.memory, labels={"applicationId": app})
    annotations = pod["metadata"]["annotations"]
    annotations[f"{PREFIX}task-group-name"] = group
    annotations[f"{PREFIX}task-groups"] = json.dumps([g.definition() for g in groups])
    if parameters:
        annotations[f"{PREFIX}schedulingPolicyParameters"] = parameters
    return pod


def a_gang(
    app: str,
    groups: Sequence[Group],
    *,
    style: str = "",
    timeout_s: int | None = None,
    queue: str = "",
    placement: str = "",
) -> list[Json]:
    """The real pods of a gang, named ``app-group-0`` and so on; ``style``: Soft or Hard.

    ``placement``: Reserve, Direct or Auto. The default is that of the scenario's configuration or of the run
    (see conftest).
    """
    policy = [f"placeholderTimeoutInSeconds={timeout_s}"] if timeout_s is not None else []
    policy += [f"gangSchedulingStyle={style}"] if style else []
    policy += [f"gangPlacement={placement}"] if placement else []
    pods = [
        a_member(app, group.name, f"{app}-{group.name}-{index}", groups, " ".join(policy))
        for group in groups
        for index in range(group.members if group.real is None else group.real)
    ]
    if queue:
        for pod in pods:
            pod["metadata"]["labels"]["queue"] = queue
    return pods


def with_annotations(pod: Json, annotations: Mapping[str, str]) -> Json:
    """The same pod with more annotations."""
    pod["metadata"]["annotations"].update(annotations)
    return pod


def owned(pod: Json, user: str, *groups: str) -> Json:
    """The same pod with the user annotation of the admission controller."""
    return with_annotations(pod, {f"{PREFIX}user.info": json.dumps({"user": user, "groups": groups})})


def a_priority_class(name: str, value: int, *, may_be_preempted: bool = True) -> Json:
    """A priority class; ``may_be_preempted``: the value of its annotation."""
    annotations = {} if may_be_preempted else {f"{PREFIX}allow-preemption": "false"}
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name, "annotations": annotations},
        "value": value,
    }


def a_daemon_set(name: str, *, cpu: str, queue: str = "") -> Json:
    """A DaemonSet whose pods Muster schedules."""
    pod = a_pod(name, cpu=cpu, labels={"daemon": name, "applicationId": name, **({"queue": queue} if queue else {})})
    template = {"metadata": {"labels": pod["metadata"]["labels"]}, "spec": {**pod["spec"], "restartPolicy": "Always"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"daemon": name}}, "template": template},
    }


def is_placeholder(pod: Json) -> bool:
    """Whether it has the annotation and the owner of a placeholder. A user pod may have the annotation alone."""
    metadata = pod["metadata"]
    return (metadata.get("annotations") or {}).get(PLACEHOLDER) == "true" and bool(metadata.get("ownerReferences"))


def is_bound(pod: Json) -> bool:
    """Whether it has a node."""
    return bool(pod["spec"].get("nodeName"))


def a_placeholder(image: str, name: str = "tg-app-workers-0") -> Json:
    """A placeholder as the operator creates it, with an owner that does not exist."""
    security = {"privileged": False, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = {"name": "pause", "image": image, "securityContext": security}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "annotations": {PLACEHOLDER: "true"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "driver", "uid": "1"}],
        },
        "spec": {
            "schedulerName": "muster",
            "automountServiceAccountToken": False,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container],
        },
    }
