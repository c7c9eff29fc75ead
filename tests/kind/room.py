"""The namespace of a test. Its pods are watched from the start, because rejected pods may disappear soon."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TypeVar

import aiohttp

from devcluster.api import Api, Json
from devcluster.errors import ApiError, ConditionNotMet
from devcluster.waiting import until
from tests.e2e.manifests import a_pod, is_bound, is_placeholder
from tests.kind.cluster import Kind
from tests.kind.release import Release

T = TypeVar("T")

DEADLINE_S = 120.0
NOT_YET = (ApiError, aiohttp.ClientError)
REFUSED = ("OutOf", "UnexpectedAdmissionError", "NodeAffinity", "TopologyAffinityError")
"""Reasons, or their beginnings, with which a kubelet does not start a pod that was bound to its node."""


class Room:
    """``placeholders``: the names of all that there ever were; ``ended``: of those whose kubelet reported their end.

    ``refused``: what kubelets would not start, and why.
    """

    def __init__(self, kind: Kind, release: Release, namespace: str) -> None:
        self.kind, self.release, self.namespace = kind, release, namespace
        self.api: Api = kind.api
        self.placeholders: set[str] = set()
        self.ended: set[str] = set()
        self.refused: set[tuple[str, str]] = set()
        self._watching = asyncio.create_task(self._watch())

    async def create(self, manifests: Iterable[Json]) -> None:
        """One after the other, as they come. The webhook may be away for a moment after a restart: asked again."""
        for manifest in manifests:
            await until("the API server takes it", partial(self._created, manifest), 60, every_s=0.5)

    async def pods(self, *, placeholders: bool = False) -> list[Json]:
        """The real pods, or the placeholders."""
        return [pod for pod in await self.api.find("pods", self.namespace) if is_placeholder(pod) == placeholders]

    async def bound(self, *, placeholders: bool = False) -> list[Json]:
        """Those of them that have a node and are not on their way out."""
        found = await self.pods(placeholders=placeholders)
        return [pod for pod in found if is_bound(pod) and "deletionTimestamp" not in pod["metadata"]]

    async def running(self, count: int, deadline_s: float = DEADLINE_S) -> list[Json]:
        """Wait until so many real pods run in real containers and no placeholder is left; returns the pods."""

        async def run() -> list[Json]:
            pods = await self.pods()
            found = [pod for pod in pods if pod["status"].get("phase") == "Running"]
            return found if len(found) == count and not await self.pods(placeholders=True) else []

        return await self.eventually(f"{count} pods run and no placeholder is left", run, deadline_s)

    async def block(self) -> tuple[int, int]:
        """Run the pod `blocker` in one of the places of a gang that would fill all empty nodes.

        Returns the number of places, and the millicores of one. For a gang that not even empty nodes could hold,
        nothing would be reserved.
        """
        free = await self.free_cpu()
        each = min(free.values()) // 2
        await self.create([a_pod("blocker", cpu=f"{each}m")])
        await self.running(1)
        return sum(left // each for left in free.values()), each

    async def free_cpu(self) -> dict[str, int]:
        """Wait until no pod is terminating, whose resources would be free soon; then as `Kind.free_cpu`."""

        async def none_ends() -> bool:
            return not any("deletionTimestamp" in pod["metadata"] for pod in await self.api.find("pods"))

        await self.eventually("no pod is terminating", none_ends)
        return await self.kind.free_cpu()

    async def reserved(self, count: int) -> list[Json]:
        """Wait until exactly so many placeholders are bound."""

        async def are_bound() -> list[Json]:
            found = await self.bound(placeholders=True)
            return found if len(found) == count else []

        return await self.eventually(f"{count} placeholders are bound", are_bound)

    async def told(self, pod: str, *words: str) -> None:
        """Wait for a Warning on the pod that has all the words."""

        async def is_reported() -> bool:
            events = await self.api.find("events", self.namespace, fieldSelector=f"involvedObject.name={pod}")
            notes = [event.get("message", "").lower() for event in events if event["type"] == "Warning"]
            return any(all(word.lower() in note for word in words) for note in notes)

        await self.eventually(f"a Warning on {pod} says {words}", is_reported)

    async def eventually(self, what: str, check: Callable[[], Awaitable[T]], deadline_s: float = DEADLINE_S) -> T:
        """Wait for something true, and return it; the failure shows the state of everything."""
        try:
            return await until(what, check, deadline_s, every_s=0.2, tolerate=NOT_YET)
        except ConditionNotMet as error:
            raise AssertionError(f"{error}\n{await self.report()}") from None

    async def empty(self) -> None:
        """Take all pods away, and wait until they are gone."""

        async def is_empty() -> bool:
            for plural in ("jobs", "pods"):
                await self.api.delete_all(plural, self.namespace)
            return not await self.api.find("pods", self.namespace)

        await self.eventually("all pods are gone", is_empty)

    async def close(self) -> None:
        """Take the namespace away. Raises what ended the watch too early, if anything did."""
        await self.empty()
        self._watching.cancel()
        (ended,) = await asyncio.gather(self._watching, return_exceptions=True)
        await self.api.delete("namespaces", self.namespace)
        if isinstance(ended, Exception):
            raise ended

    async def report(self) -> str:
        """Pods, events and the ends of Muster's logs."""
        parts = [f"=== pods of {self.namespace} ==="]
        parts += [_line(pod) for pod in await self.api.find("pods", self.namespace)]
        parts += [f"=== free: {await self.kind.free_cpu()} ===", "=== events ==="]
        for event in await self.api.find("events", self.namespace):
            parts.append(
                f"{event['type']:8} {event['reason']:20} {event['involvedObject'].get('name')} {event.get('message')}"
            )
        return "\n".join([*parts, "=== Muster ===", await self.release.logs()])

    async def _created(self, manifest: Json) -> bool:
        try:
            await self.api.create(manifest, self.namespace)
        except ApiError as error:
            if error.status == 500 and "webhook" in str(error):
                return False
            if error.reason != "AlreadyExists":
                raise
        return True

    async def _watch(self) -> None:
        async for _, pod in self.api.watch("pods", self.namespace):
            name, reason = pod["metadata"]["name"], pod["status"].get("reason", "")
            if is_placeholder(pod):
                self.placeholders.add(name)
                if _has_ended(pod):
                    self.ended.add(name)
            if reason.startswith(REFUSED):
                self.refused.add((name, reason))


def _has_ended(pod: Json) -> bool:
    """Whether its kubelet has reported the end of all its containers, or it never had a node."""
    containers = pod["status"].get("containerStatuses", ())
    if not pod["spec"].get("nodeName"):
        return "deletionTimestamp" in pod["metadata"]
    return bool(containers) and all("terminated" in container["state"] for container in containers)


def _line(pod: Json) -> str:
    meta, status = pod["metadata"], pod["status"]
    states = [container.get("state") for container in status.get("containerStatuses", ())]
    why = [c.get("message", c.get("reason")) for c in status.get("conditions", ()) if c["status"] == "False"]
    going = " (going)" if "deletionTimestamp" in meta else ""
    return f"{meta['name']:44} {status.get('phase')} on {pod['spec'].get('nodeName', '-')}{going} {states} {why}"
