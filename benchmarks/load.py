"""Creates pods as fast as the API server takes them, and sees when each gets its node.

Each pod asks for 100m and 128Mi, tolerates every taint and has no grace period; 50 creates are in flight at once. Every
pod of a gang carries the whole task-groups annotation. Names of real pods begin with the load's name; every other pod
of the namespace is a placeholder.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson

from devcluster.api import Api, Json

NOBODY = "nobody"
PREFIX = "yunikorn.apache.org/"
AMOUNTS = {"cpu": "100m", "memory": "128Mi"}
CONCURRENT = 50
BOUND_S = 300.0
"""When to give up: far beyond anything worth measuring."""


@dataclass(frozen=True, slots=True)
class Load:
    """What to create: ``pods`` in ``gangs`` gangs of equal size, or (0) as single pods of one application.

    ``scheduler``: NOBODY for pods that stay without a node, which shows how fast the API server takes them.
    """

    name: str
    pods: int
    gangs: int = 0
    scheduler: str = "muster"

    def pod(self, number: int) -> Json:
        """One of them."""
        app = f"{self.name}-g{number % max(1, self.gangs)}"
        meta: Json = {
            "name": f"{self.name}-{number:05d}",
            "labels": {"app": "load", "applicationId": app, "queue": "root.default"},
        }
        if self.gangs:
            group = {"name": "workers", "minMember": self.pods // self.gangs, "minResource": AMOUNTS}
            meta["annotations"] = {
                f"{PREFIX}task-group-name": "workers",
                f"{PREFIX}task-groups": orjson.dumps([group]).decode(),
            }
        container = {"name": "c", "image": "pause", "resources": {"requests": AMOUNTS}}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta,
            "spec": {
                "schedulerName": self.scheduler,
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 0,
                "tolerations": [{"operator": "Exists"}],
                "containers": [container],
            },
        }


@dataclass(slots=True)
class Seen:
    """Monotonic seconds: when each real pod's create call began, and when the watch first showed its node."""

    created: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    placeholders: set[str] = field(default_factory=set)
    all_created: float = 0.0

    @property
    def began(self) -> float:
        """The first create call."""
        return min(self.created.values())

    @property
    def seconds(self) -> float:
        """From the first create call to the last pod bound, or created if none is to be bound."""
        return max(self.bound.values(), default=self.all_created) - self.began

    def details(self) -> Mapping[str, float]:
        """Seconds: all creates answered, first pod bound, and a pod's own way from its create call to its node."""
        ways = sorted(self.bound[name] - self.created[name] for name in self.bound) or [0.0]
        return {
            "create_s": round(self.all_created - self.began, 3),
            "bound_s": round(self.seconds, 3),
            "first_bound_s": round(min(self.bound.values(), default=self.began) - self.began, 3),
            "p50_s": round(ways[len(ways) // 2], 3),
            "p99_s": round(ways[min(len(ways) - 1, int(0.99 * len(ways)))], 3),
            "placeholders": len(self.placeholders),
        }


async def run(api: Api, namespace: str, load: Load) -> Seen:
    """Create everything and return when every pod has a node.

    Raises:
        TimeoutError: not all were bound in BOUND_S.
    """
    seen, watching = Seen(), asyncio.Event()
    watch = asyncio.create_task(_watch(api, namespace, load, seen, watching))
    try:
        await watching.wait()
        await _create(api, namespace, load, seen)
        if load.scheduler == NOBODY:
            return seen
        async with asyncio.timeout(BOUND_S):
            await watch
    finally:
        watch.cancel()
    return seen


async def _create(api: Api, namespace: str, load: Load, seen: Seen) -> None:
    turn = asyncio.Semaphore(CONCURRENT)

    async def create(number: int) -> None:
        async with turn:
            pod = load.pod(number)
            seen.created[pod["metadata"]["name"]] = time.monotonic()
            await api.create(pod, namespace)

    await asyncio.gather(*(create(number) for number in range(load.pods)))
    seen.all_created = time.monotonic()


async def _watch(api: Api, namespace: str, load: Load, seen: Seen, watching: asyncio.Event) -> None:
    """Until every pod has a node. The namespace has to be empty before: nothing else says that the watch stands."""
    asyncio.get_running_loop().call_later(0.3, watching.set)
    async for _, pod in api.watch("pods", namespace):
        name = pod["metadata"]["name"]
        if not name.startswith(f"{load.name}-"):
            seen.placeholders.add(name)
        elif name not in seen.bound and pod["spec"].get("nodeName"):
            seen.bound[name] = time.monotonic()
            if len(seen.bound) == load.pods:
                return
