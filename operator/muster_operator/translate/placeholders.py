"""The placeholder pods of a gang: their names, labels and bodies."""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final

import orjson

from muster_operator.model import names
from muster_operator.model.ids import PodUid, application_name
from muster_operator.model.pods import PlaceholderSpec, PodRef, TaskGroup
from muster_operator.model.settings import Settings
from muster_operator.translate.values import Raw

_APP_PART: Final = 28
_GROUP_PART: Final = 20
_SUFFIX_CHARACTERS: Final = 10
_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz0123456789"
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9-]")

#: Differs: a grace period of one second; YuniKorn sets 0. A period above 0 keeps the object of a deleted placeholder
#: until the kubelet has stopped its container. Only then are the resources and devices free for the replacement pod.
#: Where the node holds both, the placeholder is deleted with the period 0.
GRACE_S: Final = 1

#: Differs: placeholders have annotations that disable the sidecars of service meshes, because they run no workload, and
#: that let Cluster Autoscaler evict them, because Muster creates them again. A task group can override them.
_DEFAULT_ANNOTATIONS: Final = {
    "sidecar.istio.io/inject": "false",
    "linkerd.io/inject": "disabled",
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
}

#: The container that requests the resources.
PLACEHOLDER_CONTAINER: Final = "pause"

#: Prefix of the names of placeholders.
PLACEHOLDER_PREFIX: Final = "tg-"
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")


def _name_suffix(owner: PodUid, app: str, group: str, ordinal: int) -> str:
    """Ten characters that depend on the member only.

    A second attempt to create the same member, for example after a crash, therefore conflicts with the existing name
    and creates no second pod.

    Differs: the tail of a placeholder's name is computed; YuniKorn's is random, so that a lost answer leaves a surplus
    pod behind.
    """
    seed = f"{owner}\0{app}\0{group}\0{ordinal}".encode("utf-8", "replace")
    number = int.from_bytes(hashlib.blake2b(seed, digest_size=16).digest(), "big")
    suffix = ""
    for _ in range(_SUFFIX_CHARACTERS):
        number, digit = divmod(number, len(_ALPHABET))
        suffix += _ALPHABET[digit]
    return suffix


def placeholder_name(owner: PodUid, app: str, group: str, ordinal: int) -> str:
    """``tg-<app>-<group>-<tail>``. Characters that are invalid in a pod name become a dash."""
    app_part, group_part = _name_part(app, _APP_PART), _name_part(group, _GROUP_PART)
    return f"{PLACEHOLDER_PREFIX}{app_part}-{group_part}-{_name_suffix(owner, app, group, ordinal)}"


def nodes_request_name(owner: PodUid, app: str) -> str:
    """Name of the gang's ProvisioningRequest, which depends on the gang only."""
    return f"{PLACEHOLDER_PREFIX}{_name_part(app, _APP_PART)}-{_name_suffix(owner, app, '', 0)}"


def _name_part(text: str, length: int) -> str:
    """The start of a text as part of a pod name. It is cut again at the end, because lower case can be longer."""
    return _NOT_IN_NAMES.sub("-", text[:length].lower())[:length]


def requests_text(group: TaskGroup) -> str:
    """The requests of a member as JSON. The signature covers this text, because a LimitRange can change the pod."""
    return orjson.dumps(dict(group.requests), option=orjson.OPT_SORT_KEYS).decode()


def placeholder_labels(group: TaskGroup, app: str, queue: str) -> dict[str, str]:
    """Labels of the group plus the application and queue labels, which take precedence if they are valid values."""
    labels = dict(group.labels)
    for key, value in ((names.LABEL_APP_ID, app), (names.LABEL_QUEUE, queue)):
        labels.pop(key, None)
        if value and _LABEL_VALUE.fullmatch(value):
            labels[key] = value
    return labels


def _labels_and_annotations(spec: PlaceholderSpec) -> tuple[dict[str, str], dict[str, str]]:
    """Labels and annotations of a placeholder. A value that is invalid as a label becomes an annotation instead.

    Differs: placeholders have no ``task-groups``, which YuniKorn copies to each of them; the originator has it.
    """
    app = application_name(spec.app)
    labels = placeholder_labels(spec.group, app, spec.queue)
    group_annotations = spec.group.annotations.items()
    annotations = _DEFAULT_ANNOTATIONS | {
        key: value for key, value in group_annotations if not key.startswith(names.INTERNAL_PREFIX)
    }
    for key, value in ((names.LABEL_APP_ID, app), (names.LABEL_QUEUE, spec.queue)):
        annotations.pop(key, None)
        if value and key not in labels:
            annotations[key] = value
    annotations[names.ANNOTATION_PLACEHOLDER] = "true"
    annotations[names.ANNOTATION_TASK_GROUP_NAME] = spec.group.name
    annotations[names.ANNOTATION_PLACEHOLDER_ORDINAL] = str(spec.ordinal)
    annotations[names.ANNOTATION_PLACEHOLDER_REQUESTS] = requests_text(spec.group)
    annotations[names.ANNOTATION_PLACEHOLDER_SIGNATURE] = spec.signature
    if spec.source.parameters:
        annotations[names.ANNOTATION_PARAMETERS] = spec.source.parameters
    if spec.nodes_request:
        annotations[names.ANNOTATION_CONSUME_REQUEST] = spec.nodes_request
        annotations[names.ANNOTATION_PROVISIONING_CLASS] = spec.provisioning_class
    return labels, annotations


def _metadata(spec: PlaceholderSpec) -> Raw:
    labels, annotations = _labels_and_annotations(spec)
    return {
        "name": spec.name,
        "namespace": spec.namespace,
        "labels": labels,
        "annotations": annotations,
        "ownerReferences": [owner_reference(spec.owner, is_controller=True)],
    }


def owner_reference(pod: PodRef, *, is_controller: bool = False) -> Raw:
    """The originator as owner of an object, so that the garbage collector deletes the object with it.

    Differs: the owner of a placeholder is its controller. `kubectl drain` refuses pods without one, and a ReplicaSet
    would adopt such pods if its selector matches labels of the task group.
    """
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod.name,
        "uid": pod.uid,
        "controller": is_controller,
        "blockOwnerDeletion": True,
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
    """The pod to create, with ``PLACEHOLDER_FIELD_MANAGER`` as field manager.

    The owner is always the originator, so that the garbage collector deletes every placeholder even if Muster has been
    uninstalled. The originator's controller would live longer. The signature proves that Muster created the pod
    (controller/trust.py).

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
