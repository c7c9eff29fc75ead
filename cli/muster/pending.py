"""Why an application or a pod is pending: made of REST's plain JSON, pure.

An ask (REST: `requests`) or an allocation is an item here. `explain` shows an `Explanation`, tables the short forms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from muster_si import keys
from muster_si.near_names import mistyped_resource

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
#: Instead, if no reason of a node is about its resources (`_IS_RESOURCE`).
CONSTRAINTS: Final = {
    "nodes": "change the constraints in the message, or add nodes that satisfy them; the pods are reported to cluster "
    "autoscalers",
    "cluster": "correct the constraints in the message, or the labels and taints of the nodes; no node satisfies them, "
    "even if it is empty",
}
#: Instead, by a part of a node's reason (in lower case): the short form, and the suggestion.
_BY_NODE_REASON: Final = {
    "cannot allocate all claims": (
        "insufficient free devices",
        "free matching devices, add nodes with such devices, or change the requests of the claim",
    ),
    '" not found': (
        "an object that does not exist",
        "create the object in the message, or correct its name in the pod",
    ),
    "persistentvolume": (
        "its volume claims",
        "correct the claim in the message; `kubectl describe pvc` shows its events",
    ),
}
#: Instead, for a gang that all nodes together cannot hold: one more node of the same size can be enough.
GANG_CLUSTER: Final = "request less, or add nodes: all nodes together could not hold the gang, even if they were empty"
#: Instead, if the request exceeds the complete quota (`keys.NEVER_FITS`).
NEVER_FITS: Final = {
    "quota": "request less, or raise the maximum of the queue in the message",
    "user quota": "request less, or raise the limit in the message",
}
#: Starts of node reasons about the resources of a node.
_INSUFFICIENT: Final = "Insufficient "
#: Resources that every node has.
_EVERYWHERE: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_IS_RESOURCE: Final = (_INSUFFICIENT, "Too many pods")
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
_CONSTRAINED_BY: Final = "constraints that no node satisfies"
MISSING_MEMBERS: Final = "missing members"
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
    """`placeholder`, `slot` for a placeholder without a pod, `pod`, or `ask` for another ask without a pod."""
    if item["placeholder"]:
        return "slot" if item.get("is_virtual") else "placeholder"
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


def is_withheld_member(app: Json, pod: Json) -> bool:
    """Whether the operator withholds a pod of the application because placeholders of its gang are pending."""
    return bool(_gang_placeholders(app)) and not pod["spec"].get("schedulingGates")


# --- explanation -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Reason:
    """One reason and the pods that it blocks. `nodes`: number of nodes by their reason, -1 = every node.

    `kind`: pod, placeholder, slot or ask; gang = a reason of the gang itself. Placeholders and slots have generated
    names and are listed by their `groups`.
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

    `bound`: pods. `reserved`: slots of members without a pod on a node. `gang`: why its task groups are ignored, and
    `warnings`: what is wrong with its parameters; empty = nothing. `requested`: the queue that its pods name, if a
    placement rule selected another one.
    """

    application: str
    queue: str
    state: str
    pod: str
    status: str
    bound: int
    reserved: int
    pending: int
    reasons: list[Reason]
    preemption: list[str]
    ahead: list[Json]
    quota: Json
    gang: str
    warnings: str
    requested: str

    def data(self) -> Json:
        """As plain JSON."""
        return asdict(self)


def lost_gang(app: Json) -> str:
    """Why the application is no gang although its pods have task groups; empty if that is not so."""
    return f"none: {app['gangProblem']}" if app.get("gangProblem") else ""


def ignored_queue(app: Json) -> str:
    """That a placement rule selected another queue than the pods name; empty if it did not."""
    requested = app.get("requestedQueue")
    return f" (a placement rule selected it; queue {requested} of its pods is ignored)" if requested else ""


def explain(app: Json, queue: Json | None, waiting: Sequence[Json], pod: str = "") -> Explanation:
    """Explain an application, or one pod of it.

    `queue`: its leaf queue, None if it was deleted. `waiting`: pending applications of the queue, in scheduling order.
    `pod`: NAMESPACE/NAME or the allocation key.
    """
    allocated = [item for item in app["allocations"] if _is_about(item, pod)]
    bound = [item for item in allocated if not item.get("is_virtual")]
    reserved = [item for item in allocated if item.get("is_virtual")]
    pending = [item for item in app["requests"] if _is_about(item, pod)]
    unreplaced = _without_replacements(pending)
    # The operator sends a member of a gang to the core only when the gang is complete.
    is_unknown = bool(pod) and not (allocated or pending)
    waits_for_gang = is_unknown or _waits_for_gang(app, unreplaced)
    blocked = _gang_placeholders(app) if waits_for_gang else unreplaced
    order = [_identity(item) for item in waiting]
    position = order.index(_identity(app)) if _identity(app) in order else 0
    return Explanation(
        application=app["applicationID"],
        queue=app["queueName"],
        state=app["applicationState"],
        pod=pod,
        status=_status_of_unknown_pod(app) if is_unknown else _status(app, bound, reserved, pending),
        bound=len(bound),
        reserved=len(reserved),
        pending=1 if is_unknown else pending_count(pending),
        reasons=[*_missing_members(app), *_for_unsatisfiable(app, _grouped(blocked))],
        preemption=_preemption_attempts(pending),
        ahead=list(waiting[:position]) if blocked else [],
        quota={} if queue is None else {key: queue[key] for key in ("maxResource", "allocatedResource", "headroom")},
        gang=lost_gang(app),
        warnings=app.get("gangWarnings") or "",
        requested=app.get("requestedQueue") or "",
    )


def lacking(reasons: Iterable[Json]) -> set[str]:
    """The resources that nodes lack by these reasons of an explanation, apart from those that every node has."""
    return {name for reason in reasons for name in _lacking(reason)}


def _lacking(reason: Json) -> list[str]:
    names = [text.removeprefix(_INSUFFICIENT) for text in reason["nodes"] if text.startswith(_INSUFFICIENT)]
    return [name for name in names if name not in _EVERYWHERE]


def advise_names(reasons: Iterable[Json], known: Collection[str]) -> None:
    """Replace the suggestion of reasons about a resource that no node has. `known`: the resources of nodes."""
    for reason in reasons:
        if absent := [name for name in _lacking(reason) if name not in known]:
            mistyped = mistyped_resource(absent, known)
            advice = f"did you mean {mistyped[1]}?" if mistyped else "correct the name, or add nodes that have it"
            reason["suggestion"] = f"no node has {mistyped[0] if mistyped else absent[0]}; {advice}"


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


def _status(app: Json, bound: list[Json], reserved: list[Json], pending: list[Json]) -> str:
    if app["rejectedMessage"]:
        return f"Rejected: {app['rejectedMessage']}"
    unreplaced = _without_replacements(pending)
    if app.get("failureMessage"):
        return f"{app['applicationState']}: {app['failureMessage']}"
    if app.get("finishedTime") or not (bound or reserved or pending):
        return f"No pending pods: the application is {app['applicationState']}"
    if not pending:
        places = {"Bound to": bound, "Reserved for members without a pod:": reserved}
        nodes = {text: sorted({node(item) for item in items}) for text, items in places.items() if items}
        return "; ".join(f"{text} {', '.join(found)}" for text, found in nodes.items())
    if not unreplaced:
        states = ", ".join(sorted({state(item) for item in pending}))
        return f"Replacing placeholders that are being deleted: {states}"
    if app.get("backoffDeadline"):
        return "Pending: backing off after repeated scheduling failures"
    if _waits_for_gang(app, unreplaced) or not (
        bound or reserved or any(not item["placeholder"] for item in unreplaced)
    ):
        return f"{_pending_or_unsatisfiable(app)}: {GANG_INCOMPLETE}{_gang_needs(app)}"
    number = sum(item["pendingCount"] for item in unreplaced)
    pods = f"{number} of {number + len(bound)}" if bound else str(number)
    return f"{_pending_or_unsatisfiable(app)}: {pods} blocked{_blocked_by(unreplaced, ' by ')}"


def _status_of_unknown_pod(app: Json) -> str:
    """Status of a pod that the core has not received."""
    if app["rejectedMessage"]:
        return f"Rejected with its application: {app['rejectedMessage']}"
    if app.get("failureMessage"):
        return f"{app['applicationState']} with its application: {app['failureMessage']}"
    if _gang_placeholders(app):
        return f"{_pending_or_unsatisfiable(app)}: {GANG_INCOMPLETE}{_gang_needs(app)}"
    return "Not known to the core; see kubectl describe pod"


def _for_unsatisfiable(app: Json, reasons: list[Reason]) -> list[Reason]:
    """The same reasons; free resources do not help an unsatisfiable gang."""
    for found in reasons:
        if app.get("unsatisfiable") and found.reason in CONSTRAINTS:
            special = _by_node_reason(found)[1] or CONSTRAINTS["cluster"]
            found.suggestion = special if _is_constrained(found) else GANG_CLUSTER
    return reasons


def _missing_members(app: Json) -> list[Reason]:
    """Why the gang waits for members that nothing creates; the message says what to do."""
    return [Reason(app["membersMissing"], "gang", "members")] if app.get("membersMissing") else []


def _is_constrained(found: Reason) -> bool:
    """Whether nodes are unsuitable, and none of them because of its resources."""
    return bool(found.nodes) and not any(text.startswith(_IS_RESOURCE) for text in found.nodes)


def _by_node_reason(found: Reason) -> tuple[str, str]:
    """The short form and the suggestion of constraints with texts of their own; empty = these are other ones."""
    reasons = [text.lower() for text in found.nodes]
    return next((texts for part, texts in _BY_NODE_REASON.items() if any(part in text for text in reasons)), ("", ""))


def _suggestion(found: Reason) -> str:
    if found.reason in CONSTRAINTS and _is_constrained(found):
        return _by_node_reason(found)[1] or CONSTRAINTS[found.reason]
    if found.reason in NEVER_FITS and keys.NEVER_FITS in found.message:
        return NEVER_FITS[found.reason]
    return SUGGESTIONS.get(found.reason, "")


def _pending_or_unsatisfiable(app: Json) -> str:
    """Unsatisfiable if no empty cluster of these nodes, or none of its quotas, could hold the gang."""
    return "Unsatisfiable" if app.get("unsatisfiable") else "Pending"


def _gang_needs(app: Json) -> str:
    if app.get("unsatisfiable"):
        return ", and even empty nodes or unused quotas could not hold it"
    missing = [MISSING_MEMBERS] if app.get("membersMissing") else []
    return _blocked_by(_gang_placeholders(app), ", blocked by ", missing)


def _blocked_by(pending: Iterable[Json], prefix: str, first: Sequence[str] = ()) -> str:
    """Short forms of the reasons, that of most pods first; empty if none is known yet."""
    short = [
        *first,
        *(
            (_by_node_reason(found)[0] or _CONSTRAINED_BY)
            if found.reason in CONSTRAINTS and _is_constrained(found)
            else BLOCKED_BY[found.reason]
            for found in _grouped(pending)
            if found.reason in BLOCKED_BY
        ),
    ]
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
        found = by_message.setdefault((message, group), Reason(message, group, code, dict(entry.get("reasons") or {})))
        found.suggestion = _suggestion(found)
        found.count += item["pendingCount"]
        if len(found.pods) < MOST_PODS:
            found.pods.append(full_name(item))
        if item["taskGroupName"] not in ("", *found.groups):
            found.groups.append(item["taskGroupName"])
    return sorted(by_message.values(), key=lambda found: (-found.count, found.message))


def _preemption_attempts(pending: Iterable[Json]) -> list[str]:
    entries = (entry for item in pending for entry in item["allocationLog"] if not entry.get("reason"))
    return list(dict.fromkeys(f"{entry['message']} ({entry['count']} times)" for entry in entries))
