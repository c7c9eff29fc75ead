"""What the controller knows of storage and devices, and how far the claims of each pod are bound.

See `volume_binding` and `device_claims`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum

from muster_operator.model.commands import ClaimCommand, ReserveClaim
from muster_operator.model.devices import DeviceClaim, DeviceClass, DeviceName, DeviceSlice, TaintRule
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.storage import Attachment, Claim, ClaimRef, NodeDrivers, Volume


class StepState(Enum):
    """Progress of binding one claim of a pod to its volume, or of reserving its devices."""

    TO_WRITE = "not written yet"
    ORDERED = "the write is queued or in flight"
    WRITTEN = "written; not seen on the watch yet"
    SEEN = "seen on the watch; other controllers have to continue"


@dataclass(slots=True, kw_only=True)
class Step:
    """One claim of a pod with a chosen node.

    ``order``: the last command, sent ``tries`` times. ``version``: the resource version that the write returned, 0
    before.
    """

    claim: ClaimRef
    state: StepState = StepState.TO_WRITE
    order: ClaimCommand | None = None
    tries: int = 1
    version: int = 0


@dataclass(slots=True, kw_only=True)
class VolumeStep(Step):
    """A PersistentVolumeClaim. ``volume``: the chosen volume, empty if it is to be provisioned for the node."""

    volume: str


@dataclass(slots=True, kw_only=True)
class DeviceStep(Step):
    """A ResourceClaim. ``allocation``: what is written to its status, empty = it is allocated already.

    ``has``: the devices that it has then. ``known``: see ReserveClaim. ``has_conditions``: drivers have to prepare a
    device before the bind.
    """

    allocation: str
    has: frozenset[DeviceName] = frozenset()
    known: str = ""
    has_conditions: bool = False


def device_key(claim: str) -> str:
    """The key of a ResourceClaim, ``namespace/name``, among the claims that pods wait for."""
    return f"resourceclaim {claim}"


def step_key(command: ClaimCommand) -> str:
    """The key of the step that ordered the command."""
    return device_key(command.claim.key) if isinstance(command, ReserveClaim) else command.claim.key


def names_of(key: str, step: Step) -> tuple[str, ...]:
    """The objects whose changes continue the step."""
    return (key, step.volume) if isinstance(step, VolumeStep) and step.volume else (key,)


@dataclass(slots=True)
class ClaimWait:
    """Claims that have to be bound or reserved before the pod. The wait fails at ``until``.

    By ``namespace/name``; those of devices by `device_key`. ``group``: the task group in which the core placed the pod.
    """

    steps: dict[str, Step]
    until: float
    group: str


@dataclass(slots=True)
class Storage:
    """Storage objects in Kubernetes. ``drivers``: attach limits of nodes, as node attributes.

    ``attached_to``: attachments by node and name. ``holders``: names of the attachments of a volume, by volume name.
    ``waiting``: pods that wait for a volume (key: its name) or a claim (key: as in `ClaimWait`).
    """

    volumes: dict[str, Volume] = field(default_factory=dict)
    claims: dict[str, Claim] = field(default_factory=dict)
    drivers: dict[NodeName, NodeDrivers] = field(default_factory=dict)
    attachments: dict[str, Attachment] = field(default_factory=dict)
    attached_to: defaultdict[NodeName, dict[str, Attachment]] = field(default_factory=lambda: defaultdict(dict))
    holders: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    waiting: dict[str, set[PodUid]] = field(default_factory=dict)


@dataclass(slots=True)
class HeldPod:
    """A pod whose ResourceClaims do not exist or are not its own, and why. ``due``: when that is reported."""

    why: str
    due: float


@dataclass(slots=True)
class DeviceFailure:
    """Devices of a claim failed ``count`` times, the last time because of ``why``. It is not used before ``until``."""

    count: int = 0
    why: str = ""
    until: float = 0.0


@dataclass(slots=True)
class Refusals:
    """The API server refused claims of a namespace at ``count`` sweeps in turn. None is repeated before ``until``."""

    count: int = 0
    until: float = 0.0


@dataclass(slots=True)
class Devices:
    """ResourceClaims by ``namespace/name``, and DeviceClasses, DeviceTaintRules and slices by name.

    ``users``: pods by the ResourceClaims that they name; ``used``: the same by pod. ``apps``: applications, by the ID
    on the pods, that have pods with resource claims. ``held``: pods that cannot be requested yet. ``changed``: pods
    with a claim that is another one now, which are still to be handled, by namespace in the order of their turns.
    ``counting``: the UID of the pod that the devices of a shared claim counted for at its last event, if one did.
    ``undoing``: by claim whose allocation is being removed, the UIDs of the pods that take it back. ``expired``:
    `DeviceClaim.allocated_s` of allocations whose devices were not ready in time, by claim. ``failures``: by claim,
    until its devices are ready. ``providers``: classes by extended resource; ``on_nodes``: resources that some node
    has, None = to be computed again; ``lately`` and ``before``: those that some had since the last sweep, and between
    the two before. ``refused``: refused claims for extended resources, by namespace.
    """

    claims: dict[str, DeviceClaim] = field(default_factory=dict)
    classes: dict[str, DeviceClass] = field(default_factory=dict)
    rules: dict[str, TaintRule] = field(default_factory=dict)
    slices: dict[str, DeviceSlice] = field(default_factory=dict)
    users: dict[str, set[PodUid]] = field(default_factory=dict)
    used: dict[PodUid, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    apps: dict[str, set[PodUid]] = field(default_factory=dict)
    held: dict[PodUid, HeldPod] = field(default_factory=dict)
    changed: dict[str, dict[PodUid, None]] = field(default_factory=dict)
    counting: dict[str, str] = field(default_factory=dict)
    undoing: dict[str, set[str]] = field(default_factory=dict)
    expired: dict[str, float] = field(default_factory=dict)
    failures: dict[str, DeviceFailure] = field(default_factory=dict)
    providers: dict[str, str] = field(default_factory=dict)
    on_nodes: set[str] | None = None
    lately: set[str] = field(default_factory=set)
    before: set[str] = field(default_factory=set)
    refused: dict[str, Refusals] = field(default_factory=dict)
