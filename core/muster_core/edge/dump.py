"""Everything the core knows as one JSON document, piece by piece, so that nobody waits for a big one.

Served at `/debug/fullstatedump` (contract 10.9; unstable by declaration).
`ledgers` is ours: what is held, as counts and sums, so that "empty" can be
seen. The pieces join to valid JSON; between two of them the world may go on,
so a list is taken when its turn comes and each thing is read in one go.
Pure: reads the world, changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import orjson

from muster_core.edge import views
from muster_core.edge.si_encode import partition_name
from muster_core.edge.views import Json
from muster_core.engine import invariants
from muster_core.world.applications import Application
from muster_core.world.world import Partition, World

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
    yield "pledges", {app.id: views.amounts(app.gang.pledge) for app in apps if app.gang.pledge}
    yield "queues", _held_by_queues(partitions)
    yield (
        "users",
        {
            user: {path: views.amounts(amount) for path, amount in usage.items()}
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
                yield before + orjson.dumps(node) + b":" + orjson.dumps(views.amounts(taken))
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
    yield from _array(views.partition(partition) for partition in list(world.partitions.values()))
    yield _key("queues")
    yield from _array(views.queue(p.queues.root, p) for p in list(world.partitions.values()))
    yield _key("applications")
    yield from _array(views.application(app) for p in list(world.partitions.values()) for app in _live(p))
    yield _key("appHistory")
    yield from _array(views.application(app) for p in list(world.partitions.values()) for app in list(p.history))
    yield _key("nodes")
    yield b"["
    for count, partition in enumerate(list(world.partitions.values())):
        yield b"," if count else b""
        yield b'{"partitionName":' + orjson.dumps(partition_name(partition.id))
        yield _key("nodesInfo")
        yield from _array(views.node(partition, node) for node in list(partition.nodes) if node in partition.nodes)
        yield _key("foreignAllocations")
        yield from _array(views.foreign(item) for item in list(partition.foreign.values()))
        yield b"}"
    yield b"]}"


def _held_by_queues(partitions: Iterable[Partition]) -> dict[str, Json]:
    return {
        queue.path: {
            "allocated": views.amounts(queue.allocated),
            "pending": views.amounts(queue.pending),
            "pledged": views.amounts(queue.pledged + queue.awaited),
        }
        for partition in partitions
        for queue in partition.queues.by_path.values()
        if queue.allocated or queue.pending or queue.pledged or queue.awaited
    }


def _live(partition: Partition) -> Iterator[Application]:
    yield from list(partition.applications.values())


def _array(items: Iterable[Json]) -> Iterator[bytes]:
    before = b"["
    for item in items:
        yield before + orjson.dumps(item)
        before = b","
    yield b"[]" if before == b"[" else b"]"


def _key(name: str) -> bytes:
    return b"," + orjson.dumps(name) + b":"
