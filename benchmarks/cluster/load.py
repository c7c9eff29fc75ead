"""Creates pods as fast as the API server accepts them, and records when each is bound.

Each pod requests 100m and 128Mi, tolerates every taint and has no grace period. 50 creates are in flight. For Muster
every pod of a gang has the complete task-groups annotation. For kube-scheduler it names its PodGroup, which is created
before the measurement. Names of real pods start with the name of the load. All other pods of the namespace are
placeholders.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from benchmarks.cluster.benches import Contender
from devcluster.api import Api, Json
from devcluster.errors import DevclusterError

PREFIX = "yunikorn.apache.org/"
AMOUNTS = {"cpu": "100m", "memory": "128Mi"}
CONCURRENT = 50
BOUND_S, EACH_S = 45.0, 0.05
"""Seconds without a bound pod until the run fails, and additional seconds per pod, so that slow runs can complete."""
FIRST = 50
"""Pods that count as the first ones. The time of a single pod varies by several times between runs."""
GROUP = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup"}
SCHEDULER_NAMES = {Contender.KUBE: "default-scheduler", Contender.NONE: "none", Contender.FLOOR: "none"}
"""``spec.schedulerName`` for schedulers other than Muster."""


class NoProgress(DevclusterError):
    """No pod was bound for too long. The message has the progress."""


@dataclass(frozen=True, slots=True)
class Load:
    """A load for a scheduler: ``pods`` in ``gangs`` gangs of equal size, or (0) as single pods of one application.

    Pods without a scheduler stay pending and measure how fast the API server accepts them.
    """

    name: str
    pods: int
    gangs: int = 0
    contender: Contender = Contender.AUTO

    def pod(self, number: int) -> Json:
        """Return the pod with this number."""
        group = f"{self.name}-g{number % max(1, self.gangs)}"
        meta: Json = {"name": f"{self.name}-{number:05d}", "labels": {"app": "load"}}
        if self.contender.is_muster:
            meta["labels"] |= {"applicationId": group, "queue": "root.default"}
            if self.gangs:
                meta["annotations"] = self._gang()
        in_group = self.gangs > 0 and self.contender is Contender.KUBE
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta,
            "spec": {
                "schedulerName": SCHEDULER_NAMES.get(self.contender, "muster"),
                **({"schedulingGroup": {"podGroupName": group}} if in_group else {}),
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 0,
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "c", "image": "pause", "resources": {"requests": AMOUNTS}}],
            },
        }

    def groups(self) -> list[Json]:
        """Return the PodGroups to create before the pods."""
        if self.contender is not Contender.KUBE:
            return []
        spec = {"schedulingPolicy": {"gang": {"minCount": self.pods // max(1, self.gangs)}}}
        return [{**GROUP, "metadata": {"name": f"{self.name}-g{n}"}, "spec": spec} for n in range(self.gangs)]

    def _gang(self) -> dict[str, str]:
        group = {"name": "workers", "minMember": self.pods // self.gangs, "minResource": AMOUNTS}
        found = {f"{PREFIX}task-group-name": "workers", f"{PREFIX}task-groups": orjson.dumps([group]).decode()}
        if self.contender is not Contender.AUTO:
            found[f"{PREFIX}schedulingPolicyParameters"] = f"gangPlacement={self.contender}"
        return found


@dataclass(slots=True)
class Progress:
    """Times of each real pod in monotonic seconds: start of its create call, and first watch event with a node."""

    created: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    placeholders: set[str] = field(default_factory=set)
    all_created: float = 0.0

    @property
    def began(self) -> float:
        """Time of the first create call."""
        return min(self.created.values())

    @property
    def seconds(self) -> float:
        """Seconds from the first create call until the last pod is bound, or created if no scheduler runs."""
        return max(self.bound.values(), default=self.all_created) - self.began

    def details(self) -> Mapping[str, float]:
        """Seconds until all creates are answered and the first pod is bound, and quantiles from create call to node.

        ``first_ways_s``: the median time from create call to node of the ``FIRST`` pods that were bound first.
        """
        ways = sorted(self.bound[name] - self.created[name] for name in self.bound) or [0.0]
        first = sorted(self.bound, key=lambda name: self.bound[name])[:FIRST]
        first_ways = sorted(self.bound[name] - self.created[name] for name in first) or [0.0]
        return {
            "create_s": round(self.all_created - self.began, 3),
            "bound_s": round(self.seconds, 3),
            "first_bound_s": round(min(self.bound.values(), default=self.began) - self.began, 3),
            "first_ways_s": round(first_ways[len(first_ways) // 2], 3),
            "p50_s": round(ways[len(ways) // 2], 3),
            "p99_s": round(ways[min(len(ways) - 1, int(0.99 * len(ways)))], 3),
            "placeholders": len(self.placeholders),
        }


async def run(api: Api, namespace: str, load: Load) -> Progress:
    """Create all objects and wait until every pod has a node. The namespace must be empty.

    Raises:
        NoProgress: no pod was bound for too long.
    """
    await asyncio.gather(*(api.create(group, namespace) for group in load.groups()))
    pods = [load.pod(number) for number in range(load.pods)]
    return await bound(api, namespace, pods, waits=load.contender is not Contender.NONE)


async def bound(api: Api, namespace: str, pods: Sequence[Json], *, waits: bool = True) -> Progress:
    """Create pods and wait until each has a node. All other pods of the namespace are counted as placeholders.

    Raises:
        NoProgress: no pod was bound for too long.
    """
    seen, watching = Progress(), asyncio.Event()
    names = {pod["metadata"]["name"] for pod in pods}
    watch = asyncio.create_task(_watch(api, namespace, names, seen, watching))
    try:
        await watching.wait()
        await _create(api, namespace, pods, seen)
        if waits and not await completes(watch, seen, BOUND_S + EACH_S * len(pods)):
            raise NoProgress(await _how_far(api, namespace, len(pods), seen))
    finally:
        watch.cancel()
    return seen


async def completes(watch: asyncio.Task[None], seen: Progress, timeout_s: float) -> bool:
    """Wait for the end of the watch. Returns False if no pod was bound for ``timeout_s``."""
    before = -1
    while not watch.done() and before < len(seen.bound):
        before = len(seen.bound)
        await asyncio.wait([watch], timeout=timeout_s)
    if watch.done():
        await watch
    return watch.done()


async def _create(api: Api, namespace: str, pods: Sequence[Json], seen: Progress) -> None:
    slots = asyncio.Semaphore(CONCURRENT)

    async def create(pod: Json) -> None:
        async with slots:
            seen.created[pod["metadata"]["name"]] = time.monotonic()
            await api.create(pod, namespace)

    await asyncio.gather(*map(create, pods))
    seen.all_created = time.monotonic()


async def _watch(api: Api, namespace: str, names: set[str], seen: Progress, watching: asyncio.Event) -> None:
    """Watch until every pod has a node. The namespace must be empty, because an event shows that the watch is open."""
    asyncio.get_running_loop().call_later(0.3, watching.set)
    async for _, pod in api.watch("pods", namespace):
        name = pod["metadata"]["name"]
        if name not in names:
            seen.placeholders.add(name)
        elif name not in seen.bound and pod["spec"].get("nodeName"):
            seen.bound[name] = time.monotonic()
            if len(seen.bound) == len(names):
                return


async def _how_far(api: Api, namespace: str, pods: int, seen: Progress) -> str:
    """Return the progress of a load for the error message."""
    ago = time.monotonic() - max(seen.bound.values(), default=seen.began)
    waiting = next((pod for pod in await api.find("pods", namespace) if not pod["spec"].get("nodeName")), None)
    one = ""
    if waiting is not None:
        one = f"; {waiting['metadata']['name']}: {waiting['status'].get('conditions', 'no condition')}"
    return (
        f"{len(seen.bound)} of {pods} pods were bound, the last {ago:.0f} s ago; "
        f"{len(seen.placeholders)} placeholders were seen{one}"
    )
