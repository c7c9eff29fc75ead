"""Preemption by guaranteed resources: YuniKorn's seven preemption laws and its documented examples."""

from __future__ import annotations

import pytest

from muster_core.model.config import QueuePolicies
from tests.unit.builders import a_configuration, a_queue, an_ask
from tests.unit.core.scheduling.preemption_scenario import (
    DISABLED,
    FENCE,
    confirm,
    cores,
    never,
    offset,
    pods,
    run,
    run_until_idle,
    submit,
    victims,
    with_preemption,
)
from tests.unit.core.scheduling.scenario import Scenario, placed, waits


def two_queues(left: int = 10, right: int = 2) -> Scenario:
    """Two leaves with 5 guaranteed each, below a parent with 12."""
    both = a_queue("p", a_queue("a", guaranteed=5000), a_queue("b", guaranteed=5000), vcore=12_000)
    scenario = Scenario(a_configuration(both), nodes=1, vcore=100_000)
    run(scenario, "root.p.a", *pods("a", left))
    run(scenario, "root.p.b", *pods("b", right))
    return scenario


def test_two_queues_of_five_under_twelve_go_from_10_2_to_7_5() -> None:
    scenario = two_queues()
    assert cores(scenario, "root.p.a", "root.p.b") == [10, 2]
    run(scenario, "root.p.b", *pods("more", 3))
    run_until_idle(scenario)
    assert cores(scenario, "root.p.a", "root.p.b") == [7, 5]


def test_a_queue_that_opted_out_is_not_preempted_8_8_0_becomes_5_8_3() -> None:
    leaves = (
        a_queue("a", guaranteed=5000),
        a_queue("b", guaranteed=5000, policies=DISABLED),
        a_queue("c", guaranteed=3000),
    )
    scenario = Scenario(a_configuration(a_queue("p", *leaves, vcore=16_000)), nodes=1, vcore=100_000)
    run(scenario, "root.p.a", *pods("a", 8))
    run(scenario, "root.p.b", *pods("b", 8))
    run(scenario, "root.p.c", *pods("c", 3))
    run_until_idle(scenario)
    assert cores(scenario, "root.p.a", "root.p.b", "root.p.c") == [5, 8, 3]


def test_offsets_let_only_the_higher_queue_preempt_0_18_0_becomes_6_12_0() -> None:
    leaves = (
        a_queue("high", guaranteed=6000, policies=offset(100)),
        a_queue("usual", guaranteed=6000),
        a_queue("low", guaranteed=6000, policies=offset(-100)),
    )
    scenario = Scenario(a_configuration(a_queue("p", *leaves, vcore=18_000)), nodes=1, vcore=100_000)
    run(scenario, "root.p.usual", *pods("u", 18))
    run(scenario, "root.p.high", *pods("h", 9))
    run(scenario, "root.p.low", *pods("l", 9))
    run_until_idle(scenario)
    assert cores(scenario, "root.p.high", "root.p.usual", "root.p.low") == [6, 12, 0]


def test_an_unfenced_queue_preempts_fenced_tenants_but_not_vice_versa() -> None:
    tenants = (
        a_queue("one", a_queue("x", guaranteed=10_000), guaranteed=10_000, policies=FENCE),
        a_queue("two", a_queue("y", guaranteed=10_000), guaranteed=10_000, policies=FENCE),
    )
    tree = a_queue("p", *tenants, a_queue("system", guaranteed=10_000), vcore=30_000)
    scenario = Scenario(a_configuration(tree), nodes=1, vcore=100_000)
    run(scenario, "root.p.one.x", *pods("x", 15))
    run(scenario, "root.p.two.y", *pods("y", 15))
    run(scenario, "root.p.system", *pods("s", 12))
    run_until_idle(scenario)
    assert cores(scenario, "root.p.one.x", "root.p.two.y", "root.p.system") == [10, 10, 10]


def test_law_1_an_ask_waits_if_no_victims_free_enough_resources() -> None:
    scenario = two_queues(5, 4)
    run(scenario, "root.p.b", an_ask("large", vcore=4000))
    assert run_until_idle(scenario) == []


def test_law_2_no_queue_or_ancestor_falls_below_its_guarantee() -> None:
    left = a_queue("left", a_queue("a"), a_queue("b"), guaranteed=8000)
    tree = a_queue("p", left, a_queue("c", guaranteed=6000), vcore=10_000)
    scenario = Scenario(a_configuration(tree), nodes=1, vcore=100_000)
    run(scenario, "root.p.left.a", *pods("a", 5))
    run(scenario, "root.p.left.b", *pods("b", 5))
    run(scenario, "root.p.c", *pods("c", 6))
    run_until_idle(scenario)
    assert sum(cores(scenario, "root.p.left.a", "root.p.left.b")) == 8
    assert cores(scenario, "root.p.c") == [2]


def test_law_3_an_application_never_preempts_in_its_own_queue() -> None:
    scenario = Scenario(a_configuration(a_queue("a", guaranteed=9000), a_queue("b")), nodes=1, vcore=4000)
    run(scenario, "root.a", *pods("a", 4))
    run(scenario, "root.a", *pods("high", 2, priority=10))
    submit(scenario, "other", "root.a")
    scenario.ask(an_ask("o", app="other", priority=10))
    assert run_until_idle(scenario) == []


def test_law_4_only_a_queue_below_its_guarantee_may_preempt() -> None:
    scenario = two_queues(7, 5)
    run(scenario, "root.p.b", an_ask("sixth"))
    assert run_until_idle(scenario) == []
    ask = scenario.app("b").asks[an_ask("sixth").key]
    assert ask.attempts is None, "it is not even tried"


def test_a_leaf_without_a_guarantee_takes_what_the_guarantee_of_its_parent_has_left() -> None:
    tenant = a_queue("tenant", a_queue("a"), a_queue("c"), guaranteed=3000)
    scenario = Scenario(a_configuration(tenant, a_queue("b")), nodes=1, vcore=6000)
    run(scenario, "root.tenant.c", an_ask("c0"))
    run(scenario, "root.b", *pods("b", 5))
    run(scenario, "root.tenant.a", *pods("a", 2))
    assert len(run_until_idle(scenario)) == 2
    assert cores(scenario, "root.tenant.a", "root.tenant.c", "root.b") == [2, 1, 3]


def test_a_leaf_with_a_guarantee_of_its_own_does_not_take_what_that_of_its_parent_has_left() -> None:
    tenant = a_queue("tenant", a_queue("a", guaranteed=1000), guaranteed=3000)
    scenario = Scenario(a_configuration(tenant, a_queue("b")), nodes=1, vcore=6000)
    run(scenario, "root.b", *pods("b", 6))
    run(scenario, "root.tenant.a", *pods("a", 2))
    assert len(run_until_idle(scenario)) == 1


def test_law_5_only_a_queue_over_its_guarantee_has_victims() -> None:
    leaves = (a_queue("a", guaranteed=4000), a_queue("b", guaranteed=2000), a_queue("c", guaranteed=4000))
    scenario = Scenario(a_configuration(a_queue("p", *leaves, vcore=8000)), nodes=1, vcore=100_000)
    run(scenario, "root.p.a", *pods("a", 4))
    run(scenario, "root.p.b", *pods("b", 4))
    run(scenario, "root.p.c", *pods("c", 4))
    assert set(run_until_idle(scenario)) <= {"b0", "b1", "b2", "b3"}
    assert cores(scenario, "root.p.a", "root.p.b", "root.p.c") == [4, 2, 2]


@pytest.mark.parametrize("priority, gone", [(5, 0), (10, 3), (11, 3)])
def test_law_6_victims_have_at_most_the_priority_of_the_preemptor(priority: int, gone: int) -> None:
    scenario = two_queues(0, 2)
    run(scenario, "root.p.a", *pods("a", 10, priority=10))
    run(scenario, "root.p.b", *pods("more", 3, priority=priority))
    assert len(run_until_idle(scenario)) == gone


def test_law_7_nothing_outside_the_fence_is_preempted() -> None:
    fenced = a_queue("t", a_queue("a", guaranteed=4000), a_queue("b", guaranteed=1000), policies=FENCE)
    scenario = Scenario(a_configuration(fenced, a_queue("out")), nodes=1, vcore=10_000)
    run(scenario, "root.out", *pods("o", 8))
    run(scenario, "root.t.b", *pods("b", 2))
    run(scenario, "root.t.a", *pods("a", 4))
    assert run_until_idle(scenario) == ["b1"]
    assert cores(scenario, "root.out", "root.t.a", "root.t.b") == [8, 1, 1]


def test_a_fenced_leaf_preempts_nothing() -> None:
    lone = a_queue("a", guaranteed=4000, policies=FENCE)
    scenario = Scenario(a_configuration(lone, a_queue("b")), nodes=1, vcore=4000)
    run(scenario, "root.b", *pods("b", 4))
    run(scenario, "root.a", *pods("a", 1))
    assert run_until_idle(scenario) == []


def test_a_full_queue_is_a_fence_for_its_children() -> None:
    full = a_queue("t", a_queue("a", guaranteed=4000), a_queue("b"), vcore=4000)
    scenario = Scenario(a_configuration(full, a_queue("out")), nodes=1, vcore=8000)
    run(scenario, "root.out", *pods("o", 4))
    run(scenario, "root.t.b", *pods("b", 4))
    run(scenario, "root.t.a", *pods("a", 2))
    assert set(run_until_idle(scenario)) == {"b2", "b3"}


def test_a_priority_fence_uses_its_offset_as_the_priority() -> None:
    tree = a_queue("p", a_queue("a", guaranteed=2000), a_queue("b", policies=offset(5, fence=True)), vcore=4000)
    scenario = Scenario(a_configuration(tree), nodes=1, vcore=100_000)
    run(scenario, "root.p.b", *pods("b", 4, priority=1000))
    run(scenario, "root.p.a", an_ask("small", priority=4))
    assert run_until_idle(scenario) == []
    run(scenario, "root.p.a", an_ask("equal", priority=5))
    assert len(run_until_idle(scenario)) == 1


def test_an_ask_preempts_after_the_delay_of_its_queue() -> None:
    patient = QueuePolicies(preemption_delay_ns=100 * 1_000_000_000)
    scenario = Scenario(a_configuration(a_queue("a", guaranteed=2000, policies=patient), a_queue("b")), nodes=1)
    run(scenario, "root.b", *pods("b", 4))
    run(scenario, "root.a", *pods("a", 1))
    assert victims(scenario.wait(99)) == set()
    assert victims(scenario.wait(2)) == {"b3"}


def test_nothing_is_preempted_if_preemption_is_off_or_the_pod_opted_out() -> None:
    queues = (a_queue("a", guaranteed=2000), a_queue("b"))
    off = Scenario(with_preemption(*queues, by_guarantee=False), nodes=1)
    on = Scenario(with_preemption(*queues), nodes=1)
    for scenario, pod in ((off, an_ask("x")), (on, never(an_ask("x")))):
        run(scenario, "root.b", *pods("b", 4))
        run(scenario, "root.a", pod)
        assert run_until_idle(scenario) == []


def test_node_resources_of_victims_go_to_the_preemptor() -> None:
    scenario = Scenario(a_configuration(a_queue("a", guaranteed=2000), a_queue("b")), nodes=1)
    run(scenario, "root.b", *pods("b", 4))
    run(scenario, "root.a", an_ask("wide", vcore=2000))
    effects = scenario.wait(31)
    assert victims(effects) == {"b2", "b3"}
    assert waits(effects)["wide"][0] == "RESERVED"
    run(scenario, "root.b", *pods("again", 2))
    assert placed(scenario.release("b2", app="b")) == {}, "the first room is held"
    assert placed(scenario.release("b3", app="b")) == {"wide": "n0"}


def test_headroom_of_victims_goes_to_the_preemptor() -> None:
    scenario = two_queues()
    run(scenario, "root.p.b", an_ask("mine"))
    effects = scenario.wait(31)
    run(scenario, "root.p.a", an_ask("theirs"))
    assert placed(confirm(scenario, effects)) == {"mine": "n0"}


def test_an_ask_is_tried_once_while_its_victims_terminate() -> None:
    scenario = Scenario(a_configuration(a_queue("a", guaranteed=2000), a_queue("b")), nodes=1)
    run(scenario, "root.b", *pods("b", 4))
    run(scenario, "root.a", an_ask("x"))
    assert len(victims(scenario.wait(31))) == 1
    assert victims(scenario.wait(80)) == set()
    assert scenario.app("a").asks[an_ask("x").key].triggered
