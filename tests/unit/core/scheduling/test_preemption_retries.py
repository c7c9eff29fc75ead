"""Unsuccessful preemption is cached until something changes, and costs no work meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster_core.model.events import ApplicationAdded, AskAdded, ConfigurationReplaced, Event, TimerKind
from muster_core.model.limits import PREEMPTION_SEARCHES_IN_VAIN
from muster_core.preemption.planning import NO_HELP
from tests.unit.builders import RM, a_limit, a_queue, an_allocation, an_application, an_ask
from tests.unit.core.scheduling.preemption_scenario import pods, run, run_until_idle, victims, with_preemption
from tests.unit.core.scheduling.scenario import Scenario

INTERVAL_S = 15


def crowded(waiting: int, *, priority: int = 9, sizes: int = 1, guaranteed: int = 3000) -> Scenario:
    """Leaf b fills the node with pods of this priority; as many applications of different sizes wait in leaf a."""
    scenario = Scenario(with_preemption(a_queue("a", guaranteed=guaranteed), a_queue("b"), a_queue("c")), nodes=1)
    run(scenario, "root.b", *(replace(pod, priority=priority) for pod in pods("b", 4)))
    events: list[Event] = []
    for index in range(waiting):
        events.append(ApplicationAdded(an_application(f"w{index}", queue="root.a")))
        events.append(AskAdded(an_ask(f"w{index}", app=f"w{index}", vcore=1000 + index % sizes)))
    scenario.send(*events)
    return scenario


def searches(scenario: Scenario) -> int:
    """How often victims were searched for."""
    asks = (ask for app in scenario.partition.applications.values() for ask in app.asks.values())
    return sum(times for ask in asks for times, _ in (ask.attempts or {}).values())


def change(scenario: Scenario, name: str) -> None:
    """An unrelated pod starts elsewhere."""
    run(scenario, "root.c", an_ask(name, vcore=0, priority=9))


def is_timed(scenario: Scenario) -> bool:
    return any(one.timer.kind is TimerKind.PREEMPTION for _, _, one in scenario.timers)


def test_equal_asks_cause_one_preemption_search_while_nothing_changes() -> None:
    scenario = crowded(300)
    scenario.wait(3600)
    assert searches(scenario) == 1
    assert not is_timed(scenario), "no clock runs while nothing changes"


def test_equal_asks_cause_one_search_per_interval_after_changes() -> None:
    scenario = crowded(30)
    for step in range(90):
        scenario.wait(3)
        change(scenario, f"c{step}")
    assert 4 <= searches(scenario) <= 7, "after 30 s, 15 s, 30 s, and then each minute"


def test_a_victim_is_found_when_it_starts() -> None:
    scenario = crowded(1, guaranteed=4000)
    scenario.wait(300)
    assert searches(scenario) == 1
    scenario.add_node("n1", vcore=500)
    run(scenario, "root.c", an_ask("small", vcore=500))
    assert victims(scenario.wait(60)) == set(), "it frees too little"
    run(scenario, "root.a", an_ask("half", vcore=500))
    assert victims(scenario.wait(60)) == {"small"}


@pytest.mark.parametrize("what", ["guarantee", "priority"])
def test_a_configuration_that_permits_preemption_takes_effect(what: str) -> None:
    scenario = crowded(1, priority=0 if what == "guarantee" else 9, guaranteed=500)
    scenario.wait(300)
    assert victims(scenario.wait(60)) == set()
    a = a_queue("a", guaranteed=3000)
    if what == "priority":
        a = replace(a, policies=replace(a.policies, priority_offset=100))
    scenario.send(ConfigurationReplaced(RM, with_preemption(a, a_queue("b"), a_queue("c"))))
    assert len(victims(scenario.wait(60))) == 1


def test_an_ask_of_another_class_has_a_separate_search() -> None:
    scenario = crowded(10)
    scenario.wait(300)
    run(scenario, "root.a", an_ask("important", priority=9))
    assert len(victims(scenario.wait(60))) == 1


def test_searches_for_many_classes_are_bounded_per_interval() -> None:
    count = PREEMPTION_SEARCHES_IN_VAIN + 50
    scenario = crowded(count, sizes=count)
    scenario.wait(31)
    assert searches(scenario) == PREEMPTION_SEARCHES_IN_VAIN
    scenario.wait(3 * INTERVAL_S)
    tried = [ask for app in scenario.partition.applications.values() for ask in app.asks.values() if ask.attempts]
    assert len(tried) == count, "all of them had their turn"
    assert searches(scenario) == count
    assert {words for ask in tried for words in ask.attempts or {}} == {NO_HELP}


def test_all_entitled_asks_preempt_one_after_another() -> None:
    scenario = crowded(10, priority=0)
    assert sorted(run_until_idle(scenario)) == ["b1", "b2", "b3"]


def test_a_users_limit_does_not_block_the_same_pod_of_another_user() -> None:
    limits = (a_limit(users=("kim",), vcore=1000),)
    queues = (a_queue("a", guaranteed=3000, limits=limits), a_queue("b"))
    scenario = Scenario(with_preemption(*queues), nodes=1)
    run(scenario, "root.b", *pods("b", 4))
    for user in ("kim", "lee"):
        scenario.send(
            ApplicationAdded(an_application(user, queue="root.a", user=user)), AskAdded(an_ask(user, app=user))
        )
    scenario.send(ApplicationAdded(an_application("found", queue="root.a", user="kim")))
    scenario.add_node("n1", an_allocation("found", "n1", app="found"), vcore=1000)
    assert len(victims(scenario.wait(60))) == 1
    assert [ask.triggered for app in ("kim", "lee") for ask in scenario.app(app).asks.values()] == [False, True]
