"""Gangs that pods declare by themselves: a label or annotation names the gang, and an annotation its size.

There is one function for each way to do it, also for PodGroups that a label names. Labels that other controllers write
do not make a gang by themselves, so that nothing changes for their users unless they ask. Such a gang is a PodGroup
without an object: `controller.pod_groups` waits for its pods and compares them. See docs/reference/gang-apis.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import orjson

from muster_operator.model import limits, names, problems
from muster_operator.model.pod_groups import PodGroup
from muster_operator.translate.values import Raw, controller

_SIZE: Final = f"is not a number of pods; write a whole number from 1 to {limits.GANG_MEMBERS:,}"
_NOT_A_NAME: Final = "is not a name: use 1 to 253 letters, digits, hyphens, underscores and dots"
_NOT_GANGS: Final = f"is not a JSON list of at most {limits.GANG_GROUPS} gangs and {limits.GANG_NAMES_BYTES:,} bytes"
_NOT_HERE: Final = 'has a gang of another namespace, which is not supported; write names such as "{}"'
_NOT_ITS_OWN: Final = 'does not have the gang of the pod; add "{}"'
_UNSUPPORTED: Final = "is not supported; remove it, or use another scheduler"
_NO_IDENTITY: Final = f"has no effect without a controller of the pod or {names.LABEL_APP_ID}; write an application ID"

#: As in a label, so that the webhook can write it as the application ID, and as long as names of objects.
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class _Written:
    """What a pod has written: its labels, annotations, owners, and application ID (empty = none or generated)."""

    namespace: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    metadata: Raw
    app: str


def read_declared(
    namespace: str, written: Mapping[str, Mapping[str, str]], metadata: Raw, app: str
) -> tuple[list[PodGroup], tuple[str, ...]]:
    """The gangs that a pod declares, in the order of precedence: the first one is used. And what has no effect.

    ``written``: the labels and annotations of the pod. ``app``: the application ID in them; empty = none or generated.
    """
    pod, key = _Written(namespace, written["label"], written["annotation"], metadata, app), names.ANNOTATION_GANG_SIZE
    found = [group for dialect in _DIALECTS if (group := dialect(pod)) is not None]
    is_without_effect = pod.annotations.get(key) and not any(group.declared_by == key for group in found)
    return found, (problems.gang_value(key, "", _NO_IDENTITY),) if is_without_effect else ()


def _of_controller(pod: _Written) -> PodGroup | None:
    """So many pods of a Job or another controller, or of a JobSet, LeaderWorkerSet replica, Kueue group or application.

    Pods with a generated application ID only are unrelated.
    """
    key = names.ANNOTATION_GANG_SIZE
    if not pod.annotations.get(key):
        return None
    uid, owner = controller(pod.metadata)
    index = pod.labels.get(names.LABEL_LEADER_WORKER_GROUP)
    if job_set := pod.labels.get(names.LABEL_JOBSET):
        return _group(pod, key, key, job_set, f"JobSet/{job_set}")
    if index and (workers := pod.labels.get(names.LABEL_LEADER_WORKER_SET)):
        return _group(pod, key, key, f"{workers}-{index}", f"LeaderWorkerSet/{workers}/{index}")
    if group := pod.labels.get(names.LABEL_KUEUE_GROUP):
        return _group(pod, key, key, group, f"Kueue/{group}")
    if uid:
        return _group(pod, key, key, owner.partition("/")[2].rstrip("-_."), uid[: limits.TASK_GROUP_NAME_BYTES])
    return _group(pod, key, key, pod.app, f"/{pod.app}") if pod.app else None


def _labelled(pod: _Written) -> PodGroup | None:
    """The PodGroup of scheduler-plugins that the pod names. `pod_groups` reads the object."""
    name = pod.labels.get(names.LABEL_POD_GROUP, "")
    return PodGroup(pod.namespace, name, "", declared_by=names.LABEL_POD_GROUP, identity=name) if name else None


def _koordinator(pod: _Written) -> PodGroup | None:
    """Koordinator's annotations. Gangs that start together are one group. Topologies are not supported."""
    name = pod.annotations.get(names.ANNOTATION_KOORDINATOR_NAME, "")
    if not name:
        return None
    gangs, problem = _together(pod, name)
    if (value := pod.annotations.get(names.ANNOTATION_KOORDINATOR_TOPOLOGY, "")) not in {"", "{}"}:
        problem = problem or problems.gang_value(names.ANNOTATION_KOORDINATOR_TOPOLOGY, value, _UNSUPPORTED)
    group = _group(pod, names.ANNOTATION_KOORDINATOR_NAME, names.ANNOTATION_KOORDINATOR_SIZE, name, name, problem)
    if len(gangs) < 2 or not group.identity:
        return group
    return replace(group, name=gangs[0], identity=",".join(gangs), gangs=((name, group.min_count),))


def _together(pod: _Written, name: str) -> tuple[list[str], str]:
    """The gangs that start together with that of the pod, in a fixed order, and the problem of the annotation."""
    key, own = names.ANNOTATION_KOORDINATOR_GROUPS, f"{pod.namespace}/{name}"
    written = pod.annotations.get(key, "")
    try:
        found = orjson.loads(written or "[]") if len(written) <= limits.GANG_NAMES_BYTES else None
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, list) or len(found) > limits.GANG_GROUPS or not all(isinstance(one, str) for one in found):
        return [], problems.gang_value(key, written, _NOT_GANGS)
    here = [one.removeprefix(f"{pod.namespace}/") for one in found if one.startswith(f"{pod.namespace}/")]
    if len(here) < len(found) or not all(map(_NAME.fullmatch, here)):
        return [], problems.gang_value(key, written, _NOT_HERE.format(own))
    if found and name not in here:
        return [], problems.gang_value(key, written, _NOT_ITS_OWN.format(own))
    return sorted(set(here)), ""


_DIALECTS: Final[tuple[Callable[[_Written], PodGroup | None], ...]] = (_of_controller, _labelled, _koordinator)


def _group(pod: _Written, key: str, size_key: str, name: str, identity: str, problem: str = "") -> PodGroup:
    """The gang. With a problem it has no minimum, and without a valid name its identity is empty."""
    size = pod.annotations.get(size_key, "")
    is_named = _NAME.fullmatch(name) is not None
    found = (problem, "" if is_named else problems.gang_value(key, name, _NOT_A_NAME), _size_problem(size_key, size))
    problem = next(filter(None, found), "")
    return PodGroup(
        namespace=pod.namespace,
        name=name if is_named else "",
        uid="",
        min_count=0 if problem else int(size),
        problem=problem,
        declared_by=key,
        size_key=size_key,
        identity=identity if is_named else "",
    )


def _size_problem(key: str, size: str) -> str:
    if not size:
        return problems.gang_value(key, "", "is missing; write the number of pods that start together")
    is_number = size.isascii() and size.isdigit() and len(size) <= 9
    return "" if is_number and 1 <= int(size) <= limits.GANG_MEMBERS else problems.gang_value(key, size, _SIZE)
