"""What the controller knows of storage, and how far the claims of each pod are bound. See `volume_binding`."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum

from muster_operator.model.commands import StorageCommand
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.storage import Attachment, Claim, ClaimRef, NodeDrivers, Volume


class StepState(Enum):
    """Progress of binding one claim of a pod to its volume."""

    TO_WRITE = "not written yet"
    ORDERED = "the write is queued or in flight"
    WRITTEN = "written; not seen on the watch yet"
    SEEN = "seen on the watch; other controllers have to continue"


@dataclass(slots=True)
class Step:
    """One claim of a pod with a chosen node.

    ``volume``: the chosen volume, empty if it is to be provisioned for the node. ``order``: the last command, sent
    ``tries`` times. ``version``: the resource version that the write returned, 0 before.
    """

    claim: ClaimRef
    volume: str
    state: StepState = StepState.TO_WRITE
    order: StorageCommand | None = None
    tries: int = 1
    version: int = 0


@dataclass(slots=True)
class VolumeWait:
    """Claims, by ``namespace/name``, that have to be bound before the pod. The wait fails at ``until``."""

    steps: dict[str, Step]
    until: float


@dataclass(slots=True)
class Storage:
    """Storage objects in Kubernetes. ``drivers``: attach limits of nodes, as node attributes.

    ``attached_to``: attachments by node and name. ``holders``: names of the attachments of a volume, by volume name.
    ``waiting``: pods that wait for a volume (key: its name) or a claim (key: ``namespace/name``).
    """

    volumes: dict[str, Volume] = field(default_factory=dict)
    claims: dict[str, Claim] = field(default_factory=dict)
    drivers: dict[NodeName, NodeDrivers] = field(default_factory=dict)
    attachments: dict[str, Attachment] = field(default_factory=dict)
    attached_to: defaultdict[NodeName, dict[str, Attachment]] = field(default_factory=lambda: defaultdict(dict))
    holders: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    waiting: dict[str, set[PodUid]] = field(default_factory=dict)
