"""Decodes device slices, classes and claims, and the claims of a pod. Encodes the devices that are chosen for it."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Final, Literal

import orjson
from msgspec import Meta, field

from muster_core.model.devices import (
    CONSUMERS_PER_CLAIM,
    RESULTS_PER_CLAIM,
    Attribute,
    AttributeConstraint,
    BindingConditions,
    Capacities,
    CapacityLimit,
    ChosenDevices,
    Counters,
    Device,
    DeviceAllocation,
    DeviceChoice,
    DeviceClaim,
    DeviceClass,
    DeviceDemand,
    DeviceId,
    DeviceKind,
    DeviceRequest,
    DeviceResult,
    DeviceSlice,
    DeviceTaint,
    DeviceToleration,
    NodeAccess,
    PodClaim,
    PoolId,
    QualifiedName,
)
from muster_core.model.ids import NodeId
from muster_core.placement.devices.versions import quantity, quantity_text
from muster_core.si.documents import Document, Required, RequiredShortText, ShortText, TermDocument, TextList, terms
from muster_core.si.values import NAME_LIMIT, InvalidField
from muster_si import keys

#: Longest document of a slice in characters: 128 devices with 32 attributes and capacities each.
SLICE_LIMIT: Final = 1 << 20

#: Longest CEL expression, as in the API server.
EXPRESSION_LIMIT: Final = 10_240

_Integer = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Expression = Annotated[str, Meta(min_length=1, max_length=EXPRESSION_LIMIT)]
_Expressions = Annotated[tuple[_Expression, ...], Meta(max_length=32)]
_Value = Annotated[str, Meta(max_length=NAME_LIMIT)]


class AttributeDocument(Document):
    """Value of an attribute, in the field of its type."""

    boolean: bool | None = field(default=None, name="bool")
    integer: _Integer | None = field(default=None, name="int")
    string: _Value | None = None
    version: _Value | None = None

    def read(self, name: str) -> Attribute:
        """Returns the value. Raises InvalidField if there is not exactly one."""
        values: list[Attribute] = []
        if self.boolean is not None:
            values.append(("bool", self.boolean))
        if self.integer is not None:
            values.append(("int", self.integer))
        if self.string is not None:
            values.append(("string", self.string))
        if self.version is not None:
            values.append(("version", self.version))
        if len(values) != 1:
            raise InvalidField(f"attribute {name}", f"has {len(values)} values, not one")
        return values[0]


class DeviceTaintDocument(Document):
    """A taint of a device. Unknown effects are kept and ignored."""

    key: ShortText = ""
    value: ShortText = ""
    effect: ShortText = ""

    def read(self) -> DeviceTaint:
        """Returns the taint."""
        return DeviceTaint(self.key, self.value, self.effect)


class ReachDocument(Document):
    """Where a slice or device is: on a node, on nodes that match the terms, or everywhere."""

    node: ShortText = ""
    nodes: tuple[TermDocument, ...] | None = None
    all: bool = False

    def reach(self) -> NodeAccess:
        """Returns the nodes. The first of the three that is set counts."""
        if self.node:
            return NodeAccess(node=NodeId(self.node))
        if self.all:
            return NodeAccess(everywhere=True)
        return NodeAccess(terms=None if self.nodes is None else terms(self.nodes))


_Quantities = Annotated[dict[Required, _Value], Meta(max_length=32)]


def _amount(text: str) -> int:
    """Returns billionths. Raises InvalidField."""
    try:
        return quantity(text)
    except ValueError as error:
        raise InvalidField("quantity", str(error)) from None


def _capacities(document: _Quantities) -> Capacities:
    """Returns the amounts. Raises InvalidField."""
    return tuple((name, _amount(text)) for name, text in sorted(document.items()))


class CapacityPolicyDocument(Document):
    """What requests may take of a capacity."""

    default: _Value | None = None
    values: Annotated[tuple[_Value, ...], Meta(max_length=32)] = ()
    min: _Value | None = None
    max: _Value | None = None
    step: _Value | None = None

    def read(self, name: str, value: str) -> CapacityLimit:
        """Returns the capacity with this value. Raises InvalidField."""
        limits = [None if one is None else _amount(one) for one in (self.default, self.min, self.max, self.step)]
        default, least, most, step = limits
        values = tuple(_amount(one) for one in self.values)
        return CapacityLimit(name, _amount(value), default, values, least, most, step if step and step > 0 else None)


_NO_POLICY: Final = CapacityPolicyDocument()


#: Amounts of counters by counter set and counter.
_Counters = Annotated[dict[Required, _Quantities], Meta(max_length=32)]


def _counters(document: _Counters) -> Counters:
    """Returns the counters. Raises InvalidField."""
    return tuple(
        ((of_set, name), amount)
        for of_set, counters in sorted(document.items())
        for name, amount in _capacities(counters)
    )


class DeviceDocument(ReachDocument, kw_only=True):
    """A device of a slice."""

    name: Required
    attributes: dict[Required, AttributeDocument] = field(default_factory=dict)
    capacity: dict[Required, _Value] = field(default_factory=dict)
    policies: dict[Required, CapacityPolicyDocument] = field(default_factory=dict)
    shared: bool = False
    conditions: TextList = ()
    failures: TextList = ()
    binds: bool = False
    taints: Annotated[tuple[DeviceTaintDocument, ...], Meta(max_length=64)] = ()
    consumes: _Counters = field(default_factory=dict)
    unsupported: ShortText = ""

    def read(self, driver: str) -> Device:
        """Returns the device. Raises InvalidField."""
        attributes = {_qualified(name, driver): value.read(name) for name, value in self.attributes.items()}
        capacity = {_qualified(name, driver): quantity for name, quantity in self.capacity.items()}
        kind = DeviceKind(driver, tuple(sorted(attributes.items())), tuple(sorted(capacity.items())), self.shared)
        policies = (self.policies.get(name, _NO_POLICY).read(name, text) for name, text in self.capacity.items())
        return Device(
            self.name,
            kind,
            tuple(one.read() for one in self.taints),
            self.reach(),
            self.unsupported,
            _counters(self.consumes),
            _limits(tuple(policies)),
            bool(self.policies),
            BindingConditions(self.conditions, self.failures),
            self.binds,
        )


@lru_cache(maxsize=1024)
def _limits(limits: tuple[CapacityLimit, ...]) -> tuple[CapacityLimit, ...]:
    """Returns the first one of equal limits. The devices of a pool often have equal ones."""
    return limits


def _qualified(name: str, driver: str) -> QualifiedName:
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


class DeviceSliceDocument(ReachDocument, kw_only=True):
    """A ResourceSlice. A feature that a whole slice uses makes its devices unusable; the slice still counts."""

    driver: RequiredShortText
    pool: RequiredShortText
    generation: _Number = 0
    slices: _Number = 1
    per_device: bool = False
    devices: Annotated[tuple[DeviceDocument, ...], Meta(max_length=128)] = ()
    counters: _Counters = field(default_factory=dict)
    unsupported: ShortText = ""

    def read(self, name: str) -> DeviceSlice:
        """Returns the slice. Raises InvalidField."""
        reach = None if self.per_device else self.reach()
        devices = tuple(one.read(self.driver) for one in self.devices)
        if self.unsupported:
            devices = tuple(replace(one, unsupported=one.unsupported or self.unsupported) for one in devices)
        pool, counters = PoolId(self.driver, self.pool), _counters(self.counters)
        return DeviceSlice(name, pool, self.generation, self.slices, reach, devices, counters)


class DeviceClassDocument(Document):
    """A DeviceClass."""

    selectors: _Expressions = ()
    unsupported: ShortText = ""
    resource: ShortText = ""

    def read(self, name: str) -> DeviceClass:
        """Returns the class."""
        return DeviceClass(name, self.selectors, self.unsupported, self.resource)


class DeviceTolerationDocument(Document):
    """A toleration of a request. The time of an eviction does not matter for placement."""

    key: ShortText = ""
    operator: Literal["", "Equal", "Exists"] = ""
    value: ShortText = ""
    effect: ShortText = ""
    toleration_seconds: int | None = None

    def read(self) -> DeviceToleration:
        """Returns the toleration."""
        return DeviceToleration(self.key, self.operator or "Equal", self.value, self.effect)


class DeviceRequestDocument(Document):
    """A request of a claim, or one of its alternatives."""

    name: RequiredShortText
    device_class: ShortText = field(default="", name="class")
    selectors: _Expressions = ()
    mode: Literal["", "ExactCount", "All"] = ""
    count: _Number = 1
    admin: bool = False
    tolerations: Annotated[tuple[DeviceTolerationDocument, ...], Meta(max_length=64)] = ()
    alternatives: Annotated[tuple[DeviceRequestDocument, ...], Meta(max_length=8)] = ()
    capacity: _Quantities = field(default_factory=dict)

    def read(self) -> DeviceRequest:
        """Returns the request. Raises InvalidField."""
        return DeviceRequest(
            name=self.name,
            device_class=self.device_class,
            selectors=self.selectors,
            count=self.count,
            everything=self.mode == "All",
            admin=self.admin,
            tolerations=tuple(one.read() for one in self.tolerations),
            alternatives=tuple(one.read() for one in self.alternatives),
            capacity=_capacities(self.capacity),
        )


class DeviceConstraintDocument(Document):
    """A constraint of a claim."""

    match: ShortText = ""
    distinct: ShortText = ""
    requests: Annotated[tuple[ShortText, ...], Meta(max_length=64)] = ()

    def read(self) -> AttributeConstraint:
        """Returns the constraint. Raises InvalidField."""
        if bool(self.match) == bool(self.distinct):
            raise InvalidField("constraint", "needs either match or distinct")
        return AttributeConstraint(self.match or self.distinct, self.requests, not self.match)


class DeviceResultDocument(Document):
    """A device that is allocated for a request."""

    driver: RequiredShortText
    pool: RequiredShortText
    device: RequiredShortText
    request: ShortText = ""
    admin: bool = False
    consumed: _Quantities | None = None

    def read(self) -> DeviceResult:
        """Returns the result. Raises InvalidField."""
        consumed = None if self.consumed is None else _capacities(self.consumed)
        return DeviceResult(self.request, DeviceId(self.driver, self.pool, self.device), self.admin, consumed)


class DeviceAllocationDocument(Document):
    """Allocation of a claim."""

    results: Annotated[tuple[DeviceResultDocument, ...], Meta(max_length=4 * RESULTS_PER_CLAIM)] = ()
    nodes: tuple[TermDocument, ...] | None = None

    def read(self) -> DeviceAllocation:
        """Returns the allocation."""
        reach = NodeAccess(everywhere=True) if self.nodes is None else NodeAccess(terms=terms(self.nodes))
        return DeviceAllocation(tuple(one.read() for one in self.results), reach)


class DeviceClaimDocument(Document):
    """A ResourceClaim."""

    uid: RequiredShortText
    owner: ShortText = ""
    requests: Annotated[tuple[DeviceRequestDocument, ...], Meta(max_length=32)] = ()
    constraints: Annotated[tuple[DeviceConstraintDocument, ...], Meta(max_length=32)] = ()
    allocation: DeviceAllocationDocument | None = None
    reserved: Annotated[TextList, Meta(max_length=CONSUMERS_PER_CLAIM)] = ()
    deleting: bool = False
    unsupported: ShortText = ""
    waits: str = ""

    def read(self, name: str) -> DeviceClaim:
        """Returns the claim."""
        allocation = None if self.allocation is None else self.allocation.read()
        demand = DeviceDemand()
        if allocation is None:
            requests = tuple(one.read() for one in self.requests)
            demand = _shared(DeviceDemand(requests, tuple(one.read() for one in self.constraints)))
        reserved = len(self.reserved)
        return DeviceClaim(name, self.uid, demand, allocation, reserved, self.deleting, self.unsupported, self.waits)


@lru_cache(maxsize=1024)
def _shared(demand: DeviceDemand) -> DeviceDemand:
    """Returns the first one of equal demands. The claims of one template have equal ones."""
    return demand


class PodClaimDocument(Document):
    """A claim of a pod, in `muster/device-claims`."""

    claim: Annotated[str, Meta(min_length=1, max_length=2 * NAME_LIMIT)]
    uid: RequiredShortText
    reserved: bool = False

    def read(self) -> PodClaim:
        """Returns the claim."""
        return PodClaim(self.claim, self.uid, self.reserved)


#: The claims of a pod.
PodClaims = Annotated[tuple[PodClaimDocument, ...], Meta(max_length=64)]


def pod_claims(documents: tuple[PodClaimDocument, ...]) -> tuple[PodClaim, ...]:
    """Returns the claims of a pod without duplicates, in their order."""
    return tuple(dict.fromkeys(one.read() for one in documents))


def chosen_devices(choice: DeviceChoice) -> dict[str, str]:
    """Encodes the devices of a new allocation as `muster/chosen-devices`."""
    text = orjson.dumps([_chosen(one) for one in choice], option=orjson.OPT_SORT_KEYS).decode()
    return {keys.TAG_CHOSEN_DEVICES: text}


def _chosen(chosen: ChosenDevices) -> dict[str, object]:
    found: dict[str, object] = {
        "claim": chosen.claim,
        "uid": chosen.uid,
        "results": [_result(one) for one in chosen.allocation.results],
    }
    reach = chosen.allocation.reach
    if reach.node is not None:
        found["node"] = reach.node
    elif reach.terms is not None:
        found["terms"] = [
            {
                name: [{"key": one.key, "operator": one.operator, "values": one.values} for one in requirements]
                for name, requirements in (("matchExpressions", term.expressions), ("matchFields", term.fields))
                if requirements
            }
            for term in reach.terms
        ]
    return found


def _result(result: DeviceResult) -> dict[str, object]:
    driver, pool, device = result.device
    found: dict[str, object] = {"request": result.request, "driver": driver, "pool": pool, "device": device}
    if result.admin:
        found["admin"] = True
    if result.binding.required:
        found |= {"conditions": result.binding.required, "failures": result.binding.failed}
    if result.consumed is not None:
        found["consumed"] = {name: quantity_text(amount) for name, amount in result.consumed}
    return found
