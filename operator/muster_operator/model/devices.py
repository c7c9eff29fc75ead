"""Dynamic Resource Allocation: the claims of pods, ResourceClaims, and the devices that the core chose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster_operator.model.ids import Resources
from muster_operator.model.storage import ClaimRef, ClusterObject

#: Driver, pool and name.
DeviceName = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class PodClaim:
    """An entry of a pod's ``spec.resourceClaims``.

    ``claim``: name of its ResourceClaim; empty = Kubernetes has not created it from the template yet; None = the pod
    needs none. ``is_made``: it is created from a template for this pod, which must be its controller.
    """

    entry: str
    claim: str | None
    is_made: bool


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """A request of a ResourceClaim, or one of its alternatives: ``name`` is ``request/subrequest`` then."""

    name: str
    device_class: str
    tolerations: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceConfiguration:
    """A configuration for the driver. ``requests``: those that it is for, empty = all. ``fields``: as written."""

    requests: tuple[str, ...]
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DeviceClaim:
    """A ResourceClaim. ``owner``: UID of its controller. ``reserved``: UIDs of its consumers.

    ``known``: JSON of what a write depends on; empty if it is allocated or reserved. ``is_ours``: Muster wrote it.

    ``configurations``: JSON of ``spec.devices.config``; empty if there are none, or the claim is allocated already.
    ``devices``: number of devices by class, as queues count them. ``has``: the allocated devices. ``version``: resource
    version, 0 if it is not a number. ``binding``: whether pods with its devices may be bound: None = yes, empty = not
    yet, else why they cannot. ``allocated_s``: epoch time of an allocation with binding conditions, 0 = unknown.
    ``is_of_group``: Kubernetes created it for a PodGroup.
    """

    ref: ClaimRef
    owner: str
    is_deleting: bool
    is_allocated: bool
    reserved: tuple[str, ...]
    configurations: str
    reported: ClusterObject
    known: str = ""
    is_ours: bool = False
    devices: Resources = field(default_factory=dict)
    has: frozenset[DeviceName] = frozenset()
    version: int = 0
    binding: str | None = None
    allocated_s: float = 0.0
    is_of_group: bool = False


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A DeviceClass with the configurations that its devices get. ``resource``: the extended resource it provides."""

    name: str
    configurations: tuple[DeviceConfiguration, ...]
    reported: ClusterObject
    resource: str = ""
    created_s: int = 0


@dataclass(frozen=True, slots=True)
class DeviceSlice:
    """A ResourceSlice. ``reported``: the object for the core, without the taints of rules."""

    name: str
    driver: str
    pool: str
    reported: ClusterObject


@dataclass(frozen=True, slots=True)
class TaintRule:
    """A DeviceTaintRule: a taint of all devices of a driver, pool and name; empty = any of them.

    ``matches_none``: a rule without a selector.
    """

    name: str
    driver: str
    pool: str
    device: str
    taint: Mapping[str, str]
    matches_none: bool = False

    def is_of(self, found: DeviceSlice) -> bool:
        """Whether the rule taints devices of the slice's pool."""
        of_pool = self.driver in {"", found.driver} and self.pool in {"", found.pool}
        return of_pool and not self.matches_none


@dataclass(frozen=True, slots=True)
class ChosenDevice:
    """A device for a request (``request`` or ``request/subrequest``). ``is_admin``: with administrative access.

    ``consumed``: what a share of the device takes of its capacities; None = it is no share. ``conditions`` have to be
    true for the bind; ``failures`` must not be.
    """

    request: str
    driver: str
    pool: str
    device: str
    is_admin: bool = False
    consumed: Mapping[str, str] | None = None
    conditions: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChosenDevices:
    """The core's choice for one claim (``muster/chosen-devices``).

    They can be used on ``node``, on nodes that match one of ``terms``, or, without both, everywhere.
    """

    claim: ClaimRef
    devices: tuple[ChosenDevice, ...]
    node: str = ""
    terms: tuple[Mapping[str, Any], ...] | None = None
