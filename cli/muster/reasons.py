"""Why an application, or one pod of it, waits: made of what REST says, pure. `explain` gathers it, views show it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from muster.views import pods

Json = dict[str, Any]

#: The suggestion for each reason (REST: allocationLog.reason).
SUGGESTIONS: Final = {
    "quota": "wait until something in these queues ends, or raise the maximum of the queue that is named",
    "user quota": "wait until something of this user or group ends, or raise the limit that is named",
    "applications": "wait until an application ends, or raise the number of applications that may run",
    "queue order": "wait until the earlier gang has its resources",
    "admission": "restore the group directory, or add the queue that the reason names",
    "nodes": "free resources on suitable nodes, or add nodes; the pods are reported to cluster autoscalers",
    "reserved": "wait until the reserved resources on the node are free",
    "cluster": "request less, or add larger nodes: even empty nodes could not hold it",
}
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
NOT_TRIED: Final = "not evaluated yet"
GANG_WAITS: Final = "its gang is not complete"
MOST_PODS: Final = 5


@dataclass(slots=True)
class Because:
    """One reason, and whom it keeps waiting. `reasons`: nodes by why each does not do, -1 = every node.

    `kind`: pod, placeholder or ask. Placeholders have generated names and are listed by their `groups`.
    """

    message: str
    kind: str
    reason: str = ""
    reasons: dict[str, int] = field(default_factory=dict)
    suggestion: str = ""
    count: int = 0
    pods: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Explanation:
    """`pod`: the one that is asked about, empty = the whole application. `ahead`: who is tried before it."""

    application: str
    queue: str
    state: str
    pod: str
    status: str
    bound: int
    pending: int
    because: list[Because]
    attempts: list[str]
    ahead: list[Json]
    room: Json

    def data(self) -> Json:
        """As plain JSON."""
        return asdict(self)


def explained(app: Json, queue: Json | None, line: Sequence[Json], pod: str = "") -> Explanation:
    """`queue`: its leaf, None = it is gone. `line`: who waits there, in order. `pod`: NAMESPACE/NAME or the key."""
    placed = [item for item in app["allocations"] if _is_about(item, pod)]
    waiting = [item for item in app["requests"] if _is_about(item, pod)]
    going_on = [item for item in waiting if not item.get("replaces")]
    # Members of a gang are not even asked for before it has its places.
    is_unasked = bool(pod) and not (placed or waiting)
    stopping = _of_the_gang(app) if is_unasked or _wait_for_gang(app, going_on) else going_on
    names = [_identity(item) for item in line]
    at = names.index(_identity(app)) if _identity(app) in names else 0
    return Explanation(
        application=app["applicationID"],
        queue=app["queueName"],
        state=app["applicationState"],
        pod=pod,
        status=_unasked(app) if is_unasked else _status(app, placed, waiting),
        bound=len(placed),
        pending=1 if is_unasked else sum(item["pendingCount"] for item in waiting),
        because=_for_gang(app, _grouped(stopping)),
        attempts=_attempts(waiting),
        ahead=list(line[:at]) if stopping else [],
        room={} if queue is None else {key: queue[key] for key in ("maxResource", "allocatedResource", "headroom")},
    )


def _identity(app: Json) -> tuple[str, str]:
    return str(app.get("namespace") or ""), str(app["applicationID"])


def found(apps: Iterable[Json], name: str, namespace: str = "") -> list[tuple[Json, str]]:
    """The applications that have a pod of that name, or an ask of that key, with its full name."""
    return [
        (app, full)
        for app in apps
        for full in dict.fromkeys(
            pods.full_name(item)
            for item in (*app["allocations"], *app["requests"])
            if name in (pods.name(item), item["allocationKey"]) and namespace in ("", pods.namespace(item))
        )
    ]


def _is_about(item: Json, pod: str) -> bool:
    return pod in ("", pods.full_name(item), item["allocationKey"])


def _status(app: Json, placed: list[Json], waiting: list[Json]) -> str:
    if app["rejectedMessage"]:
        return f"Rejected: {app['rejectedMessage']}"
    going_on = [item for item in waiting if not item.get("replaces")]
    if app.get("finishedTime") or not (placed or waiting):
        return f"No pending pods: the application is {app['applicationState']}"
    if not waiting:
        nodes = sorted({pods.node(item) for item in placed})
        return f"Bound to {', '.join(nodes)}"
    if not going_on:
        return f"Replacing placeholders that are being deleted: {_told(pods.state(i) for i in waiting)}"
    if app.get("backoffDeadline"):
        return "Pending: backing off after repeated scheduling failures"
    if _wait_for_gang(app, going_on) or not (placed or any(not item["placeholder"] for item in going_on)):
        return f"{_state_of(app)}: {GANG_WAITS}{_places_need(app)}"
    count = sum(item["pendingCount"] for item in going_on)
    who = f"{count} of {count + len(placed)}" if placed else str(count)
    return f"{_state_of(app)}: {who} blocked{_for(going_on, ' by ')}"


def _unasked(app: Json) -> str:
    """Of a pod of the application that the core knows nothing of."""
    if app["rejectedMessage"]:
        return f"Rejected with its application: {app['rejectedMessage']}"
    if _of_the_gang(app):
        return f"{_state_of(app)}: {GANG_WAITS}{_places_need(app)}"
    return "Not known to the core; see kubectl describe pod"


def _for_gang(app: Json, found: list[Because]) -> list[Because]:
    """The same reasons; free resources do not help an unsatisfiable gang."""
    for because in found:
        if app.get("unsatisfiable") and because.reason == "nodes":
            because.suggestion = SUGGESTIONS["cluster"]
    return found


def _state_of(app: Json) -> str:
    """Unsatisfiable if no empty cluster of these nodes, or none of its quotas, could hold the gang."""
    return "Unsatisfiable" if app.get("unsatisfiable") else "Pending"


def _places_need(app: Json) -> str:
    if app.get("unsatisfiable"):
        return ", and even empty nodes or unused quotas could not hold it"
    return _for(_of_the_gang(app), ", blocked by ")


def _for(waiting: Iterable[Json], words: str) -> str:
    """What is missing, that of most first, after these words; nothing where that is not known yet."""
    told = [BLOCKED_BY[because.reason] for because in _grouped(waiting) if because.reason in BLOCKED_BY]
    return words + ", ".join(dict.fromkeys(told)) if told else ""


def _wait_for_gang(app: Json, waiting: list[Json]) -> bool:
    """Whether members wait that are not even tried before their gang has its places."""
    members = [item for item in waiting if not item["placeholder"]]
    return bool(members and app.get("gangSchedulingStyle") and _of_the_gang(app)) and not any(map(pods.why, members))


def _of_the_gang(app: Json) -> list[Json]:
    return [item for item in app["requests"] if item["placeholder"]]


def _grouped(waiting: Iterable[Json]) -> list[Because]:
    """One for each different reason, that of most asks first."""
    by_message: dict[tuple[str, str], Because] = {}
    for item in waiting:
        entry = pods.reason(item) or {"message": NOT_TRIED}
        reason = entry.get("reason", "")
        kind, message = pods.kind(item), entry["message"]
        because = by_message.setdefault(
            (message, kind),
            Because(message, kind, reason, dict(entry.get("reasons") or {}), SUGGESTIONS.get(reason, "")),
        )
        because.count += item["pendingCount"]
        if len(because.pods) < MOST_PODS:
            because.pods.append(pods.full_name(item))
        if item["taskGroupName"] not in ("", *because.groups):
            because.groups.append(item["taskGroupName"])
    return sorted(by_message.values(), key=lambda because: (-because.count, because.message))


def _attempts(waiting: Iterable[Json]) -> list[str]:
    """What came of trying to make room by preemption."""
    entries = (entry for item in waiting for entry in item["allocationLog"] if not entry.get("reason"))
    return list(dict.fromkeys(f"{entry['message']} ({entry['count']} times)" for entry in entries))


def _told(words: Iterable[str]) -> str:
    return ", ".join(sorted(set(words)))
