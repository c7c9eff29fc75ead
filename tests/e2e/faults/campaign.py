"""One round: a load in portions, a kill with each portion, faults all the time, then the checks."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from devcluster.cluster import Cluster
from devcluster.errors import DevclusterError
from devcluster.waiting import until
from tests.e2e import final_checks
from tests.e2e.faults import checks
from tests.e2e.faults.counters import DIFFERENCES, Tally
from tests.e2e.faults.environment import RETRIED_ERRORS, FaultEnvironment, fault_environment
from tests.e2e.faults.items import Item
from tests.e2e.faults.killer import Kill, Killer, Victim
from tests.e2e.faults.load import Load
from tests.e2e.faults.plan import Plan
from tests.e2e.faults.schedule import Fault, Kind
from tests.e2e.faults.user import User

Report = Callable[[str], None]

SLOW_S = 30.0
"""A recovery that takes longer is reported with the last lines of the logs."""


class NotRecovered(DevclusterError):
    """Muster does not recover, or objects cannot be created; the round cannot continue."""


@dataclass(slots=True)
class Result:
    """Counts and violations of a round."""

    plan: Plan
    violations: list[str] = field(default_factory=list)
    pods: int = 0
    items: Counter[str] = field(default_factory=Counter)
    faults: Counter[tuple[Kind, Fault]] = field(default_factory=Counter)
    requests: Counter[Kind] = field(default_factory=Counter)
    kills: Counter[Victim] = field(default_factory=Counter)
    again: int = 0
    exits: list[str] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)
    recovery_s: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def fault_kinds(self) -> set[Fault]:
        """The kinds of faults that were injected."""
        return {fault for _, fault in self.faults}


class Campaign:
    """A round in an open fault environment. ``report`` receives the progress and the logs of slow recoveries."""

    def __init__(self, plan: Plan, opened: FaultEnvironment, report: Report) -> None:
        self._plan, self._fault_environment, self._report = plan, opened, report
        self._tally = Tally(muster.health_port for muster in opened.musters)
        self._killer = Killer(plan.seed, opened.process, opened.proxy, self._tally.update)
        self._load = Load(plan.seed, plan.nodes, plan.node_cpu)
        self._user = User(opened.scenario.api, opened.scenario.namespace)
        self._items: list[Item] = []
        self._result = Result(plan)

    async def run(self) -> Result:
        """Run all episodes, stop the faults, and check the result."""
        result, start = self._result, time.monotonic()
        for number in range(1, self._plan.episodes + 1):
            await self._episode(number)
        self._fault_environment.proxy.quiet()
        self._fault_environment.kubelet.expects_kills = False
        await self._user.apply([])
        self._report("no more faults; waiting until the load has finished")
        result.violations += await checks.find_violations(self._fault_environment, self._items, self._plan.finish_s)
        result.violations += await self._check_afterwards()
        await self._tally.update()
        result.pods = sum(item.pods for item in self._items)
        result.items.update(item.kind for item in self._items)
        result.faults, result.requests = self._fault_environment.proxy.done, self._fault_environment.proxy.requests
        result.kills, result.again = self._killer.count, self._killer.again
        result.exits, result.counted = self._fault_environment.kubelet.exits, self._tally.sums
        result.violations += [
            f"ended by itself: {exit_text}" for exit_text in result.exits if not _is_abdication(exit_text)
        ]
        if differences := result.counted[DIFFERENCES]:
            result.violations.append(f"{differences} {DIFFERENCES}")
        result.seconds = time.monotonic() - start
        return result

    async def _episode(self, number: int) -> None:
        kill, portion = self._killer.next(), self._portion()
        self._items += portion
        try:
            await asyncio.gather(self._user.apply(portion), self._kill_and_recover(kill))
        except DevclusterError as error:
            raise NotRecovered(f"seed {self._plan.seed}, episode {number}, killed {kill}: {error}") from error
        self._report_episode(number, kill)

    async def _kill_and_recover(self, kill: Kill) -> None:
        """Kill the victims and wait until all processes are ready again."""
        await self._killer.execute(kill)
        start = time.monotonic()
        await self._fault_environment.recovered()
        took = time.monotonic() - start
        self._result.recovery_s.append(took)
        if took > SLOW_S:
            tails = "\n".join(muster.tails() for muster in self._fault_environment.musters)
            self._report(f"the recovery took {took:.1f} s:\n{tails}")

    async def _check_afterwards(self) -> list[str]:
        """The checks after every scenario, of the leader. If it loses the lease meanwhile, they are repeated."""
        opened = self._fault_environment

        async def are_checked() -> bool:
            await self._tally.update()
            leader = await opened.leader()
            if leader is None:
                return False
            opened.scenario.muster, pid = leader, leader.operator.pid

            async def is_unchanged() -> bool:
                return await opened.leader() is leader and leader.operator.pid == pid

            try:
                await final_checks.check(opened.scenario)
            except (AssertionError, *RETRIED_ERRORS):
                if await is_unchanged():
                    raise
                return False
            return await is_unchanged()

        try:
            await until("a leader passes the checks", are_checked, self._plan.finish_s)
        except (AssertionError, DevclusterError, *RETRIED_ERRORS) as error:
            return [f"afterwards: {type(error).__name__}: {error}"]
        return []

    def _portion(self) -> list[Item]:
        plan = self._plan
        return self._load.portion(-(-plan.gang // plan.episodes), -(-plan.single // plan.episodes))

    def _report_episode(self, number: int, kill: Kill) -> None:
        faults = self._fault_environment.proxy.done.total()
        pods = sum(item.pods for item in self._items)
        open_items = len(checks.unfinished(self._items, self._fault_environment.observer))
        self._report(
            f"seed {self._plan.seed}: {number} of {self._plan.episodes}: killed {kill}; ready again after"
            f" {self._result.recovery_s[-1]:.1f} s; {pods} pods so far, {open_items} items unfinished, {faults} faults"
        )


def _is_abdication(exit_text: str) -> bool:
    """Whether an operator exited as intended: it lost the lease, or restarts to serve a withheld scheduler name."""
    return "leadership ended: " in exit_text or "restarting to serve the scheduler name" in exit_text


async def run_campaign(home: Cluster, plan: Plan, report: Report) -> Result:
    """Run a complete round. ``home``: a cluster without nodes in which Muster is installed."""
    async with fault_environment(home, plan) as opened:
        return await Campaign(plan, opened, report).run()
