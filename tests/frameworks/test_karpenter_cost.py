"""What Karpenter buys for 100 gangs, against the CPUs of the gangs that may run. `pytest -rP` prints the numbers.

The instance types have 4, 8 and 16 CPUs at the same price per CPU, so the cost of a node is its CPUs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest

from devcluster import kube_scheduler
from devcluster.api import Json
from devcluster.cluster import Cluster
from tests.e2e.configuration import a_queue, queue_file
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang, a_pod
from tests.e2e.scenario import Scenario
from tests.frameworks import karpenter
from tests.frameworks.karpenter import Karpenter

GANGS = 100
SIZES = (4, 8, 16)
DEADLINE_S = 400.0
MOST = 1.1
"""Cost against the optimum, the CPUs of all pods that run."""
OPEN, FULL = "root.open", "root.full"
IN_QUOTA = 5
"""Gangs of the limited queue that may run."""
QUEUES = queue_file(a_queue("open"), a_queue("full", maximum={"vcore": str(4 * IN_QUOTA)}))


@dataclass(frozen=True, slots=True)
class Mix:
    """100 gangs. `runs`: members and CPUs of all gangs that may run."""

    gangs: list[tuple[str, Group]]
    runs: int
    cpus: float


def equal() -> Mix:
    """Four members of one CPU each."""
    return Mix([(OPEN, Group("workers", 4))] * GANGS, 4 * GANGS, 4 * GANGS)


def mixed() -> Mix:
    """Two to six members of half a CPU to three CPUs."""
    sizes = [(2 + number % 5, (0.5, 1, 2, 3)[number % 4]) for number in range(GANGS)]
    gangs = [(OPEN, Group("workers", members, cpu=f"{round(cpu * 1000)}m")) for members, cpu in sizes]
    return Mix(gangs, sum(members for members, _ in sizes), sum(members * cpu for members, cpu in sizes))


def half_blocked() -> Mix:
    """Like `equal`; every second gang is in a queue that has quota for five of them."""
    gangs = [((OPEN, FULL)[number % 2], Group("workers", 4)) for number in range(GANGS)]
    running = GANGS // 2 + IN_QUOTA
    return Mix(gangs, 4 * running, 4 * running)


@pytest.mark.parametrize("mix", [equal, mixed, half_blocked], ids=lambda mix: mix.__name__)
@pytest.mark.parametrize("placement", ["Reserve", "Direct"])
async def test_the_nodes_of_100_gangs_cost_at_most_a_tenth_more_than_needed(
    home: Cluster, open_scenario: OpenScenario, mix: Callable[[], Mix], placement: str
) -> None:
    scenario, wanted = await open_scenario([karpenter.SYSTEM], QUEUES), mix()
    async with karpenter.running(home, scenario.namespace, sizes=SIZES) as running:
        await scenario.create(_pods(wanted, placement))
        await scenario.eventually("the gangs run", partial(_are_bound, scenario, wanted.runs), DEADLINE_S)
        await scenario.create([a_pod("later", cpu="16", labels={"applicationId": "later", "queue": OPEN})])
        await scenario.eventually("a later pod runs", partial(_are_bound, scenario, wanted.runs + 1), DEADLINE_S)
        cost = running.cpus() - 16
        _show(mix, placement, running, 1)
        assert cost <= MOST * wanted.cpus


async def test_kube_scheduler_with_the_same_gangs(home: Cluster, open_scenario: OpenScenario) -> None:
    """It has no queues, so all gangs run. Only to compare the cost of the same pods."""
    scenario = await open_scenario([karpenter.SYSTEM], QUEUES)
    kubeconfig = await kube_scheduler.account(home)
    scheduler = kube_scheduler.KubeScheduler(home, kubeconfig)
    await scheduler.start()
    try:
        async with karpenter.running(home, scenario.namespace, sizes=SIZES) as running:
            for mix in (equal, mixed):
                wanted = mix()
                pods = [{**pod, "spec": {**pod["spec"], "schedulerName": "default-scheduler"}} for pod in _pods(wanted)]
                await scenario.create(pods)
                await scenario.eventually("the pods run", partial(_are_bound, scenario, wanted.runs), DEADLINE_S)
                _show(mix, "kube-scheduler", running)
                await running.remove_nodes(scenario.namespace)
    finally:
        await scheduler.stop()


def _show(mix: Callable[[], Mix], scheduler: str, running: Karpenter, others: int = 0) -> None:
    """Print the numbers. `others`: nodes of 16 CPUs that are not for the gangs."""
    nodes, cpus = len(running.bought) - others, running.cpus() - others * 16
    print(f"{mix.__name__}, {scheduler}: {nodes} nodes, {cpus} CPUs for {mix().cpus}")  # noqa: T201  # documented


def _pods(mix: Mix, placement: str = "") -> list[Json]:
    return [
        pod
        for number, (queue, group) in enumerate(mix.gangs)
        for pod in a_gang(f"gang-{number}", [group], queue=queue, placement=placement, timeout_s=3600)
    ]


async def _are_bound(scenario: Scenario, count: int) -> bool:
    return len(await scenario.bound()) == count
