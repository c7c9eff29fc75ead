"""A copy of the cluster for `muster explain --changes`, `plan` and `apply --dry-run`, in the process of the command.

Nodes and pods are read from the API server with the permissions of the user, and the active configuration from REST, so
that the copy shows nothing that the user could not read. The core in the cluster only sends its configuration.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import yaml

from muster.clients.kubernetes import Cluster
from muster.clients.rest import Rest
from muster.errors import BadUsage
from muster.manifests import read_cluster
from muster_core.config.load import load
from muster_core.foresight.unblocking import Make, OnCopy, copies, scheduled, unscheduled
from muster_core.foresight.virtual_core import VirtualCore
from muster_core.foresight.workload import RM, BadInput
from muster_core.model.config import Configuration
from muster_core.model.errors import ConfigurationError
from muster_core.model.events import Event, ManagerRegistered

Json = dict[str, Any]

_Value = TypeVar("_Value")

_PATHS: Final = {
    "nodes": "/api/v1/nodes",
    "namespaces": "/api/v1/namespaces",
    "priorityclasses": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "pods": "/api/v1/pods",
}

#: Most objects of one kind that are read.
_MOST_OBJECTS: Final = 200_000


@dataclass(frozen=True, slots=True)
class ClusterCopy:
    """The cluster as events of a core, at a time since the epoch. `extra`: the settings; `pods`: names by UID.

    `shared`: namespaces and priority classes, for manifests that refer to them. `deadlines`: seconds by UID.
    `is_of_core`: the events are of a core that has planned, so that what waits there cannot start at once.
    """

    configuration: Configuration
    extra: dict[str, str]
    objects: list[Event]
    now_ns: int
    pods: dict[str, str] = field(default_factory=dict)
    shared: list[Json] = field(default_factory=list)
    deadlines: dict[str, int] = field(default_factory=dict)
    is_of_core: bool = False
    _made: dict[Make, VirtualCore] = field(default_factory=dict, init=False, repr=False)
    _known: dict[str, tuple[object, Any]] = field(default_factory=dict, init=False, repr=False)

    @property
    def events(self) -> list[Event]:
        """The events with the active configuration."""
        return self.under(self.configuration)

    def scheduled(self) -> tuple[VirtualCore, OnCopy]:
        """A core with the cluster, where waiting requests have reserved nodes, and what copies it."""
        return self._copied(self._scheduled)

    def unscheduled(self) -> OnCopy:
        """What copies a core that has not planned what it could start."""
        return self._copied(self._scheduled if self.is_of_core else unscheduled)[1]

    def _scheduled(self, events: Sequence[Event], now_ns: int) -> VirtualCore:
        return scheduled(events, now_ns, self.configuration.timing.reservation_delay_ns)

    def _copied(self, make: Make) -> tuple[VirtualCore, OnCopy]:
        """Of the two cores one is kept, because a core needs much memory."""
        if make not in self._made:
            self._made.clear()
            self._made[make] = make(self.events, self.now_ns)
        return self._made[make], copies(self._made[make], self.events, make)

    def once(self, name: str, argument: object, make: Callable[[], _Value]) -> _Value:
        """Returns what `make` returned for this argument, the last one of this name, so that it is made once."""
        if self._known.get(name, (None,))[0] != argument:
            self._known[name] = argument, make()
        value: _Value = self._known[name][1]
        return value

    def under(self, configuration: Configuration) -> list[Event]:
        """The events with another configuration."""
        return [ManagerRegistered(RM, replace(configuration, tracking=False)), *self.objects]


def read_copy(rest: Rest, cluster: Cluster, option: str) -> ClusterCopy:
    """Copies the cluster. `option`: what messages are about. Raises CommandError."""
    configuration, extra = _configuration(rest)
    pods: dict[str, str] = {}
    shared: list[Json] = []
    deadlines: dict[str, int] = {}

    def listed(plural: str) -> Iterable[Json]:
        """All objects of a list. Raises BadUsage if there are too many, and Unreachable without permission."""
        kind = {"namespaces": "Namespace", "priorityclasses": "PriorityClass"}.get(plural)
        for number, found in enumerate(cluster.list(_PATHS[plural])):
            if number >= _MOST_OBJECTS:
                raise BadUsage(f"{_PATHS[plural]} has more than {_MOST_OBJECTS} objects, which {option} does not read")
            metadata = found.get("metadata") or {}
            if plural == "pods":
                uid, deadline = str(metadata.get("uid")), (found.get("spec") or {}).get("activeDeadlineSeconds")
                pods[uid] = f"{metadata.get('namespace')}/{metadata.get('name')}"
                if isinstance(deadline, int) and deadline > 0:
                    deadlines[uid] = deadline
            elif kind:
                shared.append({"kind": kind, **found})  # the items of a list have no kind
            yield found

    try:
        objects = read_cluster({plural: listed(plural) for plural in _PATHS})
    except BadInput as error:
        raise BadUsage(str(error)) from error
    now_ns = int(cluster.server_time().timestamp() * 1e9)
    return ClusterCopy(configuration, extra, objects, now_ns, pods, shared, deadlines)


def _configuration(rest: Rest) -> tuple[Configuration, dict[str, str]]:
    found = yaml.load(rest.configuration(), yaml.CSafeLoader)
    try:
        text, extra = json.dumps({"partitions": found["partitions"]}), dict(found.get("extra") or {})
        return load(text, extra).configuration, extra
    except (ConfigurationError, KeyError, TypeError) as error:
        raise BadUsage(f"the configuration of {rest.where} cannot be used: {error}") from error
