"""What the ledger holds of storage: volumes, claims, what is attached where, and who waits for which of them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum

from muster_operator.model.commands import StorageCommand
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.storage import Attachment, Claim, ClaimRef, NodeDrivers, Volume


class StepState(Enum):
    """How far one claim of a pod is on its way to its volume."""

    TO_WRITE = "nothing was written for it yet"
    ORDERED = "the write was ordered"
    WRITTEN = "the API server has it; the watch has not shown it"
    SEEN = "the watch showed it; now it is up to others"


@dataclass(slots=True)
class Step:
    """One claim of a pod that has its node. ``volume``: the chosen one, empty = it is to be made for the node.

    ``order``: what was ordered last, for the ``tries``-th time.
    """

    claim: ClaimRef
    volume: str
    state: StepState = StepState.TO_WRITE
    order: StorageCommand | None = None
    tries: int = 1


@dataclass(slots=True)
class Mounting:
    """The claims of a pod that is bound to its node once they are bound, by ``namespace/name``; ``until``: at last."""

    steps: dict[str, Step]
    until: float


@dataclass(slots=True)
class Storage:
    """As Kubernetes shows it. ``drivers``: what nodes can attach, as their attributes.

    ``attached_to``: attachments by node, by name. ``holders``: nodes that attach a volume, by its name, one for each
    attachment. ``waiting``: pods that wait for a volume or a claim, by its name (a claim's has a slash).
    """

    volumes: dict[str, Volume] = field(default_factory=dict)
    claims: dict[str, Claim] = field(default_factory=dict)
    drivers: dict[NodeName, NodeDrivers] = field(default_factory=dict)
    attachments: dict[str, Attachment] = field(default_factory=dict)
    attached_to: defaultdict[NodeName, dict[str, Attachment]] = field(default_factory=lambda: defaultdict(dict))
    holders: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    waiting: dict[str, set[PodUid]] = field(default_factory=dict)
