"""Tables of all commands, made of REST's plain JSON. Units of REST: vcore in millicores, memory in bytes, nanoseconds.

First the tables in the order of `muster --help`, then quantities and times as text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.padding import Padding

from muster import pending
from muster.output import Facts, FittingTable, table
from muster_si.keys import DEVICES_OF_CLASS

Json = dict[str, Any]

CPU: Final = "vcore"
MEMORY: Final = "memory"
PODS: Final = "pods"
NONE: Final = "-"
#: Shown characters of a checksum, and errors of a rejected configuration.
_CHECKSUM: Final = 12
_ERRORS: Final = 3

#: Priority of a queue or application without pending requests in REST.
_NO_REQUESTS: Final = -(2**31)


# --- status and version ----------------------------------------------------------------------------------------------


def is_healthy(status: Json) -> bool:
    """Whether the core schedules and no health check failed."""
    health = status["health"]
    return bool(status["ready"]["ready"] and status["partitions"] and (health is None or health["Healthy"]))


def status(found: Json, wide: bool, now_ns: int) -> Facts:  # noqa: FBT001  # the signature of a View
    """Health first, then usage."""
    made = Facts()
    ready = found["ready"]
    made.add_row("core", "schedules" if ready["ready"] else f"does not schedule: {ready['message']}")
    for cluster in found["clusters"]:
        made.add_row("version", f"{cluster['coreVersion']}, up for {age(cluster['startTime'], now_ns)}")
        _add_configuration(made, cluster, wide=wide)
    _add_health(made, found["health"])
    if not found["partitions"]:
        made.add_row("cluster", "no operator has registered")
    for partition in found["partitions"]:
        _add_partition(made, partition, wide=wide)
    missing = sum(item["count"] for item in found["outstanding"])
    if missing:
        made.add_row("resources missing", count(missing, "pod"))
        for item in found["outstanding"] if wide else ():
            made.add_row(
                "", f"{item['count']} x {amounts(item['resource'])} for {count(item['applications'], 'application')}"
            )
    return made


def _add_configuration(made: Facts, cluster: Json, *, wide: bool) -> None:
    checksum = cluster.get("configChecksum")
    queues = f"queues.yaml with checksum {checksum[:_CHECKSUM]}" if checksum else "the default queues"
    rejected = cluster.get("rejectedConfiguration") or []
    then = "; the last change was rejected, and Muster cannot start with it:" if rejected else ""
    made.add_row("configuration", queues + then)
    for line in rejected if wide else rejected[:_ERRORS]:
        made.add_row("", line)
    if len(rejected) > _ERRORS and not wide:
        made.add_row("", f"and {len(rejected) - _ERRORS} more (muster config show)")


def _add_health(made: Facts, health: Json | None) -> None:
    if health is None:
        made.add_row("health", "not checked yet")
        return
    broken = [check for check in health["HealthChecks"] if not check["Succeeded"]]
    made.add_row("health", f"{count(len(broken), 'check')} failed" if broken else "all checks passed")
    for check in broken:
        made.add_row("", f"{check['Name']}: {check['DiagnosisMessage']}")


def _add_partition(made: Facts, partition: Json, *, wide: bool) -> None:
    total, used = partition["capacity"]["capacity"], partition["capacity"]["usedCapacity"]
    made.add_row("nodes", f"{partition['totalNodes']}, {partition['nodeSortingPolicy']['type']} order")
    shown = [name for name in in_order(total) if wide or name in used]
    parts = (f"{label(name)} {part(name, used, total)} ({percent(name, used, total)})" for name in shown)
    made.add_row("used", ", ".join(parts) or "nothing")
    states = {state: number for state, number in partition["applications"].items() if state != "total"}
    made.add_row("applications", ", ".join(f"{number} {state}" for state, number in sorted(states.items())) or "none")
    made.add_row("allocations", str(partition["totalContainers"]))


def version(found: Json, wide: bool, now_ns: int) -> Facts:  # noqa: FBT001  # the signature of a View
    """One line per component."""
    made = Facts()
    made.add_row("muster", f"{found['client']} (scheduler interface {found['schedulerInterface']})")
    if "core" in found:
        made.add_row("core", found["core"] or "unknown: no operator has registered")
    for operator in found.get("operators", []):
        made.add_row("operator", operator or "unknown")
    return made


# --- queues ----------------------------------------------------------------------------------------------------------


_ROOT: Final = "root"


def subtree(queue: Json, depth: int = 0) -> Iterator[tuple[Json, int]]:
    """A queue and all below it with their depths, parents before children."""
    yield queue, depth
    for child in queue.get("children") or []:
        yield from subtree(child, depth + 1)


def queues(root: Json, wide: bool, now_ns: int, *, tree: bool = False) -> FittingTable:  # noqa: FBT001  # a View
    """One row per queue, parents before children. `tree`: children are indented below their parent."""
    rows = list(subtree(root))
    shown = columns_of(
        *(queue[key] for queue, _ in rows for key in ("allocatedResource", "pendingResource", "guaranteedResource")),
        *(dict.fromkeys(queue["maxResource"], 1) for queue, _ in rows if queue["queuename"] != _ROOT),  # 0 is a limit
        {name: value for name, value in root["maxResource"].items() if "/" in name},
    )
    more = ("GUARANTEED", "HEADROOM", "RESERVED", "ORDER", "PRIORITY", "PREEMPTION") if wide else ()
    all_active = all(queue["status"] == "Active" for queue, _ in rows)
    made = table(
        *("QUEUE", "STATE", "RUNNING", "CPU", "MEMORY", *shown.values(), "PENDING", *more),
        optional=(*(("STATE",) if all_active else ()), "RUNNING", "MEMORY"),
        sentences=("PENDING",),
    )
    for queue, depth in rows:
        used, most = queue["allocatedResource"], queue["maxResource"]
        running = (
            f"{queue['runningApps']}/{queue['maxRunningApps']}" if queue["maxRunningApps"] else queue["runningApps"]
        )
        if wide and queue["maxRunningApps"]:
            running += _set_by(queue, "maxapplications")
        path = queue["queuename"]
        cells = (
            "  " * depth + path.rpartition(".")[2] if tree and depth else path,
            queue["status"],
            str(running),
            *(part(name, used, most) for name in (CPU, MEMORY, *shown)),
            amounts(queue["pendingResource"]),
        )
        made.add_row(*cells, *(_queue_details(queue) if wide else ()))
    return made


def _queue_details(queue: Json) -> tuple[str, ...]:
    return (
        amounts(queue["guaranteedResource"]),
        amounts(queue["headroom"]),
        amounts(queue["reservedQuota"]),
        f"{queue['sortingPolicy']}{_set_by(queue, 'application.sort.policy')}" if queue["isLeaf"] else "fair",
        _priority(queue["currentPriority"]),
        _preemption(queue),
    )


def _priority(value: int) -> str:
    return NONE if value == _NO_REQUESTS else str(value)


def _preemption(queue: Json) -> str:
    if not queue["preemptionEnabled"]:
        return f"off{_set_by(queue, 'preemption.policy')}"
    return f"fence{_set_by(queue, 'preemption.policy')}" if queue["isPreemptionFence"] else "on"


def _set_by(queue: Json, name: str) -> str:
    """Where an inherited or templated value is set; empty = by the queue itself."""
    origin = (queue.get("origins") or {}).get(name)
    return f" ({origin})" if origin else ""


# --- applications ----------------------------------------------------------------------------------------------------


def apps(found: list[Json], wide: bool, now_ns: int, *, all_namespaces: bool = False) -> FittingTable:  # noqa: FBT001
    """One row per application. The namespace is a column only if there may be several."""
    first = ("NAMESPACE",) if all_namespaces else ()
    more = ("GANG", "PRIORITY", "REQUESTS", "REASON") if wide else ()
    shown = columns_of(*(item[key] for item in found for key in ("usedResource", "pendingResource")))
    columns = ("APPLICATION", "QUEUE", "STATE", "USER", "PODS", "PLACEHOLDERS", "PENDING", "CPU", "MEMORY")
    made = table(
        *(*first, *columns, *shown.values(), "AGE", *more),
        optional=("USER", "PLACEHOLDERS", "MEMORY", "CPU", "AGE", *reversed(shown.values()), "PODS", "QUEUE"),
        sentences=("REASON",),
    )
    for item in sorted(found, key=lambda item: (item["queueName"], item["submissionTime"], item["applicationID"])):
        namespace = (item.get("namespace") or NONE,) if all_namespaces else ()
        cells = _app_cells(item, shown, now_ns)
        made.add_row(*namespace, *cells, *(_app_details(item) if wide else ()))
    return made


def _app_cells(app: Json, shown: Iterable[str], now_ns: int) -> tuple[str, ...]:
    pods = [item for item in app["allocations"] if not item["placeholder"]]
    used = app["usedResource"]
    return (
        app["applicationID"],
        app["queueName"],
        app["applicationState"],
        app["user"],
        str(len(pods)),
        str(len(app["allocations"]) - len(pods)),
        str(pending.pending_count(app["requests"])),
        *(amount(name, used.get(name, 0)) for name in (CPU, MEMORY, *shown)),
        age(app["submissionTime"], now_ns),
    )


def _app_details(app: Json) -> tuple[str, ...]:
    reasons = dict.fromkeys(filter(None, (pending.reason_message(ask) for ask in app["requests"])))
    return (
        app.get("gangSchedulingStyle") or NONE,
        _priority(app["maxRequestPriority"]),
        amounts(app["pendingResource"]),
        app["rejectedMessage"] or next(iter(reasons), NONE),
    )


def app(found: Json, wide: bool, now_ns: int) -> RenderableType:  # noqa: FBT001  # the signature of a View
    """One application: facts, state transitions, task groups, pods."""
    parts: list[RenderableType] = [_app_facts(found, now_ns), "", _state_log(found, now_ns)]
    if found["placeholderData"]:
        parts += ["", _task_groups(found)]
    if found["allocations"] or found["requests"]:
        parts += ["", _pods(found, now_ns, wide=wide)]
    return Group(*parts)


def _app_facts(app: Json, now_ns: int) -> Facts:
    made = Facts()
    rows = {
        "application": app["applicationID"],
        "namespace": app.get("namespace") or "",
        "queue": app["queueName"] + pending.ignored_queue(app),
        "state": app["applicationState"],
        "user": app["user"] + (f" ({', '.join(app['groups'])})" if app["groups"] else ""),
        "age": age(app["submissionTime"], now_ns),
        "rejected": app["rejectedMessage"],
        "gang": app.get("gangSchedulingStyle") or pending.lost_gang(app),
        "gang warnings": app.get("gangWarnings") or "",
        "gang size": amounts(app["placeholderAsk"]) if app["placeholderAsk"] else "",
        "quota reservation": amounts(app["reservedQuota"]) if app["reservedQuota"] else "",
        "allocated": amounts(app["usedResource"]),
        "pending": amounts(app["pendingResource"]) if any(app["pendingResource"].values()) else "",
        "reserved nodes": ", ".join(dict.fromkeys(entry.partition("|")[0] for entry in app["reservations"])),
    }
    for name, value in rows.items():
        if value:
            made.add_row(name, value)
    return made


def _state_log(app: Json, now_ns: int) -> FittingTable:
    """When each state began, and how long it lasted."""
    made = table("STATE", "SINCE", "FOR")
    log = app["stateLog"]
    ends = [*(entry["time"] for entry in log[1:]), app.get("finishedTime") or now_ns]
    for entry, end in zip(log, ends, strict=True):
        made.add_row(entry["applicationState"], age(entry["time"], now_ns), span((end - entry["time"]) // 10**9))
    return made


def _task_groups(app: Json) -> FittingTable:
    made = table(
        *("TASK GROUP", "EACH", "PLACEHOLDERS", "RUNNING", "REPLACED", "TIMED OUT", "MEMBERS BOUND", "MEMBERS PENDING"),
        optional=("TIMED OUT", "REPLACED", "RUNNING", "PLACEHOLDERS"),
        sentences=("EACH",),
    )
    for group in sorted(app["placeholderData"], key=lambda group: str(group["taskGroupName"])):
        name = group["taskGroupName"]
        bound = [item for item in app["allocations"] if item["taskGroupName"] == name]
        waiting = [item for item in app["requests"] if item["taskGroupName"] == name and not item["placeholder"]]
        running = sum(bool(item["placeholder"]) for item in bound)
        counts = (group["count"], running, group["replaced"], group["timedout"], len(bound) - running, len(waiting))
        made.add_row(name, size(group["minResource"]), *map(str, counts))
    return made


def _pods(app: Json, now_ns: int, *, wide: bool) -> FittingTable:
    """Pods before placeholders, bound ones first. Slots have the name of a member, so their number is shown."""
    more = ("PRIORITY", "REQUESTS", "DEVICES", "KEY") if wide else ()
    made = table(
        *("POD", "TASK GROUP", "KIND", "NODE", "STATE", "AGE", *more, "REASON"),
        optional=("AGE", "KIND", "TASK GROUP", "NODE"),
        sentences=("STATE", "REASON"),
    )
    for item in [*_by_name(app["allocations"]), *_by_name(app["requests"])]:
        devices = ", ".join(item.get("devices") or ()) or NONE
        extra = (str(item["priority"]), size(item["resource"]), devices, item["allocationKey"]) if wide else ()
        kind = pending.kind(item)
        made.add_row(
            count(item.get("pendingCount") or 1, kind) if kind == "slot" else pending.full_name(item),
            item["taskGroupName"] or NONE,
            kind,
            pending.node(item) or NONE,
            pending.state(item),
            age(item["requestTime"], now_ns),
            *extra,
            pending.pod_reason(app, item),
        )
    return made


def _by_name(items: list[Json]) -> list[Json]:
    return sorted(items, key=lambda item: (bool(item["placeholder"]), pending.full_name(item)))


# --- nodes -----------------------------------------------------------------------------------------------------------


def nodes(found: list[Json], wide: bool, now_ns: int) -> FittingTable:  # noqa: FBT001  # the signature of a View
    """One row per node. `OTHERS`: pods of other schedulers."""
    more = ("PODS", "OTHERS USE", "FREE", "RESERVED FOR") if wide else ()
    shown = columns_of(*({name: value for name, value in node["capacity"].items() if "/" in name} for node in found))
    made = table(
        *("NODE", "STATE", "CPU", "CPU%", "MEMORY", "MEMORY%", *shown.values(), "ALLOCATIONS", "OTHERS", *more),
        optional=("OTHERS", "CPU%", "MEMORY%", "ALLOCATIONS", "STATE"),
    )
    for node in sorted(found, key=lambda node: str(node["nodeID"])):
        used, total = node["allocated"], node["capacity"]
        made.add_row(
            node["nodeID"],
            node["state"],
            part(CPU, used, total),
            percent(CPU, used, total),
            part(MEMORY, used, total),
            percent(MEMORY, used, total),
            *(part(name, used, total) for name in shown),
            str(len(node["allocations"])),
            str(len(node["foreignAllocations"])),
            *(_node_details(node) if wide else ()),
        )
    return made


def _node_details(node: Json) -> tuple[str, ...]:
    return (
        part(PODS, node["allocated"], node["capacity"]),
        amounts(node["occupied"]),
        amounts(node["available"]),
        ", ".join(node["reservations"]) or NONE,
    )


# --- explain ---------------------------------------------------------------------------------------------------------

#: Maximum number of applications ahead without `-o wide`.
_SHOWN: Final = 5
_ALL_NODES: Final = -1


def explanation(found: Json, wide: bool, now_ns: int) -> RenderableType:  # noqa: FBT001  # the signature of a View
    """Status, reasons with suggestions, preemption attempts, applications ahead in the queue."""
    parts: list[RenderableType] = [_explanation_facts(found)]
    by_message: dict[str, list[Json]] = {}
    for reason in found["reasons"]:
        by_message.setdefault(reason["message"], []).append(reason)
    for reasons in by_message.values():
        parts += ["", *_reason(reasons)]
    if found["preemption"]:
        parts += ["", "Preemption: " + "; ".join(found["preemption"])]
    if found["ahead"]:
        parts += ["", *_ahead(found, now_ns, wide=wide)]
    if "changes" in found:
        parts += [
            "",
            *(changes(found["changes"]) if found["pending"] else ["Changes: none, because no pod is pending"]),
        ]
    if "estimate" in found:
        parts += ["", estimated_start(found["estimate"]) if found["pending"] else "Estimated start: no pod is pending"]
    if "history" in found:
        parts += ["", *history(found["history"])]
    return Group(*parts)


def history(found: Json) -> Iterator[RenderableType]:
    """What happened, oldest first, with the time since the first entry. A namespace that all pods have is left out."""
    entries = found["entries"]
    spaces = {name.partition("/")[0] for entry in entries for name in entry["names"] if "/" in name}
    space = f"{spaces.pop()}/" if len(spaces) == 1 else ""
    made = table("TIME", "AFTER", "FROM", "PODS", "WHAT", optional=("AFTER", "FROM"), sentences=("PODS", "WHAT"))
    for entry in entries:
        at = datetime.fromtimestamp(entry["time"] / _SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        more = entry["count"] - len(entry["names"])
        pods = ", ".join(name.removeprefix(space) for name in entry["names"]) + (
            f" and {more} more" if more > 0 and entry["names"] else ""
        )
        what = ": ".join(filter(None, (entry["what"], entry["message"])))
        if entry["count"] > 1:
            lasted = (entry["until"] - entry["time"]) // _SECOND
            what += f" ({entry['count']} times{f' in {span(lasted)}' if lasted else ''})"
        made.add_row(at, age(entries[0]["time"], entry["time"]), entry["source"], pods, what)
    yield "History:"
    yield made
    yield from found["notes"]


def changes(found: Json) -> list[str]:
    """The sets of changes that would start an application, one line each."""
    if found["startsAnyway"]:
        return ["Changes: none is needed; it starts within a minute"]
    limit = [] if found["complete"] else ["The search reached its limit of time or changes; there may be others."]
    if not found["sets"]:
        return [
            "Changes: no small set of ended applications, nodes, quotas or constraints would start it",
            *limit,
        ]
    first = "Each of these lines is enough to start it:" if len(found["sets"]) > 1 else "This is enough to start it:"
    return [first, *(f"  {'; '.join(map(_change_text, remedy))}" for remedy in found["sets"]), *limit]


def estimated_start(found: Json) -> str:
    """The estimate with its range and the number of applications with each kind of run time."""
    known = ", ".join(f"{number} {basis}" for basis, number in found["runTimes"].items()) or "none are needed"
    early, usual, late = (found[f"{name}Seconds"] for name in ("earliest", "usual", "latest"))
    if not found["complete"]:
        return f"Estimated start: the simulation reached its time limit (run times: {known})"
    if usual is None:
        return f"Estimated start: not within 30 days (run times: {known}; unknown ones have no end)"
    between = f"{span(early or 0)} to {span(late)}" if late is not None else f"{span(early or 0)} or later"
    return f"Estimated start: in {span(usual)}, range {between} (run times: {known})"


def _change_text(entry: Json) -> str:
    match entry["change"]:
        case "endApplication":
            name = "/".join(filter(None, (entry["namespace"], entry["application"])))
            return f"end {name} ({count(entry['pods'], 'pod')}, {amounts(entry['resources'])})"
        case "addNodes":
            return f"add {count(entry['count'], 'node')} like {entry['like']} ({amounts(entry['resources'])})"
        case "raiseMaximum" | "raiseLimits":
            parts = [amounts(entry["max"])] if entry["max"] else []
            parts += [count(entry["maxApplications"], "application")] if entry["maxApplications"] else []
            of = "maximum of"
            if entry["change"] == "raiseLimits":
                whose = f"user {entry['user']}" if entry["user"] else f"group {entry['group']}"
                of = f"limit of {whose} in"
            return f"raise the {of} queue {entry['queue']} to {', '.join(parts)}"
        case _:
            return f"drop: {entry['constraint']}"


def _explanation_facts(found: Json) -> Facts:
    made = Facts()
    if found["pod"]:
        made.add_row("pod", found["pod"])
    made.add_row("application", f"{found['application']} ({found['state']})")
    quota = found["quota"]
    available = f", {amounts(quota['headroom'])} available" if quota else ", which does not exist"
    made.add_row("queue", found["queue"] + available)
    if found["requested"]:
        made.add_row("ignored", f"queue {found['requested']} of its pods: a placement rule selected another one")
    made.add_row("bound", str(found["bound"]))
    if found["reserved"]:
        made.add_row("reserved", f"{count(found['reserved'], 'slot')} of members without a pod")
    made.add_row("pending", str(found["pending"]))
    if found["gang"]:
        made.add_row("gang", found["gang"])
    if found["warnings"]:
        made.add_row("warnings", found["warnings"])
    made.add_row("status", found["status"])
    return made


def _reason(reasons: list[Json]) -> list[RenderableType]:
    """One message, of pods and slots."""
    reason = reasons[0]
    parts: list[RenderableType] = [f"{', '.join(map(_blocked_pods, reasons))}: {reason['message']}"]
    if reason["nodes"]:
        counts = table("NODES", "REASON", sentences=("REASON",))
        for text, number in sorted(reason["nodes"].items(), key=lambda entry: (-entry[1], entry[0])):
            counts.add_row("all" if number == _ALL_NODES else str(number), text)
        parts.append(counts)
    if reason["suggestion"]:
        parts.append(f"Suggestion: {reason['suggestion']}")
    return parts


def _blocked_pods(reason: Json) -> str:
    """`2 pods (a, b)`, `4 placeholders of workers`: names of placeholders are generated, so they are not shown."""
    if reason["kind"] == "gang":
        return "gang"
    number = count(reason["count"], reason["kind"])
    if reason["kind"] in ("placeholder", "slot") and reason["groups"]:
        return f"{number} of {', '.join(sorted(reason['groups']))}"
    more = reason["count"] - len(reason["pods"])
    return f"{number} ({', '.join(reason['pods'])}{f' and {more} more' if more > 0 else ''})"


def _ahead(found: Json, now_ns: int, *, wide: bool) -> list[RenderableType]:
    ahead = found["ahead"]
    shown = ahead if wide else ahead[:_SHOWN]
    made = table(
        *("APPLICATION", "STATE", "PRIORITY", "REQUESTS", "AGE", ""),
        optional=("AGE", "PRIORITY", "STATE"),
        sentences=("REQUESTS", ""),
    )
    for item in shown:
        made.add_row(
            item["applicationID"],
            item["applicationState"],
            str(item["priority"]),
            amounts(item["pendingResource"]),
            age(item["submissionTime"], now_ns),
            "blocks the queue" if item["blocksOthers"] else "",
        )
    rest = len(ahead) - len(shown)
    parts: list[RenderableType] = [f"Ahead in queue {found['queue']}: {count(len(ahead), 'application')}", made]
    return [*parts, f"and {rest} more (-o wide)"] if rest else parts


# --- doctor ----------------------------------------------------------------------------------------------------------

_SEVERITY: Final = ("ok", "unknown", "warning", "problem")


def findings(found: list[Json], wide: bool, now_ns: int) -> RenderableType:  # noqa: FBT001  # the signature of a View
    """One row per finding, the most severe ones last, and the remedies: below, or in a column of `-o wide`."""
    made = table("CHECK", "RESULT", "MESSAGE", *(("REMEDY",) if wide else ()), sentences=("MESSAGE", "REMEDY"))
    in_severity = sorted(found, key=lambda finding: _SEVERITY.index(finding["level"]))
    for finding in in_severity:
        extra = (finding["remedy"],) if wide else ()
        made.add_row(finding["check"], finding["level"], finding["message"], *extra)
    remedies = [] if wide else [f"{item['check']}: {item['remedy']}" for item in in_severity if item["remedy"]]
    parts: list[RenderableType] = [made, "", _summary(found)]
    return Group(*parts, *(Padding(remedy, (0, 0, 0, 2), expand=False) for remedy in dict.fromkeys(remedies)))


def _summary(found: list[Json]) -> str:
    numbers = {level: sum(finding["level"] == level for finding in found) for level in reversed(_SEVERITY)}
    shown = [count(number, level) for level, number in numbers.items() if number and level in ("problem", "warning")]
    if numbers["unknown"]:
        shown.append(f"{numbers['unknown']} unknown")
    return ", ".join(shown) or "no problems found"


# --- quantities and times --------------------------------------------------------------------------------------------

_MILLI: Final = 1000
_KIBI: Final = 1024
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_SECOND: Final = 1_000_000_000
_SPANS: Final = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
_BYTES: Final = (MEMORY, "ephemeral-storage")


def amount(resource: str, value: int) -> str:
    """A Kubernetes quantity: `2`, `1500m`, `4Gi`."""
    if resource == CPU:
        return f"{value}m" if value % _MILLI else str(value // _MILLI)
    if resource not in _BYTES and not resource.startswith("hugepages-"):
        return str(value)
    scaled, step = float(value), 0
    while abs(scaled) >= _KIBI and step < len(_BINARY) - 1:
        scaled, step = scaled / _KIBI, step + 1
    return f"{round(scaled, 1):g}{_BINARY[step]}"


def amounts(found: Mapping[str, int] | None) -> str:
    """Several quantities in one cell: `cpu 1500m, memory 4Gi`."""
    known = found or {}
    return ", ".join(f"{label(name)} {amount(name, known[name])}" for name in in_order(known)) or NONE


def size(found: Mapping[str, int] | None) -> str:
    """The requests of one pod, without `pods 1`."""
    return amounts({name: value for name, value in (found or {}).items() if (name, value) != (PODS, 1)})


def in_order(names: Iterable[str]) -> list[str]:
    """CPU and memory first."""
    return sorted(names, key=lambda name: (name != CPU, name != MEMORY, name))


def columns_of(*found: Mapping[str, int]) -> dict[str, str]:
    """Titles of the resources with an amount, other than CPU, memory and pods: GPU for `nvidia.com/gpu` alone."""
    names = {name for amounts_of in found for name, value in (amounts_of or {}).items() if value}
    names -= {CPU, MEMORY, PODS}
    last = {name: name.removesuffix(DEVICES_OF_CLASS).rpartition("/")[2] for name in sorted(names)}
    short = Counter(last.values())
    return {name: (title if short[title] == 1 else name).upper() for name, title in last.items()}


def label(resource: str) -> str:
    """The name of a resource in manifests. A resource that queues.yaml calls cpu is not the CPU of pods."""
    return {CPU: "cpu", "cpu": '"cpu" (not vcore)'}.get(resource, resource)


def part(resource: str, used: Mapping[str, int], total: Mapping[str, int]) -> str:
    """`3/6`; without a maximum `3`."""
    shown = amount(resource, used.get(resource, 0))
    return f"{shown}/{amount(resource, total[resource])}" if resource in total else shown


def percent(resource: str, used: Mapping[str, int], total: Mapping[str, int]) -> str:
    """The used part in percent; `-` if the total is zero or unknown."""
    return f"{100 * used.get(resource, 0) // total[resource]}%" if total.get(resource) else NONE


def age(at_ns: int, now_ns: int) -> str:
    """Time since `at_ns`: `3m20s`; `-` for 0."""
    return span((now_ns - at_ns) // _SECOND) if at_ns else NONE


def span(seconds: int) -> str:
    """A duration in its two largest units."""
    left, shown = max(0, int(seconds)), list[str]()
    for unit, letter in _SPANS:
        if left >= unit and len(shown) < 2:
            shown.append(f"{left // unit}{letter}")
        elif shown:
            break
        left %= unit
    return "".join(shown) or "0s"


def count(number: int, thing: str) -> str:
    """`1 node`, `3 nodes`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
