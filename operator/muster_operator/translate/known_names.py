"""The names that users write on pods and namespaces, and the problems of names that resemble them.

A name that nothing reads has no effect, and its author expects one. `translate.pods` and `translate.nodes` report such
names as events, the webhook as warnings, and `muster doctor` for the objects that exist. Pure functions; the work for
one object is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from muster_operator.model import names, problems
from muster_operator.model.pods import TaskGroup
from muster_operator.translate.values import Raw, strings
from muster_si import keys
from muster_si.near_names import meant_resource, nearest, plain

#: Names of one object that are reported, and those that are compared with known names.
_REPORTED: Final = 3
_COMPARED: Final = 32
_DOMAIN: Final = keys.DOMAIN_YUNIKORN

#: Names of YuniKorn that Muster does not read, or no longer has: not mistakes (docs/reference/compatibility.md).
_OF_YUNIKORN: Final = frozenset({f"{_DOMAIN}username", f"{_DOMAIN}ignore-application", f"{_DOMAIN}placeholder"})
APPLICATION_IDS: Final = (names.LABEL_APP_ID, names.LEGACY_LABEL_APP_ID, names.SPARK_LABEL_APP_ID)
POD_LABELS: Final = frozenset({names.LABEL_APP_ID, names.LABEL_QUEUE})
POD_ANNOTATIONS: Final = POD_LABELS | {
    names.ANNOTATION_TASK_GROUPS,
    names.ANNOTATION_TASK_GROUP_NAME,
    names.ANNOTATION_PARAMETERS,
    names.ANNOTATION_GANG_SIZE,
    names.ANNOTATION_USER_INFO,
    names.ANNOTATION_ALLOW_PREEMPTION,
}
NAMESPACE_ANNOTATIONS: Final = frozenset(
    {
        names.ANNOTATION_NAMESPACE_QUOTA,
        names.ANNOTATION_NAMESPACE_GUARANTEED,
        names.ANNOTATION_NAMESPACE_MAX_APPS,
        names.ANNOTATION_NAMESPACE_MAX_CPU,
        names.ANNOTATION_NAMESPACE_MAX_MEMORY,
        names.ANNOTATION_PARENT_QUEUE,
        names.ANNOTATION_NAMESPACE_GENERATE_APP_ID,
        *names.ANNOTATION_NAMESPACE_ENABLE,
    }
)

#: Keys that begin in this way were written for Muster or YuniKorn; those of Muster itself begin with `internal.`.
OURS: Final = ("yunikorn", "muster")
KEY_STARTS: Final = tuple(f'"{start}'.encode() for start in OURS)
KNOWN_KEYS: Final = frozenset(key.encode() for key in POD_ANNOTATIONS | _OF_YUNIKORN)

#: Annotations of gangs, which are often written without their domain, and parts of the JSON of pods with such a key or
#: with empty task groups.
_WITHOUT_DOMAIN: Final = {
    known.removeprefix(_DOMAIN): known
    for known in (
        names.ANNOTATION_TASK_GROUPS,
        names.ANNOTATION_TASK_GROUP_NAME,
        names.ANNOTATION_PARAMETERS,
        names.ANNOTATION_GANG_SIZE,
    )
}
MISTAKES: Final = (
    *(f'"{name}"'.encode() for name in _WITHOUT_DOMAIN),
    f'"{names.ANNOTATION_TASK_GROUPS}":""'.encode(),
)

#: Scheduling parameters, which are not annotations of their own.
PARAMETERS: Final = (
    "gangPlacement",
    "gangSchedulingStyle",
    "gangWaitTimeoutInSeconds",
    "placeholderTimeoutInSeconds",
    "topologyKey",
    "topologyKeys",
    "topologyMode",
)

#: Common names that resemble another known name more than the one that is meant.
_MEANT: Final = {
    "taskgroup": names.ANNOTATION_TASK_GROUP_NAME,
    "applicationid": names.LABEL_APP_ID,
    "appname": names.LABEL_APP_ID,
    "queuename": names.LABEL_QUEUE,
    "user": names.ANNOTATION_USER_INFO,
}

#: A label without a domain resembles `applicationId` from this similarity on; others may have names of their own.
_ALMOST_EQUAL: Final = 0.85


def pod_problems(metadata: Raw) -> tuple[str, ...]:
    """Labels and annotations of a pod that have no effect, with what to write instead."""
    return tuple(islice(_of_pod(metadata), _REPORTED))


def namespace_problems(metadata: Raw) -> tuple[str, ...]:
    """Labels and annotations of a namespace that have no effect, with what to write instead."""
    return tuple(islice(_of_namespace(metadata), _REPORTED))


def unknown_group(group: str, app: str, known: Iterable[str]) -> str:
    """The problem of a pod whose task group is not one of the known ones."""
    valid = sorted(known)
    return problems.unknown_group(group, app, nearest(group, valid), ", ".join(valid))


def free_group(resources: Mapping[str, int], groups: Iterable[TaskGroup], members: Mapping[str, int]) -> str:
    """The task group that a pod without one was probably created for; empty = none.

    Drivers and launchers are legitimately in no task group. A pod that requests exactly what the members of a group
    request, while it has fewer members than its minimum, is more likely one of them.
    """
    own = _counted(resources)
    return next(
        (one.name for one in groups if own and _counted(one.min_resource) == own and _is_free(one, members)), ""
    )


def _counted(resources: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in resources.items() if amount and name != keys.PODS}


def _is_free(group: TaskGroup, members: Mapping[str, int]) -> bool:
    return members.get(group.name, 0) < group.min_member


def misspelt_resources(field: str, amounts: Mapping[str, object]) -> Iterator[str]:
    """Resources of a task group, by the scheduler's names, that resemble one of Kubernetes."""
    return (problems.misspelt_resource(f"{field}.{name}", meant) for name, meant in _misspelt(amounts))


def unknown_resources(field: str, amounts: Mapping[str, object]) -> Iterator[str]:
    """Resources of a quota, by the scheduler's names, that no pod requests."""
    return (problems.no_such_resource(f"{field}: {name}", meant) for name, meant in _misspelt(amounts))


def _misspelt(amounts: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Names, shortened, and the names of Kubernetes that they stand for."""
    found = ((resource[:80], meant) for resource in islice(amounts, _COMPARED) if (meant := meant_resource(resource)))
    return ((name, "cpu" if meant == keys.CPU else meant) for name, meant in islice(found, _REPORTED))


def _of_pod(metadata: Raw) -> Iterator[str]:
    labels, annotations = strings(metadata.get("labels")), strings(metadata.get("annotations"))
    for key in _suspicious(labels, POD_LABELS):
        yield problems.no_effect("label", key, _advice(key, POD_ANNOTATIONS, "write it as an annotation"))
    for key in _suspicious(annotations, POD_ANNOTATIONS):
        # A name that the pod has already is not what another one stands for.
        yield problems.no_effect("annotation", key, _advice(key, POD_ANNOTATIONS - annotations.keys(), ""))
    for where, keys_of in (("label", labels), ("annotation", annotations)):
        for key in filter(keys_of.__contains__, _WITHOUT_DOMAIN):
            yield problems.no_effect(where, key, f"did you mean annotation {_WITHOUT_DOMAIN[key]}?")
    if annotations.get(names.ANNOTATION_TASK_GROUPS) == "":
        advice = "it is empty; write a JSON array of groups, or remove it"
        yield problems.no_effect("annotation", names.ANNOTATION_TASK_GROUPS, advice)
    value = annotations.get(names.ANNOTATION_ALLOW_PREEMPTION)
    if value and value not in {"true", "false"}:
        yield problems.no_boolean(names.ANNOTATION_ALLOW_PREEMPTION, value)
    if {*labels, *annotations}.isdisjoint(APPLICATION_IDS):
        for key in islice(filter(resembles_application_id, labels), _COMPARED):
            if nearest(key, (names.LEGACY_LABEL_APP_ID,), _ALMOST_EQUAL):
                yield problems.no_effect("label", key, f"did you mean {names.LEGACY_LABEL_APP_ID}?")


def resembles_application_id(key: str) -> bool:
    """Whether the label is worth a comparison with `applicationId`."""
    return key[:1] in "aA" and key[-2:].lower() == "id" and "/" not in key


def _of_namespace(metadata: Raw) -> Iterator[str]:
    for key in _suspicious(strings(metadata.get("labels")), frozenset()):
        yield problems.no_effect("label", key, _advice(key, NAMESPACE_ANNOTATIONS, "write it as an annotation"))
    for key in _suspicious(strings(metadata.get("annotations")), NAMESPACE_ANNOTATIONS):
        yield problems.no_effect("annotation", key, _advice(key, NAMESPACE_ANNOTATIONS, ""))


def _suspicious(written: Iterable[str], known: frozenset[str]) -> Iterator[str]:
    """The keys that were written for Muster or YuniKorn, and are no names that are known at this place."""
    candidates = (key for key in written if key.startswith(OURS) and key not in known and key not in _OF_YUNIKORN)
    for key in islice(candidates, _COMPARED):
        name = key.partition("/")[2]
        if key.startswith(_DOMAIN) or (name and _meant(name, POD_ANNOTATIONS | NAMESPACE_ANNOTATIONS)):
            yield key


def _advice(key: str, here: frozenset[str], misplaced: str) -> str:
    """What to write instead. ``here``: names of this object. ``misplaced``: the advice for one of them."""
    if key in here and misplaced:
        return misplaced
    name = key.partition("/")[2]
    if meant := _meant(name, here):
        return f"did you mean {meant}?"
    if parameter := nearest(name, PARAMETERS):
        return f"write {parameter}=... into annotation {names.ANNOTATION_PARAMETERS}"
    if elsewhere := _meant(name, POD_ANNOTATIONS | NAMESPACE_ANNOTATIONS):
        return f"{elsewhere} is an annotation of {'namespaces' if elsewhere in NAMESPACE_ANNOTATIONS else 'pods'}"
    known = ", ".join(sorted(known.removeprefix(_DOMAIN) for known in here))
    return f"names with this prefix: {known}"


def _meant(name: str, known: frozenset[str]) -> str:
    """The known name, with its domain, that resembles the name without one; empty if none does."""
    if (alias := _MEANT.get(plain(name), "")) in known:
        return alias
    by_name = {one.removeprefix(_DOMAIN): one for one in sorted(known)}
    return by_name.get(nearest(name, by_name), "")
