"""A starving gang that is placed all at once gets a set of nodes, so that small pods cannot keep it from starting."""

from dataclasses import replace
from heapq import heappop, heappush
from random import Random  # noqa: TID251 - each stream has its own seed

import pytest

from muster_core.model.effects import Effect
from muster_core.model.events import AllocationReleased, ApplicationAdded, AskAdded, Event, NodeAction, NodeAdded
from muster_core.model.ids import AllocationKey, ApplicationId, NodeId, Termination
from muster_core.model.specs import ApplicationSpec, GangPlacement
from tests.unit.builders import (
    PARTITION,
    SECOND,
    a_configuration,
    a_node,
    a_queue,
    an_allocation,
    an_application,
    an_ask,
    resources,
)
from tests.unit.core.scheduling.scenario import Scenario, notices, placed, states

CONFIGURATION = a_configuration(a_queue("a"), a_queue("b"))
STARVES_S = 600
BOTH = (GangPlacement.AUTO, GangPlacement.DIRECT)


def a_gang(members: int, vcore: int, placement: GangPlacement = GangPlacement.AUTO) -> ApplicationSpec:
    each = resources(vcore=vcore, pods=1)
    return an_application("gang", gang=members, each=each, placement=placement, timeout_s=24 * 3600)


def submit(scenario: Scenario, spec: ApplicationSpec) -> list[Effect]:
    """Submit the gang with all its members. It is as old as the present moment."""
    spec = replace(spec, created_ns=scenario.now_ns)
    [group] = spec.members
    asks = (
        an_ask(f"g{index}", app="gang", vcore=group.resources["vcore"], group="workers") for index in range(group.count)
    )
    return scenario.send(ApplicationAdded(spec), *(AskAdded(ask) for ask in asks))


class Stream:
    """Single-core pods of queue b that run for up to `longest_s`. A new one is submitted for each that ends."""

    def __init__(self, scenario: Scenario, longest_s: int, seed: int) -> None:
        self.scenario, self.longest_s = scenario, longest_s
        self.random = Random(seed)
        self.running: list[tuple[int, str]] = []
        self.submitted = 0
        self.core_seconds = 0.0
        scenario.submit(an_application("small", queue="root.b"))

    def more(self, count: int) -> list[Event]:
        names = [f"s{self.submitted + index}" for index in range(count)]
        self.submitted += count
        return [AskAdded(an_ask(name, app="small")) for name in names]

    def note(self, effects: list[Effect]) -> None:
        for key in placed(effects):
            if key.startswith("s"):
                run_s = self.random.randint(self.longest_s // 10, self.longest_s)
                heappush(self.running, (self.scenario.now_ns + run_s * SECOND, key))

    def next(self) -> list[Effect]:
        """Let the next pod end."""
        at_ns, key = heappop(self.running)
        span_s = max(at_ns - self.scenario.now_ns, 0) / SECOND
        self.core_seconds += span_s * (len(self.running) + 1)
        effects = self.scenario.wait(span_s)
        effects += self.scenario.release(key, "small")
        effects += self.scenario.send(*self.more(1))
        self.note(effects)
        return effects


@pytest.mark.parametrize("placement", BOTH)
@pytest.mark.parametrize("longest_s", [300, 3600])
def test_a_gang_of_whole_nodes_starts_next_to_an_endless_stream_of_small_pods(
    placement: GangPlacement, longest_s: int
) -> None:
    scenario = Scenario(CONFIGURATION, nodes=6, vcore=4000)
    stream = Stream(scenario, longest_s, seed=1)
    stream.note(scenario.send(*stream.more(40)))
    submit(scenario, a_gang(3, 4000, placement))
    begun_ns = scenario.now_ns
    while "Running" not in states(stream.next(), "gang"):
        assert scenario.now_ns < begun_ns + (STARVES_S + 2 * longest_s) * SECOND, "the gang starves"
    used = stream.core_seconds / (24 * (scenario.now_ns - begun_ns) / SECOND)
    assert used > 0.7, "few resources are idle while the gang waits"


def starving(nodes: int = 3, used: int = 1000) -> Scenario:
    """Return a cluster on which each node has a pod of queue b and a gang of two whole nodes starves."""
    scenario = Scenario(CONFIGURATION, nodes=nodes, vcore=4000)
    scenario.submit(an_application("b", queue="root.b"), *(an_ask(f"b{index}", vcore=used) for index in range(nodes)))
    submit(scenario, a_gang(2, 4000))
    return scenario


def reserved(scenario: Scenario) -> dict[NodeId, int]:
    found = scenario.partition.contention.node_set
    return {} if found is None else {node: amount["vcore"] for node, amount in found.nodes.items()}


def test_the_set_is_reserved_only_when_the_gang_starves_and_is_reported_once() -> None:
    scenario = starving()
    scenario.wait(STARVES_S - 5)
    assert reserved(scenario) == {}
    effects = scenario.wait(30)
    assert list(reserved(scenario).values()) == [4000, 4000]
    assert sum("nodes are reserved" in notice for notice in notices(effects)) == 1


def test_pods_that_fit_next_to_the_reserved_resources_start() -> None:
    scenario = starving()
    scenario.wait(STARVES_S + 30)
    [free] = {NodeId(f"n{index}") for index in range(3)} - set(reserved(scenario))
    effects = scenario.ask(*(an_ask(f"later{index}", app="b") for index in range(5)))
    assert placed(effects) == dict.fromkeys(["later0", "later1", "later2"], free)


def test_the_gang_starts_when_the_pods_on_its_set_have_ended() -> None:
    scenario = starving()
    scenario.wait(STARVES_S + 30)
    pods = [(one.spec.key, one.node) for one in scenario.app("b").allocations.values()]
    effects = []
    for key, node in pods:
        if node in reserved(scenario):
            effects += scenario.release(key, "b")
    assert set(placed(effects)) == {"g0", "g1"}
    assert reserved(scenario) == {}
    assert placed(scenario.ask(*(an_ask(f"later{index}", app="b") for index in range(4)))).keys() >= {"later0"}


def test_the_set_avoids_nodes_whose_pods_have_run_for_long() -> None:
    scenario = Scenario(CONFIGURATION, nodes=4, vcore=4000)
    scenario.submit(an_application("b", queue="root.b"), *(an_ask(f"old{index}", vcore=500) for index in range(2)))
    old = {one.node for one in scenario.app("b").allocations.values()}
    scenario.wait(3600)
    scenario.ask(*(an_ask(f"young{index}", app="b", vcore=3800) for index in range(2)))
    submit(scenario, a_gang(2, 4000))
    scenario.wait(STARVES_S / 2)
    for index in range(2):  # its successor takes the room at once
        gone = AllocationReleased(
            PARTITION, ApplicationId("b"), AllocationKey(f"young{index}"), None, Termination.STOPPED_BY_RM
        )
        scenario.send(gone, AskAdded(an_ask(f"next{index}", app="b", vcore=3800)))
    scenario.wait(STARVES_S / 2 + 30)
    assert len(reserved(scenario)) == 2
    assert not old & set(reserved(scenario)), "although less has to become free there"


@pytest.mark.parametrize("loss", [NodeAction.DRAIN, NodeAction.DECOMMISSION])
def test_another_set_is_chosen_when_one_of_its_nodes_leaves(loss: NodeAction) -> None:
    scenario = starving()
    scenario.wait(STARVES_S + 30)
    gone = next(iter(reserved(scenario)))
    scenario.node(gone, loss)
    assert len(reserved(scenario)) == 2
    assert gone not in reserved(scenario)


def test_the_set_is_released_when_the_gang_is_removed() -> None:
    scenario = starving()
    scenario.wait(STARVES_S + 30)
    scenario.remove("gang")
    assert reserved(scenario) == {}
    assert len(placed(scenario.ask(*(an_ask(f"later{index}", app="b") for index in range(9))))) == 9


def test_a_gang_that_can_never_fit_gets_no_set() -> None:
    scenario = Scenario(CONFIGURATION, nodes=2, vcore=4000)
    scenario.send(NodeAdded(a_node("n9"), existing=(an_allocation("x", "n9", vcore=1000, foreign=True),)))
    submit(scenario, a_gang(3, 4000))
    scenario.wait(2 * STARVES_S)
    assert reserved(scenario) == {}, "the pod of another scheduler stays"


def test_a_set_on_which_no_pod_ends_is_released_and_chosen_again_after_a_growing_pause() -> None:
    """Otherwise a gang that waits for services would keep free resources from all others permanently."""
    scenario = starving()
    scenario.wait(STARVES_S + 30)
    assert len(reserved(scenario)) == 2
    effects = scenario.wait(STARVES_S)
    assert reserved(scenario) == {}
    assert any("are released: no pod there has ended" in notice for notice in notices(effects))
    assert len(placed(scenario.ask(*(an_ask(f"later{index}", app="b") for index in range(9))))) == 9
    held_s = sum(bool(scenario.wait(60) is None or reserved(scenario)) * 60 for _ in range(8 * 60))
    assert 0 < held_s <= 3600, "of eight hours"


def test_pods_of_the_same_user_and_queue_that_end_do_not_keep_the_set() -> None:
    scenario = starving()
    scenario.submit(an_application("own", queue="root.a"))
    scenario.wait(STARVES_S + 30)
    scenario.ask(*(an_ask(f"own{index}", app="own") for index in range(3)))
    scenario.wait(STARVES_S / 2)
    for index in range(3):
        scenario.release(f"own{index}", "own")
    scenario.wait(STARVES_S / 2)
    assert reserved(scenario) == {}


def test_pods_that_start_next_to_the_set_do_not_keep_it() -> None:
    """A service on one node never ends. Others start and end next to the reserved resources."""
    scenario = Scenario(CONFIGURATION, nodes=3, vcore=4000)
    scenario.submit(an_application("b", queue="root.b"), *(an_ask(f"b{index}", vcore=1500) for index in range(3)))
    submit(scenario, a_gang(3, 3000))
    scenario.wait(STARVES_S + 30)
    assert len(reserved(scenario)) == 3
    held_s = 0
    for turn in range(6 * 60):
        scenario.ask(an_ask(f"small{turn}", app="b", vcore=500))
        scenario.wait(60)
        scenario.release(f"small{turn}", "b")
        held_s += 60 * bool(reserved(scenario))
    assert held_s <= 3600, "of six hours"


def test_many_gangs_of_a_user_do_not_keep_nodes_in_turns() -> None:
    scenario = Scenario(CONFIGURATION, nodes=3, vcore=4000)
    scenario.submit(an_application("b", queue="root.b"), *(an_ask(f"b{index}", vcore=100) for index in range(3)))
    for index in range(10):
        spec = replace(a_gang(3, 4000), id=ApplicationId(f"gang{index}"), created_ns=scenario.now_ns)
        members = (an_ask(f"m{index}-{n}", app=spec.id, vcore=4000, group="workers") for n in range(3))
        scenario.send(ApplicationAdded(spec), *map(AskAdded, members))
    held_s = sum(bool(scenario.wait(60) is None or reserved(scenario)) * 60 for _ in range(6 * 60))
    assert 0 < held_s <= 3600, "of six hours"


def test_the_set_gives_way_to_a_higher_priority_that_needs_its_nodes() -> None:
    scenario = starving()
    scenario.wait(STARVES_S + 30)
    assert len(reserved(scenario)) == 2
    scenario.ask(an_ask("equal", app="b", vcore=2000), an_ask("equal2", app="b", vcore=3000))
    assert len(reserved(scenario)) == 2
    assert "urgent" in placed(scenario.ask(an_ask("urgent", app="b", vcore=3000, priority=1)))
    assert reserved(scenario) == {}


def test_a_node_of_the_set_is_not_reserved_for_another_request() -> None:
    scenario = starving(nodes=2)
    scenario.wait(STARVES_S + 30)
    assert len(reserved(scenario)) == 2
    scenario.ask(an_ask("large", app="b", vcore=4000))
    scenario.wait(30)
    assert len(reserved(scenario)) == 2
    assert not scenario.partition.reservations


def test_the_pause_is_short_again_after_a_long_time() -> None:
    scenario = starving()
    scenario.wait(20 * STARVES_S)
    scenario.remove("gang")
    pauses = scenario.partition.contention.node_set_pauses
    [(_, before)] = pauses.values()
    assert before > 2
    scenario.wait(200 * STARVES_S)
    submit(scenario, a_gang(2, 4000))
    scenario.wait(2 * STARVES_S + 30)
    assert [times for _, times in pauses.values()] == [1]
