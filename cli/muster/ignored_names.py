"""The check of `muster doctor` for names and task groups without effect: what the operator reports in events, which the
API server deletes after an hour.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from muster.checks import Finding, Json, fine, problem, warning
from muster_operator.model.errors import BadInputError
from muster_operator.model.ids import PodUid, application_name
from muster_operator.model.messages import missing_groups
from muster_operator.model.names import (
    ANNOTATION_PARENT_QUEUE,
    ANNOTATION_PLACEHOLDER,
    ANNOTATION_TASK_GROUP_NAME,
    ANNOTATION_TASK_GROUPS,
)
from muster_operator.model.pods import GangProblem, Membership, PodRef, TaskGroup
from muster_operator.model.problems import no_effect, no_task_group
from muster_operator.model.settings import Settings
from muster_operator.translate.gangs.dialects import read_gang
from muster_operator.translate.known_names import free_group, pod_problems, unknown_group
from muster_operator.translate.membership import gang_source, membership, written_app_id
from muster_operator.translate.nodes import read_namespace
from muster_operator.translate.pods import pod_resources
from muster_operator.translate.values import is_true, mapping, strings
from muster_si.keys import APP_TAG_PARENT_QUEUE

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
    pods: Iterable[Json],
    namespaces: Iterable[Json],
    served: frozenset[str],
    settings: Settings | None = None,
    without_gang: Collection[_App] = (),
    queues: str | None = None,
) -> Iterator[Finding]:
    """`served`: the scheduler names of Muster. Pods that have ended are left out.

    `settings`: for the default placement. `without_gang`: namespace and ID of applications that are no gangs in the
    core. `queues`: the active queues.yaml. There is one finding per problem, with the objects that have it.
    """
    found = _of_pods(pods, served, settings or Settings(), without_gang)
    for thing in namespaces:
        if (namespace := read_namespace(thing)) is not None:
            for text in (*namespace.problems, *namespace.misspelt):
                found[NAMES, text].append(f"namespace {namespace.name}")
            if APP_TAG_PARENT_QUEUE in namespace.tags and queues is not None and APP_TAG_PARENT_QUEUE not in queues:
                advice = f"no placement rule of queues.yaml reads it (name: tag, value: {APP_TAG_PARENT_QUEUE})"
                found[NAMES, no_effect("annotation", ANNOTATION_PARENT_QUEUE, advice)].append(
                    f"namespace {namespace.name}"
                )
    yield from _findings(NAMES, found, "every name on pods and namespaces has an effect")
    yield from _findings(TASK_GROUPS, found, "no pod has invalid task groups")


def application_of(pod: Json) -> str:
    """The application ID of the pod: its own, that of its gang, or the one that other pods of its namespace share."""
    return application_name(_membership(pod, Settings()).app)


def _membership(pod: Json, settings: Settings) -> Membership:
    metadata = mapping(pod.get("metadata"))
    namespace, name, uid = (str(metadata.get(key) or "") for key in ("namespace", "name", "uid"))
    return membership(metadata, PodRef(namespace, name, PodUid(uid)), settings, mapping(pod.get("spec")))


def warnings_of(app: Json, pods: Iterable[Json], served: frozenset[str], pod: str = "") -> list[str]:
    """The warnings about some pods of an application of the core, or about one of them, NAMESPACE/NAME."""
    has_gang = app.get("gangSchedulingStyle") or app.get("gangProblem")
    id_of_app = {(str(app.get("namespace") or ""), str(app["applicationID"]))}
    found = _of_pods(pods, served, Settings(), () if has_gang else id_of_app)
    written = f"{app.get('gangProblem') or ''} {app.get('gangWarnings') or ''}"
    texts = (text for (_, text), things in found.items() if not pod or f"pod {pod}" in things)
    return [*filter(None, (app.get("gangWarnings"),)), *(text for text in texts if text not in written)]


def _of_pods(
    pods: Iterable[Json], served: frozenset[str], settings: Settings, without_gang: Collection[_App]
) -> _Found:
    found: _Found = defaultdict(list)
    own = [pod for pod in pods if mapping(pod.get("spec")).get("schedulerName") in served]
    living = [pod for pod in own if mapping(pod.get("status")).get("phase") not in _ENDED]
    groups: dict[_App, dict[str, TaskGroup]] = defaultdict(dict)
    for pod in living:
        for check, text in _problems(pod, settings, groups):
            found[check, text].append(_named(pod))
    _check_groups(own, living, groups, found)
    _check_lost_gangs(living, without_gang, found)
    return found


def _check_lost_gangs(living: list[Json], without_gang: Collection[_App], found: _Found) -> None:
    """Pods with task groups whose application is no gang, because its first pod has none."""
    by_app: dict[_App, list[Json]] = defaultdict(list)
    for pod in living if without_gang else ():
        app = str(pod["metadata"].get("namespace")), application_of(pod)
        if app in without_gang:
            by_app[app].append(pod)
    for (_, app_id), members in by_app.items():
        first = min(members, key=lambda pod: str(pod["metadata"].get("creationTimestamp")))
        if _annotations(first).get(ANNOTATION_TASK_GROUPS):
            continue  # its gang was given up, or gang scheduling is disabled
        for pod in members:
            key = next(filter(_annotations(pod).get, (ANNOTATION_TASK_GROUPS, ANNOTATION_TASK_GROUP_NAME)), "")
            if key:
                originator = "" if pod is first else str(first["metadata"]["name"])
                found[TASK_GROUPS, missing_groups(key, app_id, originator).text].append(_named(pod))


def _problems(pod: Json, settings: Settings, groups: dict[_App, dict[str, TaskGroup]]) -> Iterator[tuple[str, str]]:
    """The check and the problem of what the pod alone has. Adds its task groups to `groups`."""
    metadata, member = mapping(pod.get("metadata")), _membership(pod, settings)
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
