"""The check of `muster doctor` for names and task groups without effect: what the operator reports in events, which the
API server deletes after an hour.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from muster.checks import Finding, Json, fine, problem, warning
from muster_operator.model.errors import BadInputError
from muster_operator.model.ids import PodUid
from muster_operator.model.names import ANNOTATION_PLACEHOLDER, ANNOTATION_TASK_GROUP_NAME
from muster_operator.model.pods import GangProblem, PodRef, TaskGroup
from muster_operator.model.problems import no_task_group
from muster_operator.model.settings import Settings
from muster_operator.translate.gangs.dialects import read_gang
from muster_operator.translate.known_names import free_group, pod_problems, unknown_group
from muster_operator.translate.membership import gang_source, membership, written_app_id
from muster_operator.translate.nodes import read_namespace
from muster_operator.translate.pods import pod_resources
from muster_operator.translate.values import is_true, mapping, strings

NAMES: Final = "names"
TASK_GROUPS: Final = "task groups"
_ENDED: Final = frozenset({"Succeeded", "Failed"})

#: Objects that a finding names.
_SHOWN: Final = 3

_CORRECT: Final = "correct the name or value; for pods, create them again"
_CORRECT_GROUPS: Final = "correct the annotation and create the pods again"

_App = tuple[str, str]

#: Objects by the check and the problem.
_Found = dict[tuple[str, str], list[str]]


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
        for check, text in _problems(pod, settings or Settings(), groups):
            found[check, text].append(_named(pod))
    _check_groups(own, living, groups, found)
    for thing in namespaces:
        if (namespace := read_namespace(thing)) is not None:
            for text in (*namespace.problems, *namespace.misspelt):
                found[NAMES, text].append(f"namespace {namespace.name}")
    yield from _findings(NAMES, found, "every name on pods and namespaces has an effect")
    yield from _findings(TASK_GROUPS, found, "no pod has invalid task groups")


def _problems(pod: Json, settings: Settings, groups: dict[_App, dict[str, TaskGroup]]) -> Iterator[tuple[str, str]]:
    """The check and the problem of what the pod alone has. Adds its task groups to `groups`."""
    metadata = mapping(pod.get("metadata"))
    namespace, name, uid = (str(metadata.get(key) or "") for key in ("namespace", "name", "uid"))
    ref = PodRef(namespace, name, PodUid(uid))
    member = membership(metadata, ref, settings)
    conflicts = () if member.marked else member.conflicts  # the check of placeholders is about these
    for text in (*pod_problems(metadata), *filter(None, (member.user_problem, *conflicts))):
        yield NAMES, text
    if member.declared is not None and member.declared.problem:
        yield TASK_GROUPS, member.declared.problem
    placement = settings.default_placement(str(mapping(pod.get("spec")).get("schedulerName")))
    gang = read_gang(gang_source(strings(metadata.get("annotations"))), placement)
    if isinstance(gang, GangProblem):
        yield TASK_GROUPS, gang.message
    elif gang is not None:
        groups[_app(pod)].update((group.name, group) for group in gang.groups)
        for text in gang.warnings:
            yield NAMES, text


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
            found[NAMES, unknown_group(group, app[1], groups[app])].append(_named(pod))
            continue
        free = free_group(_resources(pod), groups[app].values(), {name: members[app, name] for name in groups[app]})
        if free and app[1]:  # pods without an application ID can be unrelated
            found[NAMES, no_task_group(app[1], free)].append(_named(pod))


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
    rows = sorted((text, things) for (of, text), things in found.items() if of == check)
    for text, things in rows:
        more = f" and {len(things) - _SHOWN} more" if len(things) > _SHOWN else ""
        where = f"{', '.join(things[:_SHOWN])}{more}"
        if check == NAMES:
            yield warning(check, f"{where}: {text}", _CORRECT)
        else:
            yield problem(check, f"no gang for {where}: {text}", _CORRECT_GROUPS)
    if not rows:
        yield fine(check, no_problem)
