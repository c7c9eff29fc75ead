"""Why an application or a pod is pending: made of REST's plain JSON, pure.

An ask (REST: `requests`) or an allocation is an item here. `explain` shows an `Explanation`, tables the short forms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

Json = dict[str, Any]

#: Tags of an item.
_NAME: Final = "kubernetes.io/meta/podName"
_NAMESPACE: Final = "kubernetes.io/meta/namespace"

#: The suggestion for each reason (REST: allocationLog.reason).
SUGGESTIONS: Final = {
    "quota": "wait until pods in these queues end, or raise the maximum of the queue in the message",
    "user quota": "wait until pods of this user or group end, or raise the limit in the message",
    "applications": "wait until an application ends, or raise the number of applications that may run",
    "queue order": "wait until the earlier gang has its resources",
    "admission": "restore the group directory, or add the queue in the message",
    "nodes": "free resources on suitable nodes, or add nodes; the pods are reported to cluster autoscalers",
    "reserved": "wait until the reserved resources on the node are free",
    "cluster": "request less, or add larger nodes: even empty nodes could not hold it",
}
#: Reason of a pod that waits for the reservation of its gang. The placeholders of the gang have the reason.
_GANG: Final = "gang"
#: Short form of each reason.
BLOCKED_BY: Final = {
    "quota": "queue quota",
    "user quota": "the quota of its user or group",
    "applications": "the limit of running applications",
    "queue order": "an earlier gang in its queue",
    "admission": "an unknown queue or unknown user groups",
    "nodes": "insufficient free resources on nodes",
    "reserved": "resources that are reserved for it",
    "cluster": "nodes that are too small or too few",
}
NOT_EVALUATED: Final = "not evaluated yet"
GANG_INCOMPLETE: Final = "its gang is not complete"
MOST_PODS: Final = 5


# --- asks and allocations --------------------------------------------------------------------------------------------


def name(item: Json) -> str:
    """The name of the pod; the allocation key of an ask without a pod."""
    tags = item.get("allocationTags") or {}
    return str(tags.get(_NAME) or item["allocationKey"])


def namespace(item: Json) -> str:
    """The namespace of the pod, or an empty string."""
    return str((item.get("allocationTags") or {}).get(_NAMESPACE, ""))


def full_name(item: Json) -> str:
    """NAMESPACE/NAME, as `explain` takes it."""
    return "/".join(filter(None, (namespace(item), name(item))))


def kind(item: Json) -> str:
    """`placeholder`, `pod`, or `ask` for an ask without a pod."""
    if item["placeholder"]:
        return "placeholder"
    return "pod" if _NAME in (item.get("allocationTags") or {}) else "ask"


def state(item: Json) -> str:
    """`bound`, `terminating: …`, `replaces …` or `pending`."""
    if "nodeId" in item:
        return f"terminating: {item['releasing']}" if item.get("releasing") else "bound"
    if item.get("replaces"):
        return f"replaces {item['replaces']['allocationID']}"
    return "pending"


def node(item: Json) -> str:
    """The node of the pod, or of the placeholder that it replaces."""
    return str(item.get("nodeId") or (item.get("replaces") or {}).get("nodeId") or "")


def current_reason(item: Json) -> Json | None:
    """The entry of the allocation log with the current reason, unless the pod waits for its gang."""
    entries: Iterable[Json] = reversed(item.get("allocationLog") or [])
    current = next((entry for entry in entries if entry.get("reason")), None)
    return None if current is None or current["reason"] == _GANG else current


def reason_message(item: Json) -> str:
    """The message of the current reason, or an empty string."""
    found = current_reason(item)
    return str(found["message"]) if found else ""


def pod_reason(app: Json, item: Json) -> str:
    """Why a pod of the application is pending, in one line; empty if it is not."""
    if "nodeId" in item or item.get("replaces"):
        return ""
    is_held_back = not item["placeholder"] and app.get("gangSchedulingStyle") and _gang_placeholders(app)
    return reason_message(item) or (GANG_INCOMPLETE if is_held_back else "")


def in_namespace(app: Json, wanted: str) -> bool:
    """Whether the application began in the namespace or has a pod there; always true for an empty namespace."""
    items = (*app["allocations"], *app["requests"])
    return wanted in ("", app.get("namespace") or "") or any(namespace(item) == wanted for item in items)


def find_pods(apps: Iterable[Json], wanted: str, in_space: str = "") -> list[tuple[Json, str]]:
    """Applications with a pod of that name, or an ask of that key, and the full name. Empty namespace = all.

    An ask without a pod is in the namespace of its application.
    """
    return [
        (app, full)
        for app in apps
        for full in dict.fromkeys(
            full_name(item)
            for item in (*app["allocations"], *app["requests"])
            if wanted in (name(item), item["allocationKey"])
            and in_space in ("", namespace(item) or app.get("namespace"))
        )
    ]


# --- explanation -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Reason:
    """One reason and the pods that it blocks. `nodes`: number of nodes by their reason, -1 = every node.

    `kind`: pod, placeholder or ask. Placeholders have generated names and are listed by their `groups`.
    """

    message: str
    kind: str
    reason: str = ""
    nodes: dict[str, int] = field(default_factory=dict)
    suggestion: str = ""
    count: int = 0
    pods: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Explanation:
    """`pod`: the pod in question, empty = the complete application. `ahead`: earlier applications of the queue.

    `gang`: why its task groups are ignored; empty = they are not.
    """

    application: str
    queue: str
    state: str
    pod: str
    status: str
    bound: int
    pending: int
    reasons: list[Reason]
    preemption: list[str]
    ahead: list[Json]
    quota: Json
    gang: str

    def data(self) -> Json:
        """As plain JSON."""
        return asdict(self)


def lost_gang(app: Json) -> str:
    """Why the application is no gang although its pods have task groups; empty if that is not so."""
    return f"none: {app['gangProblem']}" if app.get("gangProblem") else ""


def explain(app: Json, queue: Json | None, waiting: Sequence[Json], pod: str = "") -> Explanation:
    """Explain an application, or one pod of it.

    `queue`: its leaf queue, None if it was deleted. `waiting`: pending applications of the queue, in scheduling order.
    `pod`: NAMESPACE/NAME or the allocation key.
    """
    bound = [item for item in app["allocations"] if _is_about(item, pod)]
    pending = [item for item in app["requests"] if _is_about(item, pod)]
    unreplaced = _without_replacements(pending)
    # The operator sends a member of a gang to the core only when the gang is complete.
    is_unknown = bool(pod) and not (bound or pending)
    blocked = _gang_placeholders(app) if is_unknown or _waits_for_gang(app, unreplaced) else unreplaced
    order = [_identity(item) for item in waiting]
    position = order.index(_identity(app)) if _identity(app) in order else 0
    return Explanation(
        application=app["applicationID"],
        queue=app["queueName"],
        state=app["applicationState"],
        pod=pod,
        status=_status_of_unknown_pod(app) if is_unknown else _status(app, bound, pending),
        bound=len(bound),
        pending=1 if is_unknown else pending_count(pending),
        reasons=_for_unsatisfiable(app, _grouped(blocked)),
        preemption=_preemption_attempts(pending),
        ahead=list(waiting[:position]) if blocked else [],
        quota={} if queue is None else {key: queue[key] for key in ("maxResource", "allocatedResource", "headroom")},
        gang=lost_gang(app),
    )


def pending_count(pending: list[Json]) -> int:
    """Number of pending pods. A member of an incomplete gang and the placeholder of its slot are one."""
    counts: Counter[tuple[str, bool]] = Counter()
    for item in pending:
        counts[item["taskGroupName"], bool(item["placeholder"])] += item["pendingCount"]
    groups = {group for group, _ in counts}
    return sum(
        counts[group, False] + counts[group, True] if not group else max(counts[group, False], counts[group, True])
        for group in groups
    )


def _identity(app: Json) -> tuple[str, str]:
    return str(app.get("namespace") or ""), str(app["applicationID"])


def _is_about(item: Json, pod: str) -> bool:
    return pod in ("", full_name(item), item["allocationKey"])


def _without_replacements(pending: Iterable[Json]) -> list[Json]:
    """Without the pods that already have the node of a placeholder."""
    return [item for item in pending if not item.get("replaces")]


def _status(app: Json, bound: list[Json], pending: list[Json]) -> str:
    if app["rejectedMessage"]:
        return f"Rejected: {app['rejectedMessage']}"
    unreplaced = _without_replacements(pending)
    if app.get("finishedTime") or not (bound or pending):
        return f"No pending pods: the application is {app['applicationState']}"
    if not pending:
        return f"Bound to {', '.join(sorted({node(item) for item in bound}))}"
    if not unreplaced:
        states = ", ".join(sorted({state(item) for item in pending}))
        return f"Replacing placeholders that are being deleted: {states}"
    if app.get("backoffDeadline"):
        return "Pending: backing off after repeated scheduling failures"
    if _waits_for_gang(app, unreplaced) or not (bound or any(not item["placeholder"] for item in unreplaced)):
        return f"{_pending_or_unsatisfiable(app)}: {GANG_INCOMPLETE}{_gang_needs(app)}"
    number = sum(item["pendingCount"] for item in unreplaced)
    pods = f"{number} of {number + len(bound)}" if bound else str(number)
    return f"{_pending_or_unsatisfiable(app)}: {pods} blocked{_blocked_by(unreplaced, ' by ')}"


def _status_of_unknown_pod(app: Json) -> str:
    """Status of a pod that the core has not received."""
    if app["rejectedMessage"]:
        return f"Rejected with its application: {app['rejectedMessage']}"
    if _gang_placeholders(app):
        return f"{_pending_or_unsatisfiable(app)}: {GANG_INCOMPLETE}{_gang_needs(app)}"
    return "Not known to the core; see kubectl describe pod"


def _for_unsatisfiable(app: Json, reasons: list[Reason]) -> list[Reason]:
    """The same reasons; free resources do not help an unsatisfiable gang."""
    for found in reasons:
        if app.get("unsatisfiable") and found.reason == "nodes":
            found.suggestion = SUGGESTIONS["cluster"]
    return reasons


def _pending_or_unsatisfiable(app: Json) -> str:
    """Unsatisfiable if no empty cluster of these nodes, or none of its quotas, could hold the gang."""
    return "Unsatisfiable" if app.get("unsatisfiable") else "Pending"


def _gang_needs(app: Json) -> str:
    if app.get("unsatisfiable"):
        return ", and even empty nodes or unused quotas could not hold it"
    return _blocked_by(_gang_placeholders(app), ", blocked by ")


def _blocked_by(pending: Iterable[Json], prefix: str) -> str:
    """Short forms of the reasons, that of most pods first; empty if none is known yet."""
    short = [BLOCKED_BY[found.reason] for found in _grouped(pending) if found.reason in BLOCKED_BY]
    return prefix + ", ".join(dict.fromkeys(short)) if short else ""


def _waits_for_gang(app: Json, pending: list[Json]) -> bool:
    """Whether there are members that are not scheduled before the gang is complete."""
    members = [item for item in pending if not item["placeholder"]]
    has_open_gang = bool(members and app.get("gangSchedulingStyle") and _gang_placeholders(app))
    return has_open_gang and not any(map(reason_message, members))


def _gang_placeholders(app: Json) -> list[Json]:
    """Pending placeholders of the application."""
    return [item for item in app["requests"] if item["placeholder"]]


def _grouped(pending: Iterable[Json]) -> list[Reason]:
    """One for each different reason, that of most asks first."""
    by_message: dict[tuple[str, str], Reason] = {}
    for item in pending:
        entry = current_reason(item) or {"message": NOT_EVALUATED}
        code = entry.get("reason", "")
        group, message = kind(item), entry["message"]
        found = by_message.setdefault(
            (message, group), Reason(message, group, code, dict(entry.get("reasons") or {}), SUGGESTIONS.get(code, ""))
        )
        found.count += item["pendingCount"]
        if len(found.pods) < MOST_PODS:
            found.pods.append(full_name(item))
        if item["taskGroupName"] not in ("", *found.groups):
            found.groups.append(item["taskGroupName"])
    return sorted(by_message.values(), key=lambda found: (-found.count, found.message))


def _preemption_attempts(pending: Iterable[Json]) -> list[str]:
    entries = (entry for item in pending for entry in item["allocationLog"] if not entry.get("reason"))
    return list(dict.fromkeys(f"{entry['message']} ({entry['count']} times)" for entry in entries))
