"""The check of `muster doctor` for names and task groups without effect: what the operator reports in events, which the
API server deletes after an hour.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from muster.checks import Finding, Json, fine, problem, warning
from muster_operator.model.errors import BadInputError
from muster_operator.model.names import ANNOTATION_PLACEHOLDER, ANNOTATION_TASK_GROUP_NAME
from muster_operator.model.pods import GangProblem, TaskGroup
from muster_operator.model.problems import no_task_group
from muster_operator.model.settings import Settings
from muster_operator.translate.gangs.dialects import read_gang
from muster_operator.translate.known_names import free_group, pod_problems, unknown_group
from muster_operator.translate.membership import gang_source, written_app_id
from muster_operator.translate.nodes import read_namespace
from muster_operator.translate.pods import pod_resources
from muster_operator.translate.values import is_true, mapping, strings

NAMES: Final = "names"
TASK_GROUPS: Final = "task groups"
_ENDED: Final = frozenset({"Succeeded", "Failed"})

#: Objects that a finding names.
_SHOWN: Final = 3

_CORRECT_NAME: Final = "correct the name; for pods, create them again"
_CORRECT_VALUE: Final = "correct the value; for pods, create them again"
_CORRECT_GROUPS: Final = "correct the annotation and create the pods again"

_App = tuple[str, str]

#: Objects by the check, the problem and the remedy.
_Found = dict[tuple[str, str, str], list[str]]


def check_names(
    pods: Iterable[Json], namespaces: Iterable[Json], served: frozenset[str], settings: Settings | None = None
) -> Iterator[Finding]:
    """`served`: the scheduler names of Muster. Pods that have ended are left out.

    `settings`: for the default placement. There is one finding per problem, with the objects that have it.
    """
    found: _Found = defaultdict(list)
    own = [pod for pod in pods if mapping(pod.get("spec")).get("schedulerName") in served]
    living = [pod for pod in own if mapping(pod.get("status")).get("phase") not in _ENDED]
    groups: dict[_App, dict[str, TaskGroup]] = defaultdict(dict)
    for pod in living:
        for check, text, remedy in _problems(pod, settings or Settings(), groups):
            found[check, text, remedy].append(_named(pod))
    _check_groups(own, living, groups, found)
    for thing in namespaces:
        if (namespace := read_namespace(thing)) is not None:
            for text in namespace.problems:
                found[NAMES, text, _CORRECT_VALUE].append(f"namespace {namespace.name}")
            for text in namespace.misspelt:
                found[NAMES, text, _CORRECT_NAME].append(f"namespace {namespace.name}")
    yield from _findings(NAMES, found, "every name on pods and namespaces has an effect")
    yield from _findings(TASK_GROUPS, found, "no pod has invalid task groups")


def _problems(
    pod: Json, settings: Settings, groups: dict[_App, dict[str, TaskGroup]]
) -> Iterator[tuple[str, str, str]]:
    """The check, the problem and the remedy of the pod alone. Adds its task groups to `groups`."""
    metadata = mapping(pod.get("metadata"))
    for text in pod_problems(metadata):
        yield NAMES, text, _CORRECT_NAME
    placement = settings.default_placement(str(mapping(pod.get("spec")).get("schedulerName")))
    gang = read_gang(gang_source(strings(metadata.get("annotations"))), placement)
    if isinstance(gang, GangProblem):
        yield TASK_GROUPS, gang.message, _CORRECT_GROUPS
    elif gang is not None:
        groups[_app(pod)].update((group.name, group) for group in gang.groups)
        for text in gang.warnings:
            yield NAMES, text, _CORRECT_VALUE


def _check_groups(own: list[Json], living: list[Json], groups: dict[_App, dict[str, TaskGroup]], found: _Found) -> None:
    """Pods whose application defines task groups, and that are in none of them.

    Without a definition here, the application may have one in another namespace, or from a pod that has ended.
    """
    members = Counter((_app(pod), group) for pod in own if (group := _group(pod)) and not _is_placeholder(pod))
    for pod in living:
        app, group = _app(pod), _group(pod)
        if app not in groups or group in groups[app]:
            continue
        if group:
            found[NAMES, unknown_group(group, app[1], groups[app]), _CORRECT_VALUE].append(_named(pod))
        elif free := free_group(
            _resources(pod), groups[app].values(), {name: members[app, name] for name in groups[app]}
        ):
            found[NAMES, no_task_group(app[1], free), "create the pods again with the annotation"].append(_named(pod))


def _app(pod: Json) -> _App:
    metadata = mapping(pod.get("metadata"))
    return str(metadata.get("namespace")), written_app_id(metadata)


def _named(pod: Json) -> str:
    metadata = mapping(pod.get("metadata"))
    return f"pod {metadata.get('namespace')}/{metadata.get('name')}"


def _annotations(pod: Json) -> dict[str, str]:
    return strings(mapping(pod.get("metadata")).get("annotations"))


def _group(pod: Json) -> str:
    return _annotations(pod).get(ANNOTATION_TASK_GROUP_NAME, "")


def _is_placeholder(pod: Json) -> bool:
    return is_true(_annotations(pod).get(ANNOTATION_PLACEHOLDER))


def _resources(pod: Json) -> dict[str, int]:
    """What the pod requests; nothing if that is invalid."""
    try:
        return pod_resources(mapping(pod.get("spec")), mapping(pod.get("status")))
    except BadInputError:
        return {}


def _findings(check: str, found: _Found, no_problem: str) -> Iterator[Finding]:
    rows = sorted((text, remedy, things) for (of, text, remedy), things in found.items() if of == check)
    for text, remedy, things in rows:
        more = f" and {len(things) - _SHOWN} more" if len(things) > _SHOWN else ""
        where = f"{', '.join(things[:_SHOWN])}{more}"
        if check == NAMES:
            yield warning(check, f"{where}: {text}", remedy)
        else:
            yield problem(check, f"no gang for {where}: {text}", remedy)
    if not rows:
        yield fine(check, no_problem)
