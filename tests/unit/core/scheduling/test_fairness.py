"""With steady demand the shares of queues converge to their guarantees, for any order of allocations and releases.

A simulation: applications request continuously, allocations end at random (seeded), and freed resources are
allocated by the core.
"""

from __future__ import annotations

from random import Random  # noqa: TID251 # seeded

from muster_core.model.config import QueueConfig
from muster_core.model.effects import AllocationResponse, Effect
from muster_core.model.events import AllocationReleased, ApplicationAdded, AskAdded, Event, NodeAdded
from muster_core.model.ids import AllocationId, AllocationKey, ApplicationId, QueuePath, Termination
from muster_core.scheduling.scheduler import cycle, step
from tests.unit.builders import PARTITION, a_configuration, a_node, a_queue, an_application, an_ask
from tests.unit.core.scheduling.scenario import Scenario

_PLACES = 120


class Economy:
    """A full cluster with slots of one core, and queues that always request more."""

    def __init__(self, *queues: QueueConfig, sizes: dict[str, tuple[int, ...]], seed: int = 7) -> None:
        self.scenario = Scenario(a_configuration(*queues))
        self.random = Random(seed)
        self.sizes = sizes
        self.number = 0
        self.held: list[tuple[str, AllocationKey, AllocationId]] = []
        for queue in sizes:
            self.send(ApplicationAdded(an_application(queue, queue=f"root.{queue}", created_s=1)))
        self.send(NodeAdded(a_node("n", _PLACES * 1000, pods=10_000)))

    def send(self, *events: Event) -> None:
        effects: list[Effect] = []
        for event in events:
            effects += step(self.scenario.scheduler_state, event, self.scenario.now_ns)
        effects += cycle(self.scenario.scheduler_state, self.scenario.now_ns, lambda: True).effects
        answers = (effect for effect in effects if isinstance(effect, AllocationResponse))
        self.held += [(new.ask.application, new.ask.key, new.id) for answer in answers for new in answer.new]

    def demand(self, queue: str, count: int) -> list[Event]:
        """Asks of the queue's sizes in cores."""
        asks: list[Event] = []
        for _ in range(count):
            self.number += 1
            cores = self.random.choice(self.sizes[queue])
            asks.append(AskAdded(an_ask(f"{queue}-{self.number}", app=queue, vcore=cores * 1000)))
        return asks

    def turn_over(self, rounds: int, at_once: int = 6) -> None:
        """In each round a few allocations end, and every queue requests as much again."""
        for _ in range(rounds):
            ended: list[Event] = []
            for _ in range(min(at_once, len(self.held))):
                app, key, identity = self.held.pop(self.random.randrange(len(self.held)))
                ended.append(
                    AllocationReleased(PARTITION, ApplicationId(app), key, identity, Termination.STOPPED_BY_RM)
                )
            wishes = [event for queue in self.sizes for event in self.demand(queue, self._missing(queue))]
            self.send(*wishes, *ended)

    def _missing(self, queue: str) -> int:
        return max(20 - len(self.scenario.app(queue).asks), 0)

    def cores(self, queue: str) -> float:
        return self.scenario.partition.queues.by_path[QueuePath(f"root.{queue}")].allocated["vcore"] / 1000


def test_shares_converge_to_the_guarantees_from_an_unfair_start() -> None:
    guarantees = {"a": 60, "b": 40, "c": 20}
    queues = [a_queue(name, guaranteed=cores * 1000) for name, cores in guarantees.items()]
    economy = Economy(*queues, sizes=dict.fromkeys(guarantees, (1,)))
    economy.send(*economy.demand("c", _PLACES))
    assert economy.cores("c") == _PLACES
    economy.turn_over(120)
    for name, cores in guarantees.items():
        assert abs(economy.cores(name) - cores) <= 2, (name, economy.cores(name))


def test_resources_beyond_the_guarantees_are_shared_in_proportion() -> None:
    guarantees = {"a": 30, "b": 10}
    queues = [a_queue(name, guaranteed=cores * 1000) for name, cores in guarantees.items()]
    economy = Economy(*queues, sizes=dict.fromkeys(guarantees, (1, 2, 3)))
    economy.turn_over(150)
    assert abs(economy.cores("a") - 90) <= 6
    assert abs(economy.cores("b") - 30) <= 6


def test_every_level_is_fair_and_unused_shares_go_to_siblings() -> None:
    team = a_queue("team", a_queue("x", guaranteed=30_000), a_queue("y", guaranteed=10_000), guaranteed=80_000)
    economy = Economy(
        a_queue("org", team, a_queue("solo", guaranteed=40_000), guaranteed=120_000),
        sizes={"org.team.x": (1,), "org.team.y": (1, 2), "org.solo": (2,)},
    )
    economy.turn_over(150)
    assert abs(economy.cores("org.team") - 80) <= 4
    assert abs(economy.cores("org.team.x") - 60) <= 5
    assert abs(economy.cores("org.solo") - 40) <= 4
    economy.sizes = {name: sizes for name, sizes in economy.sizes.items() if name != "org.team.x"}
    economy.turn_over(150)
    assert economy.cores("org.team.x") <= 25  # it asks no more, and what ends there
    assert abs(economy.cores("org.team") - 80) <= 6  # its sibling gets


def test_queues_without_guarantee_share_the_cluster_evenly() -> None:
    economy = Economy(a_queue("a"), a_queue("b"), a_queue("c"), sizes={"a": (1,), "b": (2,), "c": (4,)})
    economy.turn_over(150)
    for name in ("a", "b", "c"):
        assert abs(economy.cores(name) - 40) <= 5, (name, economy.cores(name))


def test_queues_without_guarantee_share_in_proportion_to_their_maximum() -> None:
    economy = Economy(a_queue("a", vcore=80_000), a_queue("b", vcore=160_000), sizes={"a": (1,), "b": (1,)})
    economy.turn_over(150)
    assert abs(economy.cores("a") - 40) <= 3
    assert abs(economy.cores("b") - 80) <= 3


def test_one_pass_over_many_free_resources_keeps_the_shares() -> None:
    """Many requests on an empty cluster: attempts are long, but no queue gets far more than the others."""
    queues = [a_queue(name, guaranteed=cores) for name, cores in (("a", 60_000), ("b", 40_000), ("c", 20_000))]
    scenario = Scenario(a_configuration(*queues))
    for name in ("a", "b", "c"):
        step(scenario.scheduler_state, ApplicationAdded(an_application(name, queue=f"root.{name}")), scenario.now_ns)
        for index in range(200):
            step(scenario.scheduler_state, AskAdded(an_ask(f"{name}{index}", app=name)), scenario.now_ns)
    step(scenario.scheduler_state, NodeAdded(a_node("n", 24_000, pods=1000)), scenario.now_ns)
    cycle(scenario.scheduler_state, scenario.now_ns, lambda: True)
    cores = [scenario.partition.queues.by_path[QueuePath(f"root.{name}")].allocated["vcore"] // 1000 for name in "abc"]
    assert sum(cores) == 24
    assert all(abs(got - due) <= 1 for got, due in zip(cores, (12, 8, 4), strict=True)), cores
