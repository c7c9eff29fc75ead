"""Everything the core knows as one JSON document, piece by piece, so that nobody waits for a big one.

Served at `/debug/fullstatedump` (contract 10.9; unstable by declaration).
`ledgers` is ours: what is held, as counts and sums, so that "empty" can be
seen. The pieces join to valid JSON; between two of them the world may go on,
so a list is taken when its turn comes and each thing is read in one go.
Pure: reads the world, changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import orjson

from muster_core.edge.rest.answers import array
from muster_core.edge.rest.shapes.base import Shape
from muster_core.edge.rest.views import applications, clusters, nodes, queues
from muster_core.edge.rest.views.amounts import amounts
from muster_core.edge.si_encode import partition_name
from muster_core.engine import invariants
from muster_core.world.world import Partition, World

Json = str | int | float | bool | None | Sequence["Json"] | Mapping[str, "Json"]

#: More allocations than this, and the invariants are only checked where asked for.
CHECKED_UP_TO: Final = 5_000


def ledgers(world: World) -> Iterator[tuple[str, Json]]:
    """What is held, counted: everything is 0 or empty when nothing is left over; one count at a time.

    `pledges`, `queues` and `users` name only who holds something.
    """
    partitions = list(world.partitions.values())
    apps = [app for partition in partitions for app in partition.applications.values()]
    allocations = sum(len(app.allocations) for app in apps)
    yield "applications", len(apps)
    yield "asks", sum(len(app.asks) for app in apps)
    yield "allocations", allocations
    yield "placeholders", allocations - sum(app.real_allocations for app in apps)
    yield "releasing", sum(item.releasing is not None for app in apps for item in app.allocations.values())
    yield "swaps", sum(ask.swap is not None for app in apps for ask in app.asks.values())
    yield "foreign", sum(len(partition.foreign) for partition in partitions)
    yield "pledges", {app.id: amounts(app.gang.pledge) for app in apps if app.gang.pledge}
    yield "queues", _held_by_queues(partitions)
    yield (
        "users",
        {
            user: {path: amounts(amount) for path, amount in usage.items()}
            for partition in partitions
            for user, usage in partition.users.usage.items()
        },
    )
    yield "ignored", dict(world.ignored)


def _ledgers(world: World) -> Iterator[bytes]:
    """`ledgers`, and at its end the nodes that hold something."""
    before = b"{"
    for name, value in ledgers(world):
        yield before + orjson.dumps(name) + b":" + orjson.dumps(value)
        before = b","
    yield _key("nodes")
    before = b"{"
    for partition in list(world.partitions.values()):
        for node in list(partition.nodes):
            if node in partition.nodes and (taken := partition.nodes.allocated(node)):
                yield before + orjson.dumps(node) + b":" + orjson.dumps(amounts(taken))
                before = b","
    yield b"{}}" if before == b"{" else b"}}"


def pieces(world: World, now_ns: int, outside: Iterable[tuple[str, Json]], *, check: bool = False) -> Iterator[bytes]:
    """The document. `outside`: keys that are not the world's own. `check`: the invariants, however long it takes."""
    yield b'{"timestamp":' + orjson.dumps(now_ns)
    for name, value in outside:
        yield _key(name) + orjson.dumps(value)
    yield _key("ledgers")
    yield from _ledgers(world)
    few = sum(len(app.allocations) for p in world.partitions.values() for app in p.applications.values())
    yield _key("invariants")
    yield orjson.dumps(invariants.check(world)) if check or few <= CHECKED_UP_TO else b"null"
    yield _key("resourceManagers")
    yield orjson.dumps(
        [{"rmId": rm.id, "state": rm.state.value, "fenced": rm.fence_up} for rm in world.managers.values()]
    )
    yield _key("partitions")
    yield from array(clusters.partition(partition) for partition in list(world.partitions.values()))
    yield _key("queues")
    yield from _trees(world)
    yield _key("applications")
    yield from array(_applications(world, now_ns))
    yield _key("appHistory")
    yield from array(app for p in list(world.partitions.values()) for app in applications.all_of(p.history, p, now_ns))
    yield _key("nodes")
    yield b"["
    for count, partition in enumerate(list(world.partitions.values())):
        yield b"," if count else b""
        yield b'{"partitionName":' + orjson.dumps(partition_name(partition.id))
        yield _key("nodesInfo")
        yield from array(_nodes(partition))
        yield _key("foreignAllocations")
        yield from array(nodes.foreign(item) for item in list(partition.foreign.values()))
        yield b"}"
    yield b"]}"


def _trees(world: World) -> Iterator[bytes]:
    before = b"["
    for partition in list(world.partitions.values()):
        yield before
        yield from queues.tree(partition.queues.root, partition)
        before = b","
    yield b"[]" if before == b"[" else b"]"


def _applications(world: World, now_ns: int) -> Iterator[Shape]:
    for partition in list(world.partitions.values()):
        yield from applications.all_of(partition.applications.values(), partition, now_ns)


def _nodes(partition: Partition) -> Iterator[Shape]:
    """What runs on them by its key, so that a dump says each allocation once."""
    for name in list(partition.nodes):
        if name in partition.nodes:
            yield nodes.node(partition, name, keys_only=True)


def _held_by_queues(partitions: Iterable[Partition]) -> dict[str, Json]:
    return {
        queue.path: {
            "allocated": amounts(queue.allocated),
            "pending": amounts(queue.pending),
            "pledged": amounts(queue.pledged + queue.awaited),
        }
        for partition in partitions
        for queue in partition.queues.by_path.values()
        if queue.allocated or queue.pending or queue.pledged or queue.awaited
    }


def _key(name: str) -> bytes:
    return b"," + orjson.dumps(name) + b":"
