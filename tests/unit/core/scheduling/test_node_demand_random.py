"""Random events: what is reported as waiting for nodes stays within all maximums, and no placement depends on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random  # noqa: TID251 - with a fixed seed

import pytest

from muster_core.model.config import Configuration, QueueConfig, QueuePolicies, Timing
from muster_core.model.constraints import ANYWHERE, Constraints
from muster_core.model.effects import AllocationResponse, ApplicationUpdated, Effect
from muster_core.model.events import (
    ApplicationAdded,
    ApplicationRemoved,
    AskAdded,
    ConfigurationReplaced,
    Event,
    NodeAction,
)
from muster_core.model.ids import AllocationKey, ApplicationId, Termination
from muster_core.model.resources import NOTHING, Limit, Resources
from muster_core.model.specs import GangPlacement
from muster_core.queues import quota
from muster_core.scheduling import reporting
from muster_core.state.node_demand import Demand, NodeDemand
from muster_core.state.scheduler_state import Partition
from tests.amounts import amount
from tests.unit.builders import (
    PARTITION,
    RM,
    SECOND,
    a_configuration,
    a_limit,
    a_queue,
    an_application,
    an_ask,
)
from tests.unit.core.scheduling.direct import a_gang as a_direct_gang
from tests.unit.core.scheduling.scenario import Scenario

SEEDS = range(amount(10, 500))
STEPS = 60
APPS = 9
LEAVES = ("root.p.a", "root.p.b", "root.c", "root.fair")
USERS = ("kim", "lee")
NEVER = Constraints(node_selector=(("no", "such"),))
TIMING = Timing(starvation_age_ns=200 * SECOND, release_timeout_ns=40 * SECOND)


def a_random_configuration(random: Random) -> Configuration:
    def maximum(config: QueueConfig) -> QueueConfig:
        names = [name for name in ("vcore", "memory") if random.random() < 0.5]
        return replace(config, max=Limit({name: random.randint(2, 15) * 1000 for name in names}))

    soon = QueuePolicies(preemption_delay_ns=SECOND)
    limits = (a_limit(users=(random.choice(USERS),), vcore=random.randint(1, 9) * 1000),)
    parent = a_queue(
        "p",
        maximum(a_queue("a", guaranteed=random.choice((0, 2000)), policies=soon)),
        maximum(a_queue("b", limits=limits if random.random() < 0.5 else ())),
        limits=limits if random.random() < 0.3 else (),
    )
    return a_configuration(maximum(parent), maximum(a_queue("c")), maximum(a_queue("fair", fair=True)), timing=TIMING)


@dataclass(slots=True)
class Run:
    """One scenario. `log`: effects that the demand for nodes must not change, by step."""

    random: Random
    scenario: Scenario
    log: list[list[Effect]]
    keys: int = 0

    def step(self, number: int) -> list[Effect]:
        """Draw one change and carry it out. What is drawn depends on placements only."""
        random, scenario = self.random, self.scenario
        kinds = (*["app"] * 3, *["ask"] * 6, *["cancel"] * 4, "remove", "node", "drain", "reload", "wait")
        match random.choice(kinds):
            case "app":
                return scenario.send(*self._an_application(f"app{number}"))
            case "wait":
                return scenario.wait(random.choice((1, 30, 300, 901, 2000)))
            case "node":
                return scenario.add_node(f"n{number}", vcore=random.choice((500, 1000, 2000)))
            case "drain":
                nodes = sorted(scenario.partition.nodes)
                action = random.choice((NodeAction.DRAIN, NodeAction.OPEN, NodeAction.DECOMMISSION))
                return scenario.node(random.choice(nodes), action) if nodes else []
            case "reload":
                return scenario.send(ConfigurationReplaced(RM, a_random_configuration(random)))
            case kind:
                names = sorted(scenario.partition.applications)
                return self._change(kind, random.choice(names)) if names else []

    def _an_application(self, name: str) -> Iterator[Event]:
        random = self.random
        if len(self.scenario.partition.applications) >= APPS:
            return
        queue, user, members = random.choice(LEAVES), random.choice(USERS), random.randint(1, 5)
        placement = random.choice((None, None, None, *GangPlacement))
        if placement is None or queue == "root.fair":
            yield ApplicationAdded(an_application(name, queue=queue, user=user))
        elif placement is GangPlacement.DIRECT:
            yield a_direct_gang(members, name, queue=queue, user=user)
        else:
            spec = an_application(name, queue=queue, user=user, gang=members, placement=placement, timeout_s=400)
            yield ApplicationAdded(spec)
            absent = members // 2 if placement is GangPlacement.AUTO else members
            for index in range(absent):
                yield AskAdded(an_ask(f"{name}-p{index}", app=name, group="workers", placeholder=True))

    def _change(self, kind: str, name: str) -> list[Effect]:
        random, scenario, app = self.random, self.scenario, self.scenario.app(name)
        if kind == "remove":
            return scenario.send(ApplicationRemoved(PARTITION, ApplicationId(name)))
        if kind == "ask":
            self.keys += 1
            shape = Resources(
                {"vcore": random.choice((0, 500, 1000, 3000)), "memory": random.choice((0, 2000)), "pods": 1}
            )
            constraints, priority = random.choice((ANYWHERE, ANYWHERE, NEVER)), random.choice((0, 0, 5))
            count = random.choice((1, 1, 1, 3))
            created_ns = random.choice((0, scenario.now_ns - random.randint(0, 900) * SECOND))
            return scenario.ask(
                *(
                    replace(
                        an_ask(f"k{self.keys}-{index}", app=name, constraints=constraints, priority=priority),
                        resources=shape,
                        created_ns=created_ns,
                        max_allocations=count,
                    )
                    for index in range(random.randint(1, 6))
                )
            )
        placed = sorted((one.spec.key, one.id) for one in app.allocations.values() if not one.spec.is_virtual)
        asked = sorted(key for key, ask in app.asks.items() if not ask.spec.is_virtual)
        if asked and (not placed or random.random() < 0.5):
            return scenario.release_ask(random.choice(asked), name)
        if not placed:
            return []
        key, identity = random.choice(placed)
        was = app.allocations[identity].releasing
        return scenario.release(key, name, was or Termination.STOPPED_BY_RM, identity)


def run(seed: int) -> Run:
    """Carry out all steps, and then remove all applications."""
    random = Random(seed)
    found = Run(random, Scenario(a_random_configuration(random)), [])
    found.scenario.add_full_node()
    for number in range(STEPS):
        found.log.append(found.step(number))
        check(found.scenario)
    for name in sorted(found.scenario.partition.applications):
        found.scenario.send(ApplicationRemoved(PARTITION, ApplicationId(name)))
    return found


def check(scenario: Scenario) -> None:
    """No refused demand fits, and every refused demand waits for a maximum."""
    partition = scenario.partition
    known = partition.node_demand
    assert not known.is_due
    for demand in [one for mine in known.by_app.values() for one in mine.values() if one.refused]:
        needed = reporting._needed(demand)
        held = {bound.holder: bound for bound in quota.bounds(partition, demand.app)}
        back = demand.app.node_reserved if demand.app.is_reserving else NOTHING
        refusing = [
            holder
            for holder, bound in held.items()
            if not known.left_of(quota.left_of(bound, demand.app, back), holder).allows(needed)
        ]
        assert refusing, f"{demand.app.id} waits for quota that is free"


def is_decisive(effect: Effect) -> bool:
    return isinstance(effect, AllocationResponse | ApplicationUpdated)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", SEEDS)
def test_reports_of_missing_nodes_change_no_placement_and_exceed_no_maximum(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    admit, decide, partitions = reporting._admit, reporting._decide, list[Partition]()

    def noted(partition: Partition, demand: Demand) -> None:
        partitions[:] = [partition]
        decide(partition, demand)

    def within_maximums(known: NodeDemand, demand: Demand, count: int) -> list[AllocationKey]:
        admitted = admit(known, demand, count)
        for bound in quota.bounds(partitions[0], demand.app) if admitted else ():
            counted = known.counted.get(bound.holder)
            used = bound.taken.allocated + (counted.value if counted is not None else NOTHING)
            assert not {*bound.max.excess(used)} & {*demand.total}, f"{bound.holder} is exceeded by {demand.app.id}"
        return admitted

    monkeypatch.setattr(reporting, "_decide", noted)
    monkeypatch.setattr(reporting, "_admit", within_maximums)
    found = run(seed)
    known = found.scenario.partition.node_demand
    assert (known.by_app, known.counted, known.refusing) == ({}, {}, {})
    assert (list(known.by_age), known.undecided.demands) == ([], {})

    monkeypatch.setattr(reporting, "_needs_node", lambda *_: False)
    without = run(seed)
    decisions = [[*filter(is_decisive, effects)] for effects in found.log]
    assert decisions == [[*filter(is_decisive, effects)] for effects in without.log]
