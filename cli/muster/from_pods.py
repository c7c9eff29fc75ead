"""`muster explain` without the core: what the operator wrote into the conditions and events of the pods.

Users without the right to open a port-forward in Muster's namespace can read these in their own namespace. They also
explain pods that the operator has not sent to the core: gated, invalid, or of a gang that waits for its pods.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.parse import quote

from rich.console import Group, RenderableType

from muster import printers
from muster.checks import DEFAULT_SCHEDULER
from muster.clients.kubernetes import Cluster
from muster.errors import BadUsage, NotThere, Unreachable
from muster.output import Facts

Json = dict[str, Any]

_ENDED: Final = ("Succeeded", "Failed")
#: Pods and events that are shown of each message.
_SHOWN: Final = 3


def pods_of(cluster: Cluster, subject: str, namespace: str) -> list[Json]:
    """The pods of an application, or one pod; empty namespace = all.

    Raises NotThere, Unreachable, and BadUsage if several namespaces have the ID or the pod.
    """
    kind, _, name = subject.partition("/") if subject.startswith(("app/", "pod/")) else ("", "", subject)
    pods = _of_application(cluster, name, namespace) if kind != "pod" else []
    if not pods and kind != "app":
        pods = _of_name(cluster, name, namespace)
    if not pods:
        where = f" in namespace {namespace} (-n or -A selects others)" if namespace else ""
        raise NotThere(f"no application or pod {name} found{where}")
    return pods


def explain(cluster: Cluster, pods: Sequence[Json], core: str, *, with_history: bool = False) -> Json:
    """Why the pods of one application wait. `core`: why the core does not explain it. Raises Unreachable."""
    found = [_pod(pod) for pod in pods]
    waiting = [shown for shown, pod in zip(found, pods, strict=True) if is_waiting(pod)]
    explained: Json = {
        "application": application_of(pods[0]),
        "schedulers": sorted(set(map(scheduler, pods))),
        "core": core,
        "bound": sum(1 for pod in found if pod["node"] and pod["phase"] not in _ENDED),
        "pending": len(waiting),
        "pods": found,
        "events": [event for pod in waiting[:_SHOWN] for event in _events(cluster, pod)],
    }
    if with_history:
        from muster.history import of_pods  # noqa: PLC0415  # it imports protobuf

        explained["history"] = of_pods(cluster, pods)
    return explained


def application_of(pod: Json) -> str:
    """The application ID of the pod: its own, that of its gang, or the one that other pods of its namespace share."""
    from muster.ignored_names import application_of as read  # noqa: PLC0415  # loads the operator

    return read(pod)


def scheduler(pod: Json) -> str:
    """The scheduler name of the pod."""
    return str(pod["spec"].get("schedulerName") or DEFAULT_SCHEDULER)


def is_waiting(pod: Json) -> bool:
    """Whether the pod has no node, and has not ended."""
    return not pod["spec"].get("nodeName") and (pod.get("status") or {}).get("phase") not in _ENDED


def condition(pod: Json) -> str:
    """Why the pod waits, by its condition; empty = it has none."""
    return str(_pod(pod)["message"])


def last_event(cluster: Cluster, pod: Json) -> str:
    """The message of the last event of the pod; empty = it has none."""
    return next((str(event["message"]) for event in reversed([*_events(cluster, _pod(pod))])), "")


def _of_application(cluster: Cluster, name: str, namespace: str) -> list[Json]:
    """The pods of the application `[NAMESPACE/]ID`; an ID may contain a slash."""
    prefix, _, plain = name.partition("/")
    for app_id, space in ((name, namespace), (plain, prefix)):
        pods = [pod for pod in _listed(cluster, space) if application_of(pod) == app_id] if app_id else []
        spaces = sorted({pod["metadata"]["namespace"] for pod in pods})
        if len(spaces) > 1:
            raise BadUsage(f"application {app_id} exists in namespaces {', '.join(spaces)}; write NAMESPACE/ID")
        if pods:
            return pods
    return []


def _of_name(cluster: Cluster, name: str, namespace: str) -> list[Json]:
    """The pod `[NAMESPACE/]POD`."""
    prefix, _, pod = name.rpartition("/")
    listed = _listed(cluster, prefix or namespace, fieldSelector=f"metadata.name={pod}")
    pods = [one for one in listed if one["metadata"]["name"] == pod]
    if len(pods) > 1:
        names = ", ".join(sorted(f"{one['metadata']['namespace']}/{pod}" for one in pods))
        raise BadUsage(f"several pods have the name {pod}: {names}; name one of them")
    return pods


def _listed(cluster: Cluster, namespace: str, **query: str) -> Iterator[Json]:
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods" if namespace else "/api/v1/pods"
    return cluster.list(path, **query)


def _pod(pod: Json) -> Json:
    conditions = (pod.get("status") or {}).get("conditions") or []
    scheduled: Json = next((one for one in conditions if one.get("type") == "PodScheduled"), {})
    return {
        "namespace": pod["metadata"]["namespace"],
        "name": pod["metadata"]["name"],
        "node": str(pod["spec"].get("nodeName") or ""),
        "phase": str((pod.get("status") or {}).get("phase") or ""),
        "message": str(scheduled.get("message") or ""),
    }


def _events(cluster: Cluster, pod: Json) -> Iterator[Json]:
    """Events of the pod, oldest first; none if they cannot be read."""
    selector = f"involvedObject.name={pod['name']},involvedObject.kind=Pod"
    try:
        found = list(cluster.list(f"/api/v1/namespaces/{quote(pod['namespace'])}/events", fieldSelector=selector))
    except (NotThere, Unreachable):
        return
    for event in sorted(found, key=lambda event: str(event.get("eventTime") or event.get("lastTimestamp") or ""))[-3:]:
        yield {"pod": pod["name"], "reason": event.get("reason") or "", "message": event.get("message") or ""}


def view(found: Json) -> RenderableType:
    """The messages of pending pods, and their last events."""
    facts = Facts()
    facts.add_row("application", found["application"])
    facts.add_row("scheduler", ", ".join(found["schedulers"]))
    facts.add_row("bound", str(found["bound"]))
    facts.add_row("pending", str(found["pending"]))
    facts.add_row("source", "conditions and events of the pods")
    facts.add_row("core", found["core"])
    by_message: defaultdict[str, list[str]] = defaultdict(list)
    for pod in found["pods"]:
        if not pod["node"] and pod["phase"] not in _ENDED:
            by_message[pod["message"] or "no scheduler has reported on the pod; muster doctor shows why"].append(
                pod["name"]
            )
    parts: list[RenderableType] = [facts]
    for message, names in by_message.items():
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        parts += ["", f"{', '.join(names[:_SHOWN])}{more}: {message}"]
    if found["events"]:
        events = {(event["reason"], event["message"]): None for event in found["events"]}
        parts += ["", "Events:", *(f"  {reason}: {message}" for reason, message in events)]
    if missing := " and ".join(name for name in ("changes", "estimate") if name in found):
        parts += ["", f"No {missing}: the core has not received the pods"]
    if "history" in found:
        parts += ["", *printers.history(found["history"])]
    return Group(*parts)
