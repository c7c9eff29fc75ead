"""The check of `muster doctor` for names and task groups without effect: what the operator reports in events, which the
API server deletes after an hour.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from muster.checks import Finding, Json, fine, problem, warning
from muster_operator.model.names import ANNOTATION_TASK_GROUP_NAME
from muster_operator.model.pods import GangDefinition, GangProblem
from muster_operator.translate.gangs.dialects import read_gang
from muster_operator.translate.known_names import pod_problems, unknown_group
from muster_operator.translate.membership import gang_source, written_app_id
from muster_operator.translate.nodes import read_namespace
from muster_operator.translate.values import mapping, strings

NAMES: Final = "names"
TASK_GROUPS: Final = "task groups"
_ENDED: Final = frozenset({"Succeeded", "Failed"})

#: Findings of one kind, and objects that a finding names.
_REPORTED: Final = 10
_SHOWN: Final = 3


def check_names(pods: Iterable[Json], namespaces: Iterable[Json], served: frozenset[str]) -> Iterator[Finding]:
    """`served`: the scheduler names of Muster. Pods that have ended are left out."""
    unknown: dict[str, list[str]] = defaultdict(list)
    lost: dict[str, list[str]] = defaultdict(list)
    groups: dict[tuple[str, str], set[str]] = defaultdict(set)
    members: list[tuple[tuple[str, str], str, str]] = []
    for pod in pods:
        if _is_for_muster(pod, served):
            metadata = mapping(pod.get("metadata"))
            name = f"pod {metadata.get('namespace')}/{metadata.get('name')}"
            gang = read_gang(gang_source(strings(metadata.get("annotations"))))
            for found in (*pod_problems(metadata), *(gang.warnings if isinstance(gang, GangDefinition) else ())):
                unknown[found].append(name)
            app = str(metadata.get("namespace")), written_app_id(metadata)
            if isinstance(gang, GangProblem):
                lost[gang.message].append(name)
            elif gang is not None:
                groups[app].update(group.name for group in gang.groups)
            if group := strings(metadata.get("annotations")).get(ANNOTATION_TASK_GROUP_NAME):
                members.append((app, group, name))
    for app, group, name in members:
        # Without a definition here, the application may have one in another namespace, or from a pod that has ended.
        if group not in groups.get(app, {group}):
            unknown[unknown_group(group, app[1], groups[app])].append(name)
    for thing in namespaces:
        if (namespace := read_namespace(thing)) is not None:
            for found in (*namespace.problems, *namespace.misspelt):
                unknown[found].append(f"namespace {namespace.name}")
    yield from _findings(NAMES, unknown, "every name on pods and namespaces has an effect")
    yield from _findings(TASK_GROUPS, lost, "no pod has invalid task groups")


def _is_for_muster(pod: Json, served: frozenset[str]) -> bool:
    spec, status = mapping(pod.get("spec")), mapping(pod.get("status"))
    return spec.get("schedulerName") in served and status.get("phase") not in _ENDED


def _findings(check: str, found: dict[str, list[str]], no_problem: str) -> Iterator[Finding]:
    for text, things in sorted(found.items())[:_REPORTED]:
        more = f" and {len(things) - _SHOWN} more" if len(things) > _SHOWN else ""
        where = f"{', '.join(things[:_SHOWN])}{more}"
        if check == NAMES:
            yield warning(check, f"{where}: {text}", "correct the name; for pods, create them again")
        else:
            yield problem(check, f"no gang for {where}: {text}", "correct the annotation and create the pods again")
    if len(found) > _REPORTED:
        yield warning(check, f"{len(found) - _REPORTED} further problems", "correct the others first")
    if not found:
        yield fine(check, no_problem)
