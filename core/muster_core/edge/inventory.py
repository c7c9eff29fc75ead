"""What the core holds for a resource manager, a part at a time, for it to compare (ADR 0015).

Called by scheduler.py between two turns of the loop; reads the world and
changes nothing. A part is small, so that nobody waits for it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from muster_core.edge import si_encode
from muster_core.model.release import Termination
from muster_core.model.states import NodeState
from muster_core.world.applications import Allocation, Application
from muster_core.world.nodes import NodeRecord
from muster_core.world.world import Partition
from muster_si import muster_pb2, si_pb2

#: Names and keys in one part at most, whatever is asked for: some 5 ms of work.
LIMIT: Final = 2_000

Name = TypeVar("Name", bound=str)


def take(partition: Partition, request: muster_pb2.InventoryRequest, words: int) -> muster_pb2.Inventory:
    """The part that is asked for, without what the resource manager is never told of (places without pods).
    `words`: how much was said so far.
    """
    inventory = muster_pb2.Inventory(words=words)
    limit = min(request.limit, LIMIT) if request.limit > 0 else LIMIT
    if request.part == muster_pb2.InventoryRequest.APPLICATIONS:
        applications = partition.applications
        for name in _page(inventory, applications, request.beyond, limit, lambda name: _keys(applications[name])):
            inventory.applications.append(_application(applications[name]))
    else:
        for node in _page(inventory, partition.nodes, request.beyond, limit, lambda _: 0):
            inventory.nodes.append(_node(partition, partition.nodes.record(node)))
    return inventory


def _page(
    inventory: muster_pb2.Inventory, names: Iterable[Name], beyond: str, limit: int, size: Callable[[Name], int]
) -> Iterator[Name]:
    """The names that follow, in their order, until the part is full; it then says how far it went."""
    filled = 0
    following = heapq.nsmallest(limit, (name for name in names if name > beyond))
    for name in following:
        yield name
        filled += 1 + size(name)
        if filled >= limit:
            inventory.last = name
            return


def _keys(app: Application) -> int:
    return len(app.asks) + len(app.allocations)  # more than are said of one whose places have no pods


def _application(app: Application) -> muster_pb2.ApplicationInventory:
    return muster_pb2.ApplicationInventory(
        applicationID=app.id,
        askKeys=[key for key, ask in app.asks.items() if not ask.spec.podless],
        allocations=[_allocation(one) for one in app.allocations.values() if not one.spec.podless],
    )


def _allocation(allocation: Allocation) -> muster_pb2.AllocationInventory:
    return muster_pb2.AllocationInventory(
        allocationKey=allocation.spec.key,
        allocationID=allocation.id,
        nodeID=allocation.node,
        releasing=_type_of(allocation.releasing),
    )


def _type_of(releasing: Termination | None) -> si_pb2.TerminationType.ValueType:
    return si_encode.termination(releasing) if releasing is not None else si_pb2.UNKNOWN_TERMINATION_TYPE


def _node(partition: Partition, record: NodeRecord) -> muster_pb2.NodeInventory:
    return muster_pb2.NodeInventory(
        nodeID=record.spec.id,
        schedulable=record.state is NodeState.SCHEDULABLE,
        foreignKeys=[partition.foreign[identity].key for identity in record.foreigners],
    )
