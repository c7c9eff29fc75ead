"""What users do while everything breaks: gangs and single pods from a seed, each with the end it has to come to.

Pure: an item is manifests and an expectation. Pods run for a while and succeed, by KWOK's annotation.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum

from devcluster.api import Json
from tests.e2e.faults.witness import ITEM_LABEL
from tests.e2e.manifests import Group, a_gang, a_pod

RUN_FOR = "devcluster.muster/run-for"
LONG_S = 900
"""A time-out that no healthy gang meets."""
SHORT_S = 5
"""The time-out of gangs that cannot be complete, and of those too large."""


class End(Enum):
    """What has to have become of every pod of an item."""

    SERVED = "was bound once, and has succeeded or runs on"
    REFUSED = "has no node, and its phase, a condition or an event says why"
    FAILED = "has failed, with a reason"
    JOB_DONE = "all its pods but deleted ones succeeded, and the Job says so"
    DELETED = "is gone"


class Deletion(Enum):
    """When users delete an item again."""

    NEVER = "never"
    AT_ONCE = "right after it was made"
    LATER = "an episode later"


@dataclass(frozen=True, slots=True)
class Item:
    """Manifests that belong together. ``gang`` and ``single``: how many real pods of each sort."""

    name: str
    manifests: list[Json]
    end: End
    gang: int = 0
    single: int = 0
    deletion: Deletion = Deletion.NEVER
    kind: str = field(default="")

    @property
    def pods(self) -> int:
        """Real pods in all."""
        return self.gang + self.single


Make = Callable[[str], Item]
"""Makes an item of that name."""


class Load:
    """Items of a seed, for a cluster of nodes of ``node_cpu`` and ``cluster_cpu`` in all."""

    def __init__(self, seed: int, node_cpu: int, cluster_cpu: int) -> None:
        self._random = random.Random(f"{seed}/load")
        self._node_cpu = node_cpu
        self._cluster_cpu = cluster_cpu
        self._number = 0
        self._gangs: list[Make] = []
        self._singles: list[Make] = []

    def portion(self, gang: int, single: int) -> list[Item]:
        """Items with at least so many pods of gangs and so many single ones, mixed."""
        items: list[Item] = []
        while sum(item.gang for item in items) < gang:
            items.append(self._next_gang())
        while sum(item.single for item in items) < single:
            items.append(self._next_single())
        self._random.shuffle(items)
        return items

    def _next_gang(self) -> Item:
        if not self._gangs:
            whole = [self._soft, self._hard, self._soft, self._hard, self._job, self._job]
            odd: list[Make] = [self._incomplete, self._too_large, self._too_large_hard, self._giant_member]
            self._gangs = [*whole, *odd, self._deleted_gang, self._deleted_gang]
            self._random.shuffle(self._gangs)
        return self._gangs.pop()(self._name("gang"))

    def _next_single(self) -> Item:
        if not self._singles:
            odd = [self._huge, self._homeless, self._deleted_single, self._deleted_single, self._stays]
            self._singles = [*[self._single] * 10, *odd]
            self._random.shuffle(self._singles)
        return self._singles.pop()(self._name("single"))

    def _name(self, what: str) -> str:
        self._number += 1
        return f"{what}-{self._number}"

    # --- gangs ---

    def _groups(self) -> list[Group]:
        sizes: tuple[int, ...] = self._random.choice([(2,), (3,), (4,), (6,), (8,), (1, 3), (2, 4)])
        return [Group(f"g{number}", size, cpu=self._cpu()) for number, size in enumerate(sizes)]

    def _soft(self, name: str) -> Item:
        pods = self._marked(name, a_gang(name, self._groups(), style="Soft", timeout_s=LONG_S))
        return Item(name, pods, End.SERVED, gang=len(pods), kind="Soft gang")

    def _hard(self, name: str) -> Item:
        pods = self._marked(name, a_gang(name, self._groups(), style="Hard", timeout_s=LONG_S))
        return Item(name, pods, End.SERVED, gang=len(pods), kind="Hard gang")

    def _odd_gang(self, name: str, style: str, group: Group, end: End, kind: str) -> Item:
        """One that cannot be complete as it is; its time-out is short."""
        pods = self._marked(name, a_gang(name, [group], style=style, timeout_s=SHORT_S))
        return Item(name, pods, end, gang=len(pods), kind=kind)

    def _incomplete(self, name: str) -> Item:
        """Most of its real pods never come; the clock gives their places back."""
        group = Group("g0", self._random.randint(4, 8), cpu="250m", real=self._random.randint(1, 2))
        return self._odd_gang(name, "Soft", group, End.SERVED, "incomplete gang")

    def _too_large(self, name: str) -> Item:
        """Larger than the cluster, and Soft: after its time-out its pods are scheduled one by one."""
        members = self._cluster_cpu // self._node_cpu + 2
        group = Group("g0", members, cpu=f"{self._node_cpu}", real=2, real_cpu="500m")
        return self._odd_gang(name, "Soft", group, End.SERVED, "Soft gang larger than the cluster")

    def _too_large_hard(self, name: str) -> Item:
        members = self._cluster_cpu // self._node_cpu + 2
        group = Group("g0", members, cpu=f"{self._node_cpu}", real=2, real_cpu="500m")
        return self._odd_gang(name, "Hard", group, End.FAILED, "Hard gang larger than the cluster")

    def _giant_member(self, name: str) -> Item:
        """No node could hold a member even if it were empty."""
        group = Group("g0", 2, cpu=f"{self._node_cpu + 1}")
        return self._odd_gang(name, "Hard", group, End.REFUSED, "gang with a member larger than a node")

    def _deleted_gang(self, name: str) -> Item:
        style = self._random.choice(["Soft", "Hard"])
        pods = self._marked(name, a_gang(name, self._groups(), style=style, timeout_s=LONG_S))
        return Item(name, pods, End.DELETED, gang=len(pods), deletion=self._deletion(), kind="deleted gang")

    def _job(self, name: str) -> Item:
        """A Job whose pods are a gang."""
        members = self._random.randint(2, 5)
        pod = self._marked(name, a_gang(name, [Group("g0", members, cpu=self._cpu())], timeout_s=LONG_S))[0]
        template = {"metadata": {key: pod["metadata"][key] for key in ("labels", "annotations")}, "spec": pod["spec"]}
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {"parallelism": members, "completions": members, "template": template},
        }
        return Item(name, [job], End.JOB_DONE, gang=members, kind="job")

    # --- single pods ---

    def _single(self, name: str) -> Item:
        return self._alone(name, self._pod(name, self._cpu()), End.SERVED, "pod")

    def _stays(self, name: str) -> Item:
        pod = self._pod(name, "50m")
        return Item(name, self._marked(name, [pod], runs=False), End.SERVED, single=1, kind="pod that stays")

    def _huge(self, name: str) -> Item:
        return self._alone(name, self._pod(name, f"{self._node_cpu + 1}"), End.REFUSED, "pod larger than a node")

    def _homeless(self, name: str) -> Item:
        pod = self._pod(name, "100m")
        pod["spec"]["nodeSelector"] = {"chaos.muster/nowhere": "true"}
        return self._alone(name, pod, End.REFUSED, "pod that no node will do for")

    def _deleted_single(self, name: str) -> Item:
        pods = self._marked(name, [self._pod(name, self._cpu())])
        return Item(name, pods, End.DELETED, single=1, deletion=self._deletion(), kind="deleted pod")

    def _alone(self, name: str, pod: Json, end: End, kind: str) -> Item:
        return Item(name, self._marked(name, [pod]), end, single=1, kind=kind)

    def _pod(self, name: str, cpu: str) -> Json:
        """Of an application of its own, of one shared with others, or of none that it names."""
        app = self._random.choice([name, f"batch-{self._random.randint(0, 3)}", ""])
        return a_pod(name, cpu=cpu, labels={"applicationId": app} if app else {})

    # --- either ---

    def _cpu(self) -> str:
        return self._random.choice(["100m", "250m", "500m", "1"])

    def _deletion(self) -> Deletion:
        return self._random.choice([Deletion.AT_ONCE, Deletion.LATER])

    def _marked(self, name: str, pods: Iterable[Json], *, runs: bool = True) -> list[Json]:
        """The same pods with the item's name on them, and with an end if they are to have one."""
        marked = list(pods)
        for pod in marked:
            pod["metadata"]["labels"][ITEM_LABEL] = name
            if runs:
                pod["metadata"]["annotations"][RUN_FOR] = f"{self._random.randint(500, 4000)}ms"
        return marked
