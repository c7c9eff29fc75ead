"""The namespace of a test. Its pods are watched from the start, because rejected pods may disappear soon."""

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
RETRIED_ERRORS = (ApiError, aiohttp.ClientError)
REJECTED = ("OutOf", "UnexpectedAdmissionError", "NodeAffinity", "TopologyAffinityError")
"""Prefixes of the reasons with which a kubelet rejects a pod that was bound to its node."""


class Namespace:
    """``placeholders``: all placeholder names so far; ``terminated``: those whose containers terminated.

    ``rejected``: names and reasons of the pods that a kubelet rejected. ``history``: all pods that got a node, also
    deleted ones, in the order in which they got it.
    """

    def __init__(self, kind: Kind, release: Release, name: str) -> None:
        self.kind, self.release, self.name = kind, release, name
        self.api: Api = kind.api
        self.placeholders: set[str] = set()
        self.terminated: set[str] = set()
        self.rejected: set[tuple[str, str]] = set()
        self.history: dict[str, Json] = {}
        self._watching = asyncio.create_task(self._watch())

    async def create(self, manifests: Iterable[Json]) -> None:
        """Create the objects in order. Retries while the webhook is unreachable after a restart."""
        for manifest in manifests:
            await until("the API server accepts the object", partial(self._created, manifest), 60, every_s=0.5)

    async def pods(self, *, placeholders: bool = False) -> list[Json]:
        """The real pods, or the placeholders."""
        return [pod for pod in await self.api.find("pods", self.name) if is_placeholder(pod) == placeholders]

    async def bound(self, *, placeholders: bool = False) -> list[Json]:
        """Those of them that have a node and are not terminating."""
        found = await self.pods(placeholders=placeholders)
        return [pod for pod in found if is_bound(pod) and "deletionTimestamp" not in pod["metadata"]]

    async def running(self, count: int, deadline_s: float = DEADLINE_S) -> list[Json]:
        """Wait until ``count`` real pods run and no placeholder is left, and return the pods."""

        async def run() -> list[Json]:
            pods = await self.pods()
            found = [pod for pod in pods if pod["status"].get("phase") == "Running"]
            return found if len(found) == count and not await self.pods(placeholders=True) else []

        return await self.eventually(f"{count} pods run and no placeholder is left", run, deadline_s)

    async def block(self) -> tuple[int, int]:
        """Run the pod `blocker`, which occupies one slot of a gang that would fill all empty nodes.

        Returns the number of slots and the millicores of each. A gang that does not fit on empty nodes would reserve
        nothing.
        """
        free = await self.free_cpu()
        each = min(free.values()) // 2
        await self.create([a_pod("blocker", cpu=f"{each}m")])
        await self.running(1)
        return sum(cpu // each for cpu in free.values()), each

    async def free_cpu(self) -> dict[str, int]:
        """Wait until no pod is terminating, then return `Kind.free_cpu`."""

        async def none_terminates() -> bool:
            return not any("deletionTimestamp" in pod["metadata"] for pod in await self.api.find("pods"))

        await self.eventually("no pod is terminating", none_terminates)
        return await self.kind.free_cpu()

    async def reserved(self, count: int) -> list[Json]:
        """Wait until exactly ``count`` placeholders are bound, and return them."""

        async def are_bound() -> list[Json]:
            found = await self.bound(placeholders=True)
            return found if len(found) == count else []

        return await self.eventually(f"{count} placeholders are bound", are_bound)

    async def events(self) -> list[Json]:
        """The events of the namespace, also those on deleted pods."""
        return await self.api.find("events", self.name)

    async def wait_for_warning(self, pod: str, *texts: str) -> None:
        """Wait for a Warning event on the pod whose message contains all texts."""

        async def is_reported() -> bool:
            events = await self.api.find("events", self.name, fieldSelector=f"involvedObject.name={pod}")
            notes = [event.get("message", "").lower() for event in events if event["type"] == "Warning"]
            return any(all(text.lower() in note for text in texts) for note in notes)

        await self.eventually(f"a Warning on {pod} contains {texts}", is_reported)

    async def eventually(self, what: str, check: Callable[[], Awaitable[T]], deadline_s: float = DEADLINE_S) -> T:
        """Wait for a true result and return it. A failure shows the state of pods, events and logs."""
        try:
            return await until(what, check, deadline_s, every_s=0.2, tolerate=RETRIED_ERRORS)
        except ConditionNotMet as error:
            raise AssertionError(f"{error}\n{await self.report()}") from None

    async def empty(self) -> None:
        """Delete all jobs and pods, and wait until they no longer exist."""

        async def is_empty() -> bool:
            for plural in ("jobs", "pods"):
                await self.api.delete_all(plural, self.name)
            return not await self.api.find("pods", self.name)

        await self.eventually("all pods are deleted", is_empty)

    async def close(self) -> None:
        """Delete the namespace. Raises the error that ended the watch early, if there was one."""
        await self.empty()
        self._watching.cancel()
        (result,) = await asyncio.gather(self._watching, return_exceptions=True)
        await self.api.delete("namespaces", self.name)
        if isinstance(result, Exception):
            raise result

    async def report(self) -> str:
        """Return pods, events and the last lines of Muster's logs."""
        parts = [f"=== pods of {self.name} ==="]
        parts += [_pod_line(pod) for pod in await self.api.find("pods", self.name)]
        parts += [f"=== free: {await self.kind.free_cpu()} ===", "=== events ==="]
        for event in await self.events():
            parts.append(
                f"{event['type']:8} {event['reason']:20} {event['involvedObject'].get('name')} {event.get('message')}"
            )
        return "\n".join([*parts, "=== Muster ===", await self.release.logs()])

    async def _created(self, manifest: Json) -> bool:
        try:
            await self.api.create(manifest, self.name)
        except ApiError as error:
            if error.status == 500 and "webhook" in str(error):
                return False
            if error.reason != "AlreadyExists":
                raise
        return True

    async def _watch(self) -> None:
        async for kind, pod in self.api.watch("pods", self.name):
            name, reason = pod["metadata"]["name"], pod["status"].get("reason", "")
            if is_bound(pod):
                self.history[name] = pod
            if is_placeholder(pod):
                self.placeholders.add(name)
                if _has_terminated(pod, is_deleted=kind == "DELETED"):
                    self.terminated.add(name)
            if reason.startswith(REJECTED):
                self.rejected.add((name, reason))


def _has_terminated(pod: Json, *, is_deleted: bool) -> bool:
    """Whether the kubelet reported that all containers terminated, or the pod is deleted without a node.

    A pod can be deleted while its kubelet prepares it. Its containers are then never running.
    """
    states = [container["state"] for container in pod["status"].get("containerStatuses", ())]
    if not pod["spec"].get("nodeName"):
        return "deletionTimestamp" in pod["metadata"]
    if is_deleted:
        return not any("running" in state for state in states)
    return bool(states) and all("terminated" in state for state in states)


def _pod_line(pod: Json) -> str:
    meta, status = pod["metadata"], pod["status"]
    states = [container.get("state") for container in status.get("containerStatuses", ())]
    failed = [c.get("message", c.get("reason")) for c in status.get("conditions", ()) if c["status"] == "False"]
    terminating = " (terminating)" if "deletionTimestamp" in meta else ""
    node = pod["spec"].get("nodeName", "-")
    return f"{meta['name']:44} {status.get('phase')} on {node}{terminating} {states} {failed}"
