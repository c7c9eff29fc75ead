"""Pods that will never be scheduled as they mean it: the wrong scheduler's name, an application that was rejected."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from muster.checks.finding import Finding, fine, problem

Json = dict[str, Any]

SCHEDULER: Final = "scheduler name"
QUEUE: Final = "queues of pods"
_DOMAIN: Final = "yunikorn.apache.org/"
#: What only a pod has that is meant for us.
MARKS: Final = frozenset(
    f"{_DOMAIN}{name}" for name in ("app-id", "queue", "task-groups", "task-group-name", "schedulingPolicyParameters")
)
_APP: Final = (f"{_DOMAIN}app-id", "applicationId", "spark-app-selector")
_QUEUE: Final = (f"{_DOMAIN}queue", "queue")
_ENDED: Final = ("Succeeded", "Failed")
_SHOWN: Final = 3


def judged(pods: Iterable[Json], names: frozenset[str], rejected: Mapping[tuple[str, str], str]) -> Iterator[Finding]:
    """`names`: the scheduler names that are served. `rejected`: why, by namespace and ID of applications."""
    found = list(pods)
    yield from _of_unknown_schedulers(found, names)
    yield from _rejected([pod for pod in found if _scheduler(pod) in names], rejected)


def _of_unknown_schedulers(pods: Iterable[Json], names: frozenset[str]) -> Iterator[Finding]:
    """Of pods that have not ended; each foreign name once."""
    by_name: dict[str, list[str]] = defaultdict(list)
    for pod in pods:
        is_meant_for_us = MARKS & {key for kind in ("labels", "annotations") for key in pod["metadata"].get(kind) or {}}
        if is_meant_for_us and _scheduler(pod) not in names and (pod.get("status") or {}).get("phase") not in _ENDED:
            by_name[_scheduler(pod)].append(_name(pod))
    wanted = " or ".join(sorted(names))
    for scheduler, untracked_pods in sorted(by_name.items()):
        yield problem(
            SCHEDULER,
            f"{_listed(untracked_pods)} with Muster's annotations name scheduler {scheduler}, which is not served",
            f"set spec.schedulerName to {wanted} and recreate the pods",
        )
    if not by_name:
        yield fine(SCHEDULER, f"every pod with Muster's annotations names {wanted}")


def _rejected(pods: Iterable[Json], rejected: Mapping[tuple[str, str], str]) -> Iterator[Finding]:
    by_app: dict[tuple[str, str], list[Json]] = defaultdict(list)
    for pod in pods:
        app = (pod["metadata"]["namespace"], _said(pod, _APP))
        if app in rejected:
            by_app[app].append(pod)
    for app, theirs in sorted(by_app.items()):
        queue = next(filter(None, (_said(pod, _QUEUE) for pod in theirs)), "")
        where = f" (queue {queue})" if queue else ""
        yield problem(
            QUEUE,
            f"{_listed([_name(pod) for pod in theirs])} of application {app[1]}{where}, rejected: {rejected[app]}",
            "use a leaf queue of `muster queues`, or add the queue to queues.yaml; then recreate the pods",
        )
    if not by_app:
        yield fine(QUEUE, "no pod of a rejected application")


def application_of(pod: Json) -> str:
    """The id of its application; without one of its own that of all such pods of its namespace."""
    return _said(pod, _APP) or f"yunikorn-{pod['metadata']['namespace']}-autogen"


def _said(pod: Json, keys: Iterable[str]) -> str:
    """The first of these labels that it has, else the annotation of that name."""
    metadata = pod["metadata"]
    return next(
        (
            str((metadata.get(kind) or {})[key])
            for key in keys
            for kind in ("labels", "annotations")
            if key in (metadata.get(kind) or {})
        ),
        "",
    )


def _scheduler(pod: Json) -> str:
    return str((pod.get("spec") or {}).get("schedulerName") or "default-scheduler")


def _name(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{len(names)} pod{'' if len(names) == 1 else 's'} ({', '.join(names[:_SHOWN])}{more})"
