"""Requests with placement constraints: gangs, placeholder replacement, later additions and removals."""

from dataclasses import replace

from muster_core.model.constraints import PlacementConstraint, Target
from muster_core.model.events import ApplicationAdded, AskAdded, NodeAdded
from muster_core.model.ids import NodeId, Termination
from tests.unit.builders import a_configuration, a_node, a_queue, an_affinity, an_allocation, an_application, an_ask
from tests.unit.core.scheduling.scenario import Scenario, placed, refused_asks, releases, waits

ALONE = an_affinity("role", "web", scope="hostname", most=1)
NEAR_DB = an_affinity("role", "db", scope="hostname", least=1)
WEB, DB = {"role": "web"}, {"role": "db"}


def a_scenario(nodes: int = 2) -> Scenario:
    scenario = Scenario(a_configuration(a_queue("a")), nodes)
    scenario.send(ApplicationAdded(an_application()))
    return scenario


def test_a_constraint_limits_allocations_per_node() -> None:
    scenario = a_scenario()
    effects = scenario.ask(*(an_ask(f"w{i}", tags=WEB, placement=ALONE) for i in range(3)))
    assert placed(effects) == {"w0": "n0", "w1": "n1"}
    state, reason = waits(effects)["w2"]
    assert state == "FAILED"
    assert reason == ("0/2 nodes are available: 2 node(s) had as many allocations as the placement constraint allows.")
    assert placed(scenario.release("w1")) == {"w2": "n1"}


def test_allocations_older_than_the_first_constraint_count() -> None:
    scenario = a_scenario(1)
    scenario.ask(an_ask("old", tags=WEB))
    scenario.send(NodeAdded(a_node("n1"), existing=(replace(an_allocation("found", "n1"), tags=WEB),)))
    assert placed(scenario.ask(an_ask("w", tags=WEB, placement=ALONE))) == {}
    assert placed(scenario.add_node("n2")) == {"w": "n2"}


def test_an_ask_with_affinity_waits_for_the_other_pod() -> None:
    scenario = a_scenario()
    effects = scenario.ask(an_ask("w", placement=NEAR_DB))
    assert "had too few allocations" in waits(effects)["w"][1]
    # Of another application, and placed in the same pass: the waiting one is tried again immediately.
    scenario.send(ApplicationAdded(an_application("other")))
    effects = scenario.ask(an_ask("d", app="other", tags=DB))
    assert placed(effects)["w"] == placed(effects)["d"]


def test_an_ask_with_affinity_matches_later_asks_of_its_application() -> None:
    scenario = a_scenario()
    effects = scenario.ask(an_ask("w", priority=10, placement=NEAR_DB), an_ask("d", tags=DB))
    assert placed(effects)["w"] == placed(effects)["d"]


def test_the_last_member_of_an_anti_affinity_gang_waits_for_a_separate_node() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), 2)
    gang = ApplicationAdded(an_application(gang=3))
    asks = (an_ask(f"p{i}", group="workers", placeholder=True, tags=WEB, placement=ALONE) for i in range(3))
    effects = scenario.send(gang, *(AskAdded(ask) for ask in asks))
    assert len(placed(effects)) == 2  # the only gang may reserve some of its members
    assert placed(scenario.add_node("n9")) == {"p2": "n9"}


def test_a_member_replaces_a_placeholder_with_the_same_constraint() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), 2)
    holders = [an_ask(f"p{i}", group="workers", placeholder=True, tags=WEB, placement=ALONE) for i in range(2)]
    scenario.send(ApplicationAdded(an_application(gang=2)), *(AskAdded(ask) for ask in holders))
    effects = scenario.ask(*(an_ask(f"r{i}", group="workers", tags=WEB, placement=ALONE) for i in range(2)))
    assert releases(effects) == {"p0": Termination.PLACEHOLDER_REPLACED, "p1": Termination.PLACEHOLDER_REPLACED}
    assert placed(scenario.release("p0", why=Termination.PLACEHOLDER_REPLACED)) == {"r0": "n0"}
    assert placed(scenario.release("p1", why=Termination.PLACEHOLDER_REPLACED)) == {"r1": "n1"}


def test_a_member_excluded_from_its_placeholder_node_runs_on_another_node() -> None:
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")), 2)
    scenario.send(ApplicationAdded(an_application("other", queue="root.b")))
    scenario.send(ApplicationAdded(an_application(gang=1)), AskAdded(an_ask("p", group="workers", placeholder=True)))
    here = scenario.app().allocations
    [holder] = here.values()
    scenario.ask(
        an_ask("db", app="other", tags=DB, placement=PlacementConstraint((Target("hostname", values=("n0",)),)))
    )
    assert holder.node == "n0"
    apart = an_affinity("role", "db", scope="hostname", most=0)
    effects = scenario.ask(an_ask("r", group="workers", placement=apart))
    assert releases(effects) == {"p": Termination.PLACEHOLDER_REPLACED}
    assert placed(scenario.release("p", why=Termination.PLACEHOLDER_REPLACED)) == {"r": "n1"}


def test_members_of_one_plan_never_violate_each_others_constraints() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), 2)
    holders = [an_ask(f"p{i}", group="workers", placeholder=True, vcore=500) for i in range(2)]
    pin = PlacementConstraint((Target("hostname", values=("n0",)),))
    scenario.send(
        ApplicationAdded(an_application(gang=2, each=holders[0].resources)),
        *(AskAdded(replace(ask, placement=pin)) for ask in holders),
    )
    effects = scenario.ask(*(an_ask(f"r{i}", group="workers", vcore=500, tags=WEB, placement=ALONE) for i in range(2)))
    assert set(releases(effects)) == {"p0", "p1"}
    assert scenario.partition.targets.keys() == {NodeId("n1")}


def test_a_cancelled_replacement_is_not_counted() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), 1)
    holder = an_ask("p", group="workers", placeholder=True, tags=WEB, placement=ALONE)
    scenario.send(ApplicationAdded(an_application(gang=1)), AskAdded(holder))
    scenario.ask(an_ask("r", group="workers", tags=WEB, placement=ALONE))
    scenario.release_ask("r")
    assert placed(scenario.ask(an_ask("late", tags=WEB, placement=ALONE))) == {}
    assert placed(scenario.release("p", why=Termination.PLACEHOLDER_REPLACED)) == {"late": "n0"}


def test_constraints_may_read_any_number_of_different_tags() -> None:
    scenario = a_scenario(1)
    read = [an_ask(f"w{i}", placement=an_affinity(f"key{i}", "x", most=1)) for i in range(1100)]
    assert refused_asks(scenario.ask(*read)) == {}


def test_the_first_constraint_splits_the_classes_of_waiting_asks() -> None:
    scenario = a_scenario(0)
    scenario.ask(an_ask("before", tags=WEB, priority=5), an_ask("other", priority=5))
    assert len(scenario.app().waiting) == 1
    scenario.ask(an_ask("after", tags=WEB, placement=ALONE))
    assert len(scenario.app().waiting) == 3
    # All in one plan: the waiting member counts on its new node.
    assert placed(scenario.add_node("n1")) == {"before": "n1", "other": "n1"}
    assert placed(scenario.add_node("n2")) == {"after": "n2"}
