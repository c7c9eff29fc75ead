"""The placeholder pod: its name and its body, in the exact shape of contract 1.8."""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final

import orjson

from muster_operator.model import vocabulary as words
from muster_operator.model.groups import PlaceholderSpec, TaskGroup
from muster_operator.model.ids import PodUid, application_name
from muster_operator.model.settings import Settings
from muster_operator.translate.raw import Raw

_APP_PART: Final = 28
_GROUP_PART: Final = 20
_TAIL: Final = 10
_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz0123456789"
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9-]")
#: The object of a deleted placeholder stays until the kubelet has ended its container: only then does the node have the
#: room, and the devices, that the replacement is bound for. With 0 the object would go first.
GRACE_S: Final = 1
#: Placeholders run nothing, so a service mesh adds no sidecar to them. A task group may say otherwise.
_NO_INJECTION: Final = {"sidecar.istio.io/inject": "false", "linkerd.io/inject": "disabled"}
#: The container that requests the resources.
PLACEHOLDER_CONTAINER: Final = "pause"
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")


def _tail(owner: PodUid, app: str, group: str, ordinal: int) -> str:
    """Ten characters that follow from the member alone.

    Creating the same member twice, also after a crash, meets its own name and not a second pod.

    Differs: the tail of a placeholder's name is computed; YuniKorn's is random, so that a lost answer leaves a surplus
    pod behind.
    """
    seed = f"{owner}\0{app}\0{group}\0{ordinal}".encode("utf-8", "replace")
    number = int.from_bytes(hashlib.blake2b(seed, digest_size=16).digest(), "big")
    tail = ""
    for _ in range(_TAIL):
        number, digit = divmod(number, len(_ALPHABET))
        tail += _ALPHABET[digit]
    return tail


def placeholder_name(owner: PodUid, app: str, group: str, ordinal: int) -> str:
    """``tg-<app>-<group>-<tail>``; characters that no pod name may hold are replaced by a dash."""
    app_part, group_part = _name_part(app, _APP_PART), _name_part(group, _GROUP_PART)
    return f"tg-{app_part}-{group_part}-{_tail(owner, app, group, ordinal)}"


def _name_part(text: str, length: int) -> str:
    """The beginning of a text as a part of a pod's name. Cut last: lower case may be longer than what it is made of."""
    return _NOT_IN_NAMES.sub("-", text[:length].lower())[:length]


def requests_text(group: TaskGroup) -> str:
    """The requests of a member as they are signed: a LimitRange may add others to the placeholder."""
    return orjson.dumps(dict(group.requests), option=orjson.OPT_SORT_KEYS).decode()


def placeholder_labels(group: TaskGroup, app: str, queue: str) -> dict[str, str]:
    """Ours win over the group's; a value that no label may hold is not among them."""
    labels = dict(group.labels)
    for key, value in ((words.LABEL_APP_ID, app), (words.LABEL_QUEUE, queue)):
        labels.pop(key, None)
        if value and _LABEL_VALUE.fullmatch(value):
            labels[key] = value
    return labels


def _labels_and_annotations(spec: PlaceholderSpec) -> tuple[dict[str, str], dict[str, str]]:
    """A value that no label may hold goes into the annotation of the same key.

    Differs: placeholders have no ``task-groups``, which YuniKorn copies to each of them; the originator has it.
    """
    app = application_name(spec.app)
    labels = placeholder_labels(spec.group, app, spec.queue)
    of_group = spec.group.annotations.items()
    annotations = _NO_INJECTION | {key: value for key, value in of_group if not key.startswith(words.INTERNAL_PREFIX)}
    for key, value in ((words.LABEL_APP_ID, app), (words.LABEL_QUEUE, spec.queue)):
        annotations.pop(key, None)
        if value and key not in labels:
            annotations[key] = value
    annotations[words.ANNOTATION_PLACEHOLDER] = "true"
    annotations[words.ANNOTATION_TASK_GROUP_NAME] = spec.group.name
    annotations[words.ANNOTATION_PLACEHOLDER_ORDINAL] = str(spec.ordinal)
    annotations[words.ANNOTATION_PLACEHOLDER_REQUESTS] = requests_text(spec.group)
    annotations[words.ANNOTATION_PLACEHOLDER_SIGNATURE] = spec.signature
    if spec.source.parameters:
        annotations[words.ANNOTATION_PARAMETERS] = spec.source.parameters
    return labels, annotations


def _metadata(spec: PlaceholderSpec) -> Raw:
    labels, annotations = _labels_and_annotations(spec)
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": spec.owner.name,
        "uid": spec.owner.uid,
        "controller": False,
        "blockOwnerDeletion": True,
    }
    return {
        "name": spec.name,
        "namespace": spec.namespace,
        "labels": labels,
        "annotations": annotations,
        "ownerReferences": [owner],
    }


def _pod_security(settings: Settings) -> Raw:
    security: dict[str, Any] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    configured = {
        "runAsUser": settings.placeholder_run_as_user,
        "runAsGroup": settings.placeholder_run_as_group,
        "fsGroup": settings.placeholder_fs_group,
    }
    return security | {field: number for field, number in configured.items() if number}


def _container(spec: PlaceholderSpec, settings: Settings) -> Raw:
    return {
        "name": PLACEHOLDER_CONTAINER,
        "image": settings.placeholder_image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {"requests": dict(spec.group.requests), "limits": dict(spec.group.requests)},
        "securityContext": {
            "privileged": False,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def placeholder_body(spec: PlaceholderSpec, settings: Settings) -> Raw:
    """The pod to POST, with ``PLACEHOLDER_FIELD_MANAGER`` as its field manager.

    The owner is always the originator: with it the garbage collector takes every placeholder, also where Muster is
    gone. Its own controller would outlive it. The signature shows that the pod is ours (agent/trust).

    Differs: no service account token and no service variables; the pause process has no use for them, and in a
    namespace of thousands of services they keep it from starting.
    """
    pod_spec: dict[str, Any] = {
        "schedulerName": spec.scheduler_name,
        "restartPolicy": "Never",
        "hostNetwork": False,
        "terminationGracePeriodSeconds": GRACE_S,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": _pod_security(settings),
        "containers": [_container(spec, settings)],
        **orjson.loads(spec.group.pod_fields),
    }
    if spec.priority_class:
        pod_spec["priorityClassName"] = spec.priority_class
    if spec.image_pull_secrets:
        pod_spec["imagePullSecrets"] = [{"name": name} for name in spec.image_pull_secrets]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": _metadata(spec), "spec": pod_spec}
