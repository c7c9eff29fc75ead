"""Sees every version of every pod, in the order in which etcd stored them, whatever happens to the API server.

It reads etcd directly (the cluster stores JSON): a watch misses changes while the API server is down, and the audit log
misses entries that were not written in time. The history shows forbidden states, such as a node that
exceeds its capacity for a moment.
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal

import aiohttp
import orjson

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.manifests import is_placeholder

PODS = "/registry/pods/"
PODS_END = "/registry/pods0"

ITEM_LABEL = "chaos.muster/item"
"""Label of every real pod of a load, with the name of its item."""

FACTORS = {"m": Decimal("0.001"), "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "": Decimal(1)}


@dataclass(slots=True)
class PodHistory:
    """One pod: its last version, whether it is deleted, and all nodes it was bound to."""

    raw: Json
    deleted: bool = False
    nodes: list[str] = field(default_factory=list)

    @property
    def uid(self) -> str:
        """Its UID."""
        uid: str = self.raw["metadata"]["uid"]
        return uid

    @property
    def name(self) -> str:
        """Namespace and name."""
        return f"{self.raw['metadata']['namespace']}/{self.raw['metadata']['name']}"

    @property
    def item(self) -> str:
        """The item of the load it belongs to; empty for a placeholder and for pods that are not the load's."""
        labels = self.raw["metadata"].get("labels") or {}
        return "" if self.placeholder else str(labels.get(ITEM_LABEL, ""))

    @property
    def placeholder(self) -> bool:
        """Whether it is a placeholder of Muster."""
        return is_placeholder(self.raw)

    @property
    def phase(self) -> str:
        """Its phase; Pending if it has none."""
        return str((self.raw.get("status") or {}).get("phase") or "Pending")

    @property
    def node(self) -> str:
        """The node whose resources it uses; empty if none."""
        is_over = self.deleted or self.phase in {"Succeeded", "Failed"}
        return "" if is_over else str(self.raw["spec"].get("nodeName") or "")


class PodObserver:
    """Observed state: ``pods`` by UID, and ``violations`` of the capacity of nodes."""

    def __init__(self, nodes: Iterable[FakeNode]) -> None:
        self.pods: dict[str, PodHistory] = {}
        self.violations: list[str] = []
        self._items: dict[str, list[PodHistory]] = {}
        self._capacity = {node.name: {"cpu": node.cpu, "memory": node.memory, "pods": node.pods} for node in nodes}
        self._used: dict[str, dict[str, dict[str, Decimal]]] = {name: {} for name in self._capacity}

    @asynccontextmanager
    async def watching(self, etcd_url: str) -> AsyncIterator[None]:
        """Watch from now until the block ends. The block fails if the watch does."""
        begun = asyncio.Event()
        task = asyncio.create_task(self._watch(etcd_url, begun))
        starting = asyncio.create_task(begun.wait())
        await asyncio.wait({task, starting}, return_when=asyncio.FIRST_COMPLETED)
        starting.cancel()
        try:
            yield
            if task.done():
                task.result()
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError, aiohttp.ClientError):
                await task

    async def _watch(self, etcd_url: str, begun: asyncio.Event) -> None:
        request = {"create_request": {"key": _base64(PODS), "range_end": _base64(PODS_END), "prev_kv": True}}
        no_timeout = aiohttp.ClientTimeout(total=None)
        async with (
            aiohttp.ClientSession(timeout=no_timeout) as session,
            session.post(f"{etcd_url}/v3/watch", json=request) as answer,
        ):
            rest = b""
            async for chunk in answer.content.iter_any():
                begun.set()
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    for raw, deleted in _changes(orjson.loads(line)):
                        self.see(raw, deleted=deleted)
        raise aiohttp.ClientConnectionError("etcd ended the watch")

    def see(self, raw: Json, *, deleted: bool = False) -> None:
        """Process the next version of a pod, or its deletion."""
        uid = raw["metadata"]["uid"]
        if uid not in self.pods:
            self.pods[uid] = PodHistory(raw)
            self._items.setdefault(self.pods[uid].item, []).append(self.pods[uid])
        seen = self.pods[uid]
        seen.raw, seen.deleted = raw, deleted
        node = str(raw["spec"].get("nodeName") or "")
        if node and node not in seen.nodes:
            seen.nodes.append(node)
        for uids in self._used.values():
            uids.pop(seen.uid, None)
        if seen.node in self._used:
            self._used[seen.node][seen.uid] = requests(raw)
            self._check(seen.node, seen)

    def of(self, item: str) -> list[PodHistory]:
        """The real pods of an item of the load, deleted ones included."""
        return self._items.get(item, [])

    def placeholders(self) -> list[PodHistory]:
        """The placeholders that exist."""
        return [seen for seen in self.pods.values() if seen.placeholder and not seen.deleted]

    def on_nodes(self) -> dict[str, dict[str, dict[str, Decimal]]]:
        """The resources that pods use, by node and UID."""
        return self._used

    def _check(self, node: str, added: PodHistory) -> None:
        for resource, room in self._capacity[node].items():
            taken = sum((amounts[resource] for amounts in self._used[node].values()), Decimal(0))
            if taken > amount(room):
                names = ", ".join(self.pods[uid].name for uid in self._used[node])
                over = f"{node} is over its {resource}: {taken} of {room} since {added.name}; on it: {names}"
                self.violations.append(over)


def requests(raw: Json) -> dict[str, Decimal]:
    """Return the requests of a pod. The loads have plain containers only."""
    found = {"cpu": Decimal(0), "memory": Decimal(0), "pods": Decimal(1)}
    for container in raw["spec"]["containers"]:
        for resource, quantity in (container.get("resources", {}).get("requests") or {}).items():
            found[resource] = found.get(resource, Decimal(0)) + amount(quantity)
    return found


def amount(quantity: str) -> Decimal:
    """Convert a Kubernetes quantity in one of the forms used here."""
    digits = quantity.rstrip("mKMGi")
    return Decimal(digits) * FACTORS[quantity.removeprefix(digits)]


def _changes(message: Mapping[str, Json]) -> Iterator[tuple[Json, bool]]:
    """Yield the versions in one message of etcd's watch: the object, and whether it was deleted."""
    for event in message["result"].get("events", []):
        deleted = event.get("type") == "DELETE"
        entry = event["prev_kv"] if deleted else event["kv"]
        yield orjson.loads(base64.b64decode(entry["value"])), deleted


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
