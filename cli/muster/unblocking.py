"""The smallest changes that would start an application (`muster explain --changes`).

Tries changes on copies of the cluster (`muster.cluster_copy`, `muster_core.foresight.unblocking`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from muster.cluster_copy import ClusterCopy
from muster.errors import BadUsage
from muster_core.foresight.changes import (
    AddNode,
    ClusterChange,
    DropConstraint,
    EndApplication,
    RaiseMaximum,
    RaiseUserLimits,
    raised,
)
from muster_core.foresight.unblocking import Advice, has_started, prospects, unblock
from muster_core.foresight.virtual_core import VirtualCore
from muster_core.foresight.workload import PARTITION
from muster_core.state.applications import Application

Json = dict[str, Any]

_CLAIMS = "it has claims of volumes or devices, which are not simulated"


def changes(copied: ClusterCopy, app: Json, option: str, real_s: float) -> Json:
    """The sets of changes as data: `startsAnyway`, `complete`, and `sets` of changes. Raises CommandError.

    `option`: what messages are about. `real_s`: the time of the search.
    """
    core, on_copy = copied.scheduled()
    target = find_target(core, app, option)
    if has_started(target):
        return _data(core, Advice(starts_anyway=True, remedies=(), is_complete=True))
    deadline = time.monotonic() + real_s
    known = copied.once(
        "prospects", 0, lambda: prospects(core, on_copy, PARTITION, lambda: time.monotonic() < deadline)
    )
    return _data(core, unblock(core, on_copy, PARTITION, target.id, lambda: time.monotonic() < deadline, known))


def find_target(core: VirtualCore, app: Json, option: str) -> Application:
    """The application in the copy; of several runs the one that waits. Raises BadUsage if it cannot be examined."""
    name, namespace = app["applicationID"], app.get("namespace") or ""
    partition = core.scheduler_state.partitions[PARTITION]
    alike = [one for one in partition.applications.values() if (one.name, one.spec.namespace) == (name, namespace)]
    if not alike:
        raise BadUsage(f"{option} cannot examine {name}: it has no pods")
    target = min(alike, key=has_started)
    if any(ask.spec.facts.has_claims for ask in target.asks.values()):
        raise BadUsage(f"{option} cannot examine {name}: {_CLAIMS}")
    return target


# --- output ----------------------------------------------------------------------------------------------------------


def _data(core: VirtualCore, advice: Advice) -> Json:
    return {
        "startsAnyway": advice.starts_anyway,
        "complete": advice.is_complete,
        "sets": [_entries(core, remedy) for remedy in advice.remedies],
    }


def _entries(core: VirtualCore, remedy: Iterable[ClusterChange]) -> list[Json]:
    """Changes as data; equal nodes are one entry, and each limit of a user or group is one."""
    nodes = Counter(change.like.id for change in remedy if isinstance(change, AddNode))
    found: list[Json] = []
    for change in remedy:
        if isinstance(change, RaiseUserLimits):
            found += _limits(core, change)
            continue
        entry = _entry(change)
        if entry["change"] == "addNodes":
            if not (number := nodes.pop(entry["like"], 0)):
                continue
            entry["count"] = number
        found.append(entry)
    return found


def _limits(core: VirtualCore, change: RaiseUserLimits) -> Iterator[Json]:
    """The bounds that the change raises, of the limits that apply to the user and to the group."""
    queue = core.scheduler_state.partitions[PARTITION].queues.by_path[change.queue]
    for kind, name in (("user", change.user), ("group", change.group)):
        limits = {who: limit for limit in queue.limits for who in getattr(limit, f"{kind}s")}
        limit = limits.get(name, limits.get("*")) if name else None
        if limit is None:
            continue
        bounds = dict({*raised(limit.max, change.max).items()} - {*limit.max.items()})
        most = change.max_applications if 0 < limit.max_applications < change.max_applications else 0
        if bounds or most:
            names = {"user": "", "group": "", kind: name if name in limits else "*"}
            yield {"change": "raiseLimits", **names, "queue": change.queue, "max": bounds, "maxApplications": most}


def _entry(change: EndApplication | AddNode | RaiseMaximum | DropConstraint) -> Json:
    match change:
        case EndApplication():
            used = dict(change.resources.items())
            return {
                "change": "endApplication",
                "application": change.name,
                "namespace": change.namespace,
                "pods": change.pods,
                "resources": used,
            }
        case AddNode():
            return {"change": "addNodes", "like": change.like.id, "resources": dict(change.like.capacity.items())}
        case RaiseMaximum():
            found = {"queue": change.queue, "max": dict(change.max.items()), "maxApplications": change.max_applications}
            return {"change": "raiseMaximum", **found}
        case DropConstraint():
            return {"change": "dropConstraint", "constraint": change.constraint.value}
