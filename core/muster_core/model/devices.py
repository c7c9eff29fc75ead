"""Devices, their classes and claims (resource.k8s.io/v1), and the devices that are chosen for claims."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal, NamedTuple

from muster_core.model.constraints import Term
from muster_core.model.ids import NodeId

#: Devices of one claim, and pods that may use it, as the API server allows.
RESULTS_PER_CLAIM: Final = 32
CONSUMERS_PER_CLAIM: Final = 256


class PoolId(NamedTuple):
    """A pool of devices of one driver. Pools are searched in this order."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class DeviceId(NamedTuple):
    """A device of a pool."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


#: Value of an attribute with its type, because Python's `True == 1`.
Attribute = tuple[Literal["bool", "int", "string", "version"], bool | int | str]

#: Domain and identifier of an attribute or capacity. The domain of an unqualified name is the driver.
QualifiedName = tuple[str, str]


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """Everything of a device that selectors and constraints read. Both tuples are sorted; capacities are quantities.

    `is_shared`: several claims may have it (allowMultipleAllocations).
    """

    driver: str
    attributes: tuple[tuple[QualifiedName, Attribute], ...] = ()
    capacity: tuple[tuple[QualifiedName, str], ...] = ()
    is_shared: bool = False
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Computes the hash once, because lookups are much more frequent than creation."""
        object.__setattr__(self, "_hash", hash((self.driver, self.attributes, self.capacity, self.is_shared)))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, slots=True)
class DeviceTaint:
    """A taint of a device. `effect`: only NoSchedule and NoExecute prevent an allocation."""

    key: str
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class DeviceToleration:
    """A toleration of a request. An empty key with Exists tolerates every key, an empty effect every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: DeviceTaint) -> bool:
        """Whether the taint is tolerated, as in ToleratesTaint of Kubernetes 1.37."""
        if (self.effect and self.effect != taint.effect) or (self.key and self.key != taint.key):
            return False
        return self.operator == "Exists" or self.value == taint.value


@dataclass(frozen=True, slots=True)
class NodeAccess:
    """Nodes that can access a device: the one with this name, all, or those that match a term. Nothing set = none."""

    node: NodeId | None = None
    everywhere: bool = False
    terms: tuple[Term, ...] | None = None


UNREACHABLE: Final = NodeAccess()

#: Reach of an allocation that is not planned on a node yet: only that node.
CHOSEN_NODE: Final = NodeAccess(node=NodeId(""))


class BindingConditions(NamedTuple):
    """Conditions that have to be true, or false, before a pod with the device is bound."""

    required: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


NO_CONDITIONS: Final = BindingConditions()

#: Amounts of capacities in billionths, by name as written.
Capacities = tuple[tuple[str, int], ...]


class CapacityLimit(NamedTuple):
    """A capacity of a device, and what requests may take of it: `values`, or from `least` to `most` in steps.

    `default`: what a request takes that does not name it; None = all.
    """

    name: str
    value: int
    default: int | None = None
    values: tuple[int, ...] = ()
    least: int | None = None
    most: int | None = None
    step: int | None = None


#: Amounts of counters in billionths, by counter set and counter.
Counters = tuple[tuple[tuple[str, str], int], ...]


@dataclass(frozen=True, slots=True)
class Device:
    """A device of a slice. `reach`: only if the slice leaves it to its devices.

    `consumes`: counters of its pool that it takes while it is allocated. `limits`: its capacities,
    and whether one `has_policy`. `binds_to_node`: only the node that it is allocated for can then access it.
    `unsupported`: name of a feature that it uses and that Muster lacks, so that it is never allocated.
    """

    name: str
    kind: DeviceKind
    taints: tuple[DeviceTaint, ...] = ()
    reach: NodeAccess = UNREACHABLE
    unsupported: str = ""
    consumes: Counters = ()
    limits: tuple[CapacityLimit, ...] = ()
    has_policy: bool = False
    binding: BindingConditions = NO_CONDITIONS
    binds_to_node: bool = False


@dataclass(frozen=True, slots=True)
class DeviceSlice:
    """ResourceSlice. `count`: number of slices of the pool in this generation. `reach` None: that of each device.

    `counters`: those that devices of the pool share. A slice with counters has no devices.
    """

    name: str
    pool: PoolId
    generation: int = 0
    count: int = 1
    reach: NodeAccess | None = UNREACHABLE
    devices: tuple[Device, ...] = ()
    counters: Counters = ()


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """DeviceClass. `selectors`: CEL expressions, which all have to be true. `resource`: extended resource."""

    name: str
    selectors: tuple[str, ...] = ()
    unsupported: str = ""
    resource: str = ""


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """A request of a claim, or one of its `alternatives`, of which the first is taken that leads to a solution.

    `everything`: all matching devices instead of `count`. `admin`: also devices in use, which are not counted as used.
    `capacity`: what it needs of each device.
    """

    name: str
    device_class: str = ""
    selectors: tuple[str, ...] = ()
    count: int = 1
    everything: bool = False
    admin: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    alternatives: tuple[DeviceRequest, ...] = ()
    capacity: Capacities = ()


@dataclass(frozen=True, slots=True)
class AttributeConstraint:
    """All devices of these requests (none = of all) have the same value of the attribute, or `distinct` ones.

    A request may also be named as "request/alternative".
    """

    attribute: str
    requests: tuple[str, ...] = ()
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class DeviceDemand:
    """What a claim requires. Claims of one template have equal demands, and so equal answers on equal nodes."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[AttributeConstraint, ...] = ()
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Computes the hash once, because lookups are much more frequent than creation."""
        object.__setattr__(self, "_hash", hash((self.requests, self.constraints)))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, slots=True)
class DeviceResult:
    """A device that is allocated for a request ("request" or "request/alternative").

    `consumed`: what a share of the device takes of its capacities; None = the claim has the device for itself.
    """

    request: str
    device: DeviceId
    admin: bool = False
    consumed: Capacities | None = None
    binding: BindingConditions = NO_CONDITIONS


@dataclass(frozen=True, slots=True)
class DeviceAllocation:
    """Allocation of a claim, and the nodes that can access all its devices."""

    results: tuple[DeviceResult, ...] = ()
    reach: NodeAccess = NodeAccess(everywhere=True)


@dataclass(frozen=True, slots=True)
class DeviceClaim:
    """ResourceClaim. `reserved`: number of pods in `reservedFor`. `unsupported`: as of a device.

    `waits`: why no pod can get it now, although it exists.
    """

    name: str
    uid: str = ""
    demand: DeviceDemand = DeviceDemand()
    allocation: DeviceAllocation | None = None
    reserved: int = 0
    deleting: bool = False
    unsupported: str = ""
    waits: str = ""


@dataclass(frozen=True, slots=True)
class PodClaim:
    """A claim that a pod uses. `reserved`: the pod is in the claim's `reservedFor` already."""

    claim: str
    uid: str
    reserved: bool = False


class DeviceObject(StrEnum):
    """Kind of a removed object."""

    SLICE = "slice"
    CLASS = "class"
    CLAIM = "claim"


@dataclass(frozen=True, slots=True)
class DeviceObjectGone:
    """The object was removed."""

    kind: DeviceObject
    name: str


DeviceFact = DeviceSlice | DeviceClass | DeviceClaim | DeviceObjectGone


@dataclass(frozen=True, slots=True)
class ChosenDevices:
    """Devices that a plan chose for a claim."""

    claim: str
    uid: str
    allocation: DeviceAllocation


DeviceChoice = tuple[ChosenDevices, ...]
