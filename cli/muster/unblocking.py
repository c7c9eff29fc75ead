"""The smallest changes that would start an application (`muster explain --changes`).

Reads nodes and pods with the permissions of the user, gives them to a core in this process, and tries changes on copies
of it (`muster_core.foresight.unblocking`). The core in the cluster only sends its configuration.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import yaml

from muster.clients.kubernetes import Cluster
from muster.clients.rest import Rest
from muster.errors import BadUsage
from muster.manifests import read_cluster
from muster_core.config.load import load
from muster_core.foresight.changes import (
    AddNode,
    ClusterChange,
    DropConstraint,
    EndApplication,
    RaiseMaximum,
    RaiseUserLimits,
)
from muster_core.foresight.unblocking import Advice, forked, has_started, replayed, settle, unblock
from muster_core.foresight.virtual_core import VirtualCore
from muster_core.foresight.workload import PARTITION, RM, BadInput
from muster_core.model.config import Configuration
from muster_core.model.errors import ConfigurationError
from muster_core.model.events import Event, ManagerRegistered
from muster_core.state.applications import Application

Json = dict[str, Any]

_PATHS: Final = {
    "nodes": "/api/v1/nodes",
    "namespaces": "/api/v1/namespaces",
    "priorityclasses": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "pods": "/api/v1/pods",
}

#: Most pods and nodes that are read, and the time of the search.
_MOST_OBJECTS: Final = 200_000
_SEARCH_S: Final = 30.0
_VOLUMES = "it has PersistentVolumeClaims, and storage is not simulated"


def changes(rest: Rest, cluster: Cluster, app: Json) -> Json:
    """The sets of changes as data: `startsAnyway`, `complete`, and `sets` of changes. Raises CommandError."""
    configuration = _configuration(rest)
    try:
        events = read_cluster({plural: _listed(cluster, path) for plural, path in _PATHS.items()})
    except BadInput as error:
        raise BadUsage(str(error)) from error
    now_ns = int(cluster.server_time().timestamp() * 1e9)
    return search([ManagerRegistered(RM, configuration), *events], now_ns, app)


def search(events: list[Event], now_ns: int, app: Json) -> Json:
    """As `changes`, for the events of a cluster."""
    core = VirtualCore(now_ns)
    settle(core, core.send(events))
    target = _target(core, app)
    if has_started(target):
        return _data(Advice(starts_anyway=True, remedies=(), is_complete=True))
    deadline = time.monotonic() + _SEARCH_S
    on_copy = forked(core) if hasattr(os, "fork") else replayed(events, now_ns)
    return _data(unblock(core, on_copy, PARTITION, target.id, lambda: time.monotonic() < deadline))


def _configuration(rest: Rest) -> Configuration:
    found = yaml.safe_load(rest.configuration())
    try:
        text = yaml.safe_dump({"partitions": found["partitions"]})
        return replace(load(text, found.get("extra") or {}).configuration, tracking=False)
    except (ConfigurationError, KeyError, TypeError) as error:
        raise BadUsage(f"the configuration of {rest.where} cannot be used: {error}") from error


def _listed(cluster: Cluster, path: str) -> Iterable[Json]:
    """All objects of a list. Raises BadUsage if there are too many, and Unreachable without permission."""
    for number, found in enumerate(cluster.list(path)):
        if number >= _MOST_OBJECTS:
            raise BadUsage(f"{path} has more than {_MOST_OBJECTS} objects, which --changes does not read")
        yield found


def _target(core: VirtualCore, app: Json) -> Application:
    """The application in the copy; of several runs the one that waits. Raises BadUsage if it cannot be examined."""
    name, namespace = app["applicationID"], app.get("namespace") or ""
    partition = core.scheduler_state.partitions[PARTITION]
    alike = [one for one in partition.applications.values() if (one.name, one.spec.namespace) == (name, namespace)]
    if not alike:
        raise BadUsage(f"--changes cannot examine {name}: the API server has no pods of it")
    target = min(alike, key=has_started)
    if any(ask.spec.facts.volumes.claims for ask in target.asks.values()):
        raise BadUsage(f"--changes cannot examine {name}: {_VOLUMES}")
    return target


# --- output ----------------------------------------------------------------------------------------------------------


def _data(advice: Advice) -> Json:
    return {
        "startsAnyway": advice.starts_anyway,
        "complete": advice.is_complete,
        "sets": [_entries(remedy) for remedy in advice.remedies],
    }


def _entries(remedy: Iterable[ClusterChange]) -> list[Json]:
    """Changes as data; equal nodes are one entry."""
    nodes = Counter(change.like.id for change in remedy if isinstance(change, AddNode))
    found = []
    for change in remedy:
        entry = _entry(change)
        if entry["change"] == "addNodes":
            if not (number := nodes.pop(entry["like"], 0)):
                continue
            entry["count"] = number
        found.append(entry)
    return found


def _entry(change: ClusterChange) -> Json:
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
        case RaiseMaximum() | RaiseUserLimits():
            found = {"queue": change.queue, "max": dict(change.max.items()), "maxApplications": change.max_applications}
            if isinstance(change, RaiseMaximum):
                return {"change": "raiseMaximum", **found}
            return {"change": "raiseLimits", "user": change.user, "group": change.group, **found}
        case DropConstraint():
            return {"change": "dropConstraint", "constraint": change.constraint.value}
