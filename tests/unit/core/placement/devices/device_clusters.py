"""Builders of devices, claims and nodes, and queries of feasible nodes, for the tests of devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster_core.model.config import NodeSort
from muster_core.model.constraints import Requirement, Term
from muster_core.model.devices import (
    Attribute,
    AttributeConstraint,
    BindingConditions,
    CapacityLimit,
    Counters,
    Device,
    DeviceAllocation,
    DeviceClaim,
    DeviceClass,
    DeviceDemand,
    DeviceFact,
    DeviceId,
    DeviceKind,
    DeviceRequest,
    DeviceResult,
    DeviceSlice,
    NodeAccess,
    PodClaim,
    PoolId,
)
from muster_core.model.ids import NodeId
from muster_core.model.specs import NodeSpec, PodOnNode, PodProperties
from muster_core.placement import node_search
from muster_core.state.snapshot import RequestShape, Snapshot
from tests.unit.builders import a_node, resources
from tests.unit.core.placement.tables import a_table, named

DRIVER = "gpu.example.com"
ANY = DeviceClass("any")
EVERYWHERE = NodeAccess(everywhere=True)


def at(node: str) -> NodeAccess:
    return NodeAccess(node=NodeId(node))


def in_zone(zone: str) -> NodeAccess:
    return NodeAccess(terms=(Term((Requirement("zone", "In", (zone,)),)),))


def a_device(
    name: str,
    *,
    taints: Any = (),
    reach: NodeAccess | None = None,
    unsupported: str = "",
    consumes: Mapping[str, int] | None = None,
    share_of: int | None = None,
    conditions: tuple[str, ...] = (),
    binds: bool = False,
    **attributes: Any,
) -> Device:
    """Return a device with these attributes of its driver. `consumes`: counters of the set `gpu`.

    `share_of`: a memory that claims share, of which each takes 1 if it does not say how much.
    """
    values = tuple(sorted(((DRIVER, name), _attribute(value)) for name, value in attributes.items()))
    kind = DeviceKind(DRIVER, values, is_shared=share_of is not None)
    limits = () if share_of is None else (CapacityLimit("memory", share_of, default=1),)
    return Device(
        name,
        kind,
        tuple(taints),
        reach or NodeAccess(),
        unsupported,
        of_counters(consumes or {}),
        limits,
        binding=BindingConditions(conditions),
        binds_to_node=binds,
    )


def of_counters(amounts: Mapping[str, int], of_set: str = "gpu") -> Counters:
    return tuple(((of_set, name), amount) for name, amount in amounts.items())


def counters(pool: str, amounts: Mapping[str, int], *, of_set: str = "gpu", name: str = "counters") -> DeviceSlice:
    """Return a slice with the counters of a pool that has two slices."""
    return DeviceSlice(f"{pool}-{name}", PoolId(DRIVER, pool), 1, 2, at(pool), counters=of_counters(amounts, of_set))


def _attribute(value: Any) -> Attribute:
    if isinstance(value, bool):
        return "bool", value
    return ("int", value) if isinstance(value, int) else ("string", str(value))


def a_slice(
    name: str, reach: NodeAccess | None, *devices: Device, pool: str = "", count: int = 1, generation: int = 1
) -> DeviceSlice:
    """Return a slice, by default the only one of a pool with its name."""
    return DeviceSlice(name, PoolId(DRIVER, pool or name), generation, count, reach, devices)


def gpus(node: str, count: int, **attributes: Any) -> DeviceSlice:
    """Return the slice of a node with equal devices, named d0, d1 and so on."""
    return a_slice(node, at(node), *(a_device(f"d{number}", **attributes) for number in range(count)))


def wanting(count: int = 1, name: str = "gpu", **fields: Any) -> DeviceRequest:
    return DeviceRequest(name, "any", count=count, **fields)


def a_claim(name: str, *requests: DeviceRequest, match: str = "", **fields: Any) -> DeviceClaim:
    """Return an unallocated claim in namespace ns."""
    constraints = (AttributeConstraint(f"{DRIVER}/{match}"),) if match else ()
    return DeviceClaim(f"ns/{name}", f"uid-{name}", DeviceDemand(requests or (wanting(),), constraints), **fields)


def got(
    pool: str, *devices: str, reach: NodeAccess | None = None, admin: bool = False, memory: int | None = None
) -> DeviceAllocation:
    """Return an allocation of devices of one pool, by default local to the node with its name.

    `memory`: what shares of the devices take.
    """
    consumed = None if memory is None else (("memory", memory),)
    results = tuple(DeviceResult("gpu", DeviceId(DRIVER, pool, one), admin, consumed) for one in devices)
    return DeviceAllocation(results, reach or at(pool))


def using(*claims: str) -> tuple[PodClaim, ...]:
    """Return the claims of a pod in namespace ns."""
    return tuple(PodClaim(f"ns/{claim}", f"uid-{claim}") for claim in claims)


def shape(*claims: str) -> RequestShape:
    return RequestShape(resources(vcore=1), pod_on_node=PodOnNode(facts=PodProperties(devices=using(*claims))))


class Published:
    """Nodes, devices and pods. A node is given as a name or as a spec."""

    def __init__(self, *nodes: str | NodeSpec, facts: tuple[DeviceFact, ...] = ()) -> None:
        self.table = a_table(*(a_node(node) if isinstance(node, str) else node for node in nodes))
        self.devices = self.table.pods_on_nodes.devices
        self.send(ANY, *facts)

    def send(self, *facts: DeviceFact) -> None:
        for fact in facts:
            self.devices.update(fact)

    def snapshot(self) -> Snapshot:
        return Snapshot(self.table)

    def free(self, *claims: str, snapshot: Snapshot | None = None) -> str:
        """Return the feasible nodes of a pod with these claims."""
        return named(node_search.allowed(snapshot or self.snapshot(), shape(*claims)), self.table)

    def reasons(self, *claims: str, snapshot: Snapshot | None = None) -> Mapping[str, list[str]]:
        """Return the reasons of each infeasible node."""
        found: dict[str, list[str]] = {}
        for reason, rows in node_search.refusals(snapshot or self.snapshot(), shape(*claims)):
            for node in named(rows, self.table).split():
                found.setdefault(node, []).append(reason)
        return found

    def text(self, *claims: str) -> str:
        """Return the message in kube-scheduler's format."""
        return node_search.unschedulable_reason(self.snapshot(), shape(*claims)).text()

    def place(self, snapshot: Snapshot, *claims: str, count: int = 1) -> str:
        """Return the planned nodes; a node repeats per pod."""
        spots = node_search.place(snapshot, shape(*claims), count, NodeSort())
        return " ".join(node for node, there in spots for _ in range(there))

    def chosen(self, snapshot: Snapshot, *claims: str) -> dict[str, list[str]]:
        """Return the planned devices of each claim, as pool/device."""
        choice = snapshot.devices.choice(using(*claims))
        return {
            one.claim.partition("/")[2]: [f"{r.device.pool}/{r.device.device}" for r in one.allocation.results]
            for one in choice
        }
