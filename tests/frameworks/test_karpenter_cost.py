"""What Karpenter buys for 100 gangs, against what the gangs that may run use. `pytest -rP` prints the numbers.

The gangs are created as fast as the API server allows. A gang runs `RUN_S` from the moment that its last member has a
node, as a training job that needs all its members, and is then deleted. Karpenter removes empty nodes. The instance
types have 4, 8 and 16 CPUs at the same price per CPU, so the cost of a node is its CPUs times the seconds from the
creation of its NodeClaim until it is gone, or until the last gang ends. The optimum is the sum of the CPUs of all
members times the seconds that their gang runs.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from devcluster import kube_scheduler
from devcluster.api import Json
from devcluster.cluster import Cluster
from devcluster.errors import ConditionNotMet
from devcluster.waiting import until
from tests.e2e.configuration import a_queue, queue_file
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang, is_placeholder
from tests.e2e.scenario import Scenario
from tests.frameworks import karpenter
from tests.frameworks.karpenter import Karpenter, cpus_of

GANGS = 100
SIZES = (4, 8, 16)
RUN_S = 120.0
DEADLINE_S = 500.0
WRITERS = 4
"""Gangs that are created at the same time."""
EVERY_S = 0.5
"""Seconds between two looks at the gangs that have run long enough."""
EMPTY_FOR = "5s"
"""Karpenter removes a node that was empty for this time."""
MOST = 1.1
"""CPUs bought against the CPUs of all members."""
MOST_SECONDS = 1.75
"""CPU seconds bought against the optimum. A guard against regressions; the measured values are in the documentation."""
OPEN, FULL = "root.open", "root.full"
IN_QUOTA = 5
"""Gangs of the limited queue that may run. They run until the end of the load, so that no other gang may follow."""
QUEUES = queue_file(a_queue("open"), a_queue("full", maximum={"vcore": str(4 * IN_QUOTA)}))


@dataclass(frozen=True, slots=True)
class Gang:
    """Name, queue, number of members and CPUs of each."""

    name: str
    queue: str
    members: int
    cpu: float

    def pods(self, placement: str, scheduler: str) -> list[Json]:
        """Its pods."""
        group = Group("workers", self.members, cpu=f"{round(self.cpu * 1000)}m")
        pods = a_gang(self.name, [group], queue=self.queue, placement=placement, timeout_s=3600)
        return [{**pod, "spec": {**pod["spec"], "schedulerName": scheduler}} for pod in pods]


def equal() -> list[Gang]:
    """Four members of one CPU each."""
    return [Gang(f"gang-{number}", OPEN, 4, 1) for number in range(GANGS)]


def mixed() -> list[Gang]:
    """Two to six members of half a CPU to three CPUs."""
    return [Gang(f"gang-{number}", OPEN, 2 + number % 5, (0.5, 1, 2, 3)[number % 4]) for number in range(GANGS)]


def half_blocked() -> list[Gang]:
    """Like `equal`; every second gang is in a queue that has quota for five of them."""
    return [Gang(f"gang-{number}", (OPEN, FULL)[number % 2], 4, 1) for number in range(GANGS)]


@dataclass(slots=True)
class Load:
    """Ends gangs `RUN_S` after they are complete.

    `complete`, `ended`: times by gang. `nodes`: those of each gang. Gangs that have not ended run until `until`.
    """

    scenario: Scenario
    gangs: dict[str, Gang]
    complete: dict[str, float] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)
    nodes: dict[str, set[str]] = field(default_factory=dict)
    until: float = 0.0

    async def watch(self) -> None:
        """Record the members with a node. Runs until it is cancelled."""
        bound: dict[str, set[str]] = {}
        async for _, pod in self.scenario.api.watch("pods", self.scenario.namespace):
            node, name = pod["spec"].get("nodeName"), pod["metadata"]["labels"].get("applicationId", "")
            if not node or is_placeholder(pod) or name not in self.gangs:
                continue
            self.nodes.setdefault(name, set()).add(node)
            members = bound.setdefault(name, set())
            members.add(pod["metadata"]["name"])
            if len(members) == self.gangs[name].members:
                self.complete.setdefault(name, time.monotonic())

    async def is_over(self) -> bool:
        """End the gangs that have run long enough. Returns whether all gangs of the open queue have ended."""
        self.until = time.monotonic()
        over = [
            name
            for name, since in self.complete.items()
            if name not in self.ended and self.until >= since + RUN_S and self.gangs[name].queue == OPEN
        ]
        await asyncio.gather(*map(self._end, over))
        return sum(gang.queue == OPEN for gang in self.gangs.values()) == len(self.ended)

    async def _end(self, name: str) -> None:
        names = (f"{name}-workers-{number}" for number in range(self.gangs[name].members))
        space = self.scenario.namespace
        await asyncio.gather(*(self.scenario.api.delete("pods", pod, space, grace_s=0) for pod in names))
        self.ended[name] = self.until = max(time.monotonic(), self.until)

    def end_of(self, gang: str) -> float:
        """When it ended."""
        return self.ended.get(gang, self.until)

    def optimum(self) -> float:
        """CPU seconds from the moment that each gang was complete."""
        runs = ((self.gangs[name], self.end_of(name) - since) for name, since in self.complete.items())
        return sum(gang.members * gang.cpu * seconds for gang, seconds in runs)

    def use_of(self, node: str) -> tuple[float, float] | None:
        """When the first gang on the node was complete, and when the last one ended; None = the node was not used."""
        here = [name for name in self.complete if node in self.nodes[name]]
        return (min(self.complete[name] for name in here), max(map(self.end_of, here))) if here else None


@dataclass(slots=True)
class Bought:
    """Numbers of one run. `unused`: nodes on which no gang ran. The others are CPU seconds of the nodes.

    `before`: until the first gang on the node was complete. `used`: from then until the last gang on it ended. `empty`:
    until the node was gone, or the last gang of the load ended. `steps`: seconds since the first pod was created,
    ascending; the first, the median and the last are printed.
    """

    nodes: int
    cpus: int
    wanted: float
    optimum: float
    unused: int = 0
    before: float = 0.0
    used: float = 0.0
    empty: float = 0.0
    steps: dict[str, list[float]] = field(default_factory=dict)

    @property
    def cost(self) -> float:
        """All CPU seconds, in relation to the optimum."""
        return (self.before + self.used + self.empty) / self.optimum

    def __str__(self) -> str:
        """One line."""
        parts = {"before": self.before, "used": self.used, "empty": self.empty}
        shares = ", ".join(f"{part} {seconds / self.optimum:.3f}" for part, seconds in parts.items())
        steps = ", ".join(
            f"{step} {at[0]:.0f}, {at[len(at) // 2]:.0f}, {at[-1]:.0f}" for step, at in self.steps.items()
        )
        nodes = f"{self.nodes} nodes ({self.unused} unused), {self.cpus} CPUs for {self.wanted:g}"
        return f"{nodes}; optimum {self.optimum:.0f} CPU seconds, cost {self.cost:.3f}: {shares}; {steps}"


async def bought_for(
    gangs: list[Gang], scenario: Scenario, running: Karpenter, placement: str = "", scheduler: str = "muster"
) -> Bought:
    """Create the gangs, let them run, and return what was bought."""
    load, start = Load(scenario, {gang.name: gang for gang in gangs}), time.monotonic()

    async def create(some: list[Gang]) -> float:
        for gang in some:
            await scenario.create(gang.pods(placement, scheduler))
        return time.monotonic()

    watching = asyncio.create_task(load.watch())
    try:
        created = max(await asyncio.gather(*(create(gangs[number::WRITERS]) for number in range(WRITERS))))
        await until("the gangs have run", load.is_over, DEADLINE_S, every_s=EVERY_S)
    except ConditionNotMet as error:
        raise AssertionError(f"{error}\n{await scenario.report()}") from None
    finally:
        watching.cancel()
        (watched,) = await asyncio.gather(watching, return_exceptions=True)
    if isinstance(watched, Exception):
        raise watched
    wanted = sum(load.gangs[name].members * load.gangs[name].cpu for name in load.complete)
    found = Bought(len(running.bought), running.cpus(), wanted, load.optimum())
    found.steps = {
        "pods created": [created - start],
        "nodes ready": sorted(ready - start for ready in running.ready.values()),
        "gangs complete": sorted(complete - start for complete in load.complete.values()),
        "gangs ended": sorted(ended - start for ended in load.ended.values()),
    }
    for name, claim in running.bought.items():
        cpus, since, use = cpus_of(claim), running.since[name], load.use_of(claim["status"].get("nodeName", ""))
        gone = min(running.until.get(name, load.until), load.until)
        if use is None:
            found.unused += 1
            found.empty += cpus * (gone - since)
        else:
            found.before += cpus * (use[0] - since)
            found.used += cpus * (use[1] - use[0])
            found.empty += cpus * max(gone - use[1], 0.0)
    return found


@pytest.mark.parametrize("mix", [equal, mixed, half_blocked], ids=lambda mix: mix.__name__)
@pytest.mark.parametrize("placement", ["Reserve", "Auto"])
async def test_the_cost_of_the_nodes_of_100_gangs(
    home: Cluster, open_scenario: OpenScenario, mix: Callable[[], list[Gang]], placement: str
) -> None:
    scenario, gangs = await open_scenario([karpenter.SYSTEM], QUEUES), mix()
    async with karpenter.running(home, scenario.namespace, sizes=SIZES, consolidate_after=EMPTY_FOR) as running:
        found = await bought_for(gangs, scenario, running, placement)
    print(f"{mix.__name__}, {placement}: {found}")  # noqa: T201  # documented
    may_run = [gang for gang in gangs if gang.queue == OPEN]
    assert found.wanted == sum(gang.members * gang.cpu for gang in may_run) + 4 * IN_QUOTA * (mix is half_blocked)
    assert found.cpus <= MOST * found.wanted
    assert found.cost <= MOST_SECONDS


@pytest.mark.parametrize("mix", [equal, mixed], ids=lambda mix: mix.__name__)
async def test_kube_scheduler_with_the_same_gangs(
    home: Cluster, open_scenario: OpenScenario, mix: Callable[[], list[Gang]]
) -> None:
    """It has no queues, so all gangs run. Only to compare the cost of the same pods."""
    scenario = await open_scenario([karpenter.SYSTEM], QUEUES)
    kubeconfig = await kube_scheduler.account(home)
    scheduler = kube_scheduler.KubeScheduler(home, kubeconfig)
    await scheduler.start()
    try:
        async with karpenter.running(home, scenario.namespace, sizes=SIZES, consolidate_after=EMPTY_FOR) as running:
            found = await bought_for(mix(), scenario, running, scheduler="default-scheduler")
        print(f"{mix.__name__}, kube-scheduler: {found}")  # noqa: T201  # documented
    finally:
        await scheduler.stop()
