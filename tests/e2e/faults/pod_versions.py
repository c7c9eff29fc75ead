"""Sees every version of every pod, in the order in which etcd stored them, whatever happens to the API server.

It reads etcd itself (the cluster keeps its objects readable there): a watch of the API server misses what happens while
that is being killed, and an audit log what it had no time to write. From the history follows what nobody may ever see:
a node over its capacity, even for a moment.
"""

from __future__ import annotations

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
"""On every real pod of a load: which item it belongs to."""

FACTORS = {"m": Decimal("0.001"), "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "": Decimal(1)}


@dataclass(slots=True)
class PodHistory:
    """One pod: how it looks now, or looked when it went, and the nodes it was ever on."""

    raw: Json
    gone: bool = False
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
        """Whether Muster made it to hold a place."""
        return is_placeholder(self.raw)

    @property
    def phase(self) -> str:
        """Its phase; Pending where none is written."""
        return str((self.raw.get("status") or {}).get("phase") or "Pending")

    @property
    def node(self) -> str:
        """Where it takes room; empty = nowhere."""
        is_over = self.gone or self.phase in {"Succeeded", "Failed"}
        return "" if is_over else str(self.raw["spec"].get("nodeName") or "")


class PodObserver:
    """What it saw: ``pods`` by UID, ``violations`` of the nodes' capacity."""

    def __init__(self, nodes: Iterable[FakeNode]) -> None:
        self.pods: dict[str, PodHistory] = {}
        self.violations: list[str] = []
        self._items: dict[str, list[PodHistory]] = {}
        self._room = {node.name: {"cpu": node.cpu, "memory": node.memory, "pods": node.pods} for node in nodes}
        self._on: dict[str, dict[str, dict[str, Decimal]]] = {name: {} for name in self._room}

    @asynccontextmanager
    async def watching(self, etcd_url: str) -> AsyncIterator[None]:
        """Watch until the block ends, which fails if the watch does. Nothing older than the start is seen."""
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
        ask = {"create_request": {"key": _base64(PODS), "range_end": _base64(PODS_END), "prev_kv": True}}
        forever = aiohttp.ClientTimeout(total=None)
        async with (
            aiohttp.ClientSession(timeout=forever) as session,
            session.post(f"{etcd_url}/v3/watch", json=ask) as answer,
        ):
            rest = b""
            async for chunk in answer.content.iter_any():
                begun.set()
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    for raw, gone in _changes(orjson.loads(line)):
                        self.see(raw, gone=gone)
        raise aiohttp.ClientConnectionError("etcd ended the watch")

    def see(self, raw: Json, *, gone: bool = False) -> None:
        """Take the next version of a pod, or its last one."""
        uid = raw["metadata"]["uid"]
        if uid not in self.pods:
            self.pods[uid] = PodHistory(raw)
            self._items.setdefault(self.pods[uid].item, []).append(self.pods[uid])
        seen = self.pods[uid]
        seen.raw, seen.gone = raw, gone
        node = str(raw["spec"].get("nodeName") or "")
        if node and node not in seen.nodes:
            seen.nodes.append(node)
        for uids in self._on.values():
            uids.pop(seen.uid, None)
        if seen.node in self._on:
            self._on[seen.node][seen.uid] = requests(raw)
            self._check(seen.node, seen)

    def of(self, item: str) -> list[PodHistory]:
        """The real pods of an item of the load, those that are gone too."""
        return self._items.get(item, [])

    def placeholders(self) -> list[PodHistory]:
        """The placeholders that exist."""
        return [seen for seen in self.pods.values() if seen.placeholder and not seen.gone]

    def on_nodes(self) -> dict[str, dict[str, dict[str, Decimal]]]:
        """Who takes how much of which node: by node and UID."""
        return self._on

    def _check(self, node: str, newcomer: PodHistory) -> None:
        for resource, room in self._room[node].items():
            taken = sum((amounts[resource] for amounts in self._on[node].values()), Decimal(0))
            if taken > amount(room):
                names = ", ".join(self.pods[uid].name for uid in self._on[node])
                over = f"{node} is over its {resource}: {taken} of {room} since {newcomer.name}; on it: {names}"
                self.violations.append(over)


def requests(raw: Json) -> dict[str, Decimal]:
    """What a pod takes of its node: the loads here have plain containers only."""
    found = {"cpu": Decimal(0), "memory": Decimal(0), "pods": Decimal(1)}
    for container in raw["spec"]["containers"]:
        for resource, quantity in (container.get("resources", {}).get("requests") or {}).items():
            found[resource] = found.get(resource, Decimal(0)) + amount(quantity)
    return found


def amount(quantity: str) -> Decimal:
    """A Kubernetes quantity, of the few forms that are used here."""
    digits = quantity.rstrip("mKMGi")
    return Decimal(digits) * FACTORS[quantity.removeprefix(digits)]


def _changes(message: Mapping[str, Json]) -> Iterator[tuple[Json, bool]]:
    """The versions in one message of etcd's watch: the object, and whether it is gone."""
    for event in message["result"].get("events", []):
        gone = event.get("type") == "DELETE"
        entry = event["prev_kv"] if gone else event["kv"]
        yield orjson.loads(base64.b64decode(entry["value"])), gone


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
