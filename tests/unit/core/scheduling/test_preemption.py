"""Preemption by guaranteed resources: YuniKorn's seven preemption laws and its documented examples."""

from dataclasses import replace

import pytest

from muster_core.model.config import QueuePolicies
from muster_core.model.constraints import (
    DELETION_TIME,
    GRACE_PERIOD,
    TERMINATING,
    TERMINATING_PREEMPTED,
    InterPodConstraints,
)
from muster_core.model.events import ApplicationAdded, AskAdded, Event, NodeAdded, TimerKind
from muster_core.model.ids import AllocationId, AllocationKey, NodeId
from muster_core.model.limits import PREEMPTION_SEARCHES_IN_VAIN
from muster_core.model.specs import NO_PROPERTIES, AskSpec, HostPort, PodProperties
from muster_core.preemption.planning import NO_HELP
from tests.unit.builders import SECOND, a_configuration, a_limit, a_queue, an_allocation, an_application, an_ask
from tests.unit.core.placement.affinity_clusters import HOST, term
from tests.unit.core.scheduling.preemption_scenario import (
    DISABLED,
    FENCE,
    PREEMPTED,
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
from tests.unit.core.scheduling.test_topology_spread import in_zone, tags


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


# -- A victim has its grace period and two minutes to terminate before another one is selected for the same request.

HOUR = 3600


def preempting(grace: str) -> tuple[Scenario, str]:
    """A pod of root.a preempts one of two pods of root.b, each on a node of its own. Returns the victim."""
    scenario = Scenario(a_configuration(a_queue("a", guaranteed=1000), a_queue("b")), nodes=2, vcore=1000)
    run(scenario, "root.b", *(replace(pod, tags={GRACE_PERIOD: grace}) for pod in pods("b", 2)))
    run(scenario, "root.a", an_ask("x"))
    [victim] = victims(scenario.wait(31))
    return scenario, victim


def deleted(scenario: Scenario, victim: str, grace: str, in_s: int) -> None:
    """The resource manager reports the deletion of the victim."""
    [old] = [one for one in scenario.app("b").allocations.values() if one.spec.key == victim]
    gone_s = scenario.now_ns // SECOND + in_s
    tags = {GRACE_PERIOD: grace, TERMINATING: TERMINATING_PREEMPTED, DELETION_TIME: str(gone_s)}
    report = replace(an_allocation(victim, old.node, app="b"), id=AllocationId(old.id), tags=tags)
    scenario.report(report)


@pytest.mark.parametrize(
    "grace, seconds",
    [("0", 0), ("", 30), ("30", 30), ("600", 600), ("3600", HOUR), ("86400", HOUR), (str(2**63), HOUR), ("-1", 30)],
)
def test_no_second_victim_is_selected_before_the_grace_period_and_two_minutes(grace: str, seconds: int) -> None:
    """A grace period counts with at most one hour, so that a user cannot stop preemption with one pod."""
    scenario, victim = preempting(grace)
    assert victims(scenario.wait(seconds + 115)) == set()
    assert len(victims(scenario.wait(60)) - {victim}) == 1


def test_a_pod_that_terminates_at_the_end_of_its_grace_period_is_the_only_victim() -> None:
    scenario, victim = preempting("1800")
    assert victims(scenario.wait(1800)) == set()
    assert placed(scenario.release(victim, app="b", why=PREEMPTED)).keys() == {"x"}


def test_the_node_stays_reserved_until_the_longest_grace_period_is_over() -> None:
    scenario, victim = preempting(str(10 * HOUR))
    scenario.wait(HOUR + 60)
    assert [one.key for one in scenario.partition.reservations.by_ask.values()] == ["x"]
    assert placed(scenario.release(victim, app="b", why=PREEMPTED)).keys() == {"x"}


def test_the_deletion_time_of_the_pod_replaces_its_grace_period() -> None:
    scenario, victim = preempting("30")
    deleted(scenario, victim, "30", 900)
    assert victims(scenario.wait(900 + 115)) == set()
    assert len(victims(scenario.wait(60)) - {victim}) == 1


def test_a_deletion_time_beyond_an_hour_counts_as_an_hour() -> None:
    scenario, victim = preempting("30")
    deleted(scenario, victim, "30", 2**40)
    assert victims(scenario.wait(HOUR + 115)) == set()
    assert len(victims(scenario.wait(60)) - {victim}) == 1


# -- Preemption if inter-pod filters reject a node: the conflicting pods are victims, if that makes the node
# feasible.

APART = PodProperties(InterPodConstraints(anti_affinity=(term("db", topology=HOST),)))
UNWANTING = PodProperties(InterPodConstraints(anti_affinity=(term("web", topology=HOST),)))
NEAR = PodProperties(InterPodConstraints(affinity=(term("db", topology=HOST),)))
PORT = PodProperties(ports=(HostPort("10.0.0.1", "TCP", 80),))


def web(key: str, facts: PodProperties = NO_PROPERTIES, **more: int) -> AskSpec:
    return replace(an_ask(key, tags=tags("web"), **more), facts=facts)  # type: ignore[arg-type]  # numbers only


def other(key: str, app: str, facts: PodProperties = NO_PROPERTIES, **more: int) -> AskSpec:
    return replace(web(key, facts, **more), tags=tags(app))


def contest(*there: AskSpec) -> Scenario:
    """One node of 4 cores with these pods of a queue without a guarantee, next to a queue with one."""
    queues = a_queue("p", a_queue("a", guaranteed=4000), a_queue("b"))
    scenario = Scenario(a_configuration(queues), NodeAdded(in_zone("n0", "a")))
    # The first look at tags, so that all are counted.
    assert len(placed(run(scenario, "root.p.b", *there))) == len(there)
    return scenario


def after(scenario: Scenario, ask: AskSpec) -> tuple[set[str], dict[str, str]]:
    """The victims for the request of the other queue, and its node after they are released."""
    assert placed(run(scenario, "root.p.a", ask)) == {}
    effects = scenario.wait(60)
    return victims(effects), placed(confirm(scenario, effects))


@pytest.mark.parametrize(
    "there, ask",
    [
        (other("b1", "db"), web("x", APART)),
        (other("b1", "db", UNWANTING), web("x")),
        (other("b1", "cache", PORT), web("x", PORT)),
    ],
    ids=["own anti-affinity", "anti-affinity of the one that is there", "a host port"],
)
def test_only_the_conflicting_pod_is_preempted_when_resources_are_free(there: AskSpec, ask: AskSpec) -> None:
    scenario = contest(other("b0", "cache"), there, other("b2", "cache"))
    assert after(scenario, ask) == ({"b1"}, {"x": "n0"})


def test_victims_that_free_resources_are_preempted_with_the_conflicting_pod() -> None:
    scenario = contest(other("b0", "db"), other("b1", "cache"), other("b2", "cache"), other("b3", "cache"))
    gone, place = after(scenario, web("x", APART, vcore=2000))
    assert "b0" in gone
    assert (len(gone), place) == (2, {"x": "n0"})


def test_no_pod_is_preempted_because_of_pod_affinity() -> None:
    scenario = contest(*pods("b", 4))
    assert after(scenario, web("x", NEAR)) == (set(), {})


def test_the_pod_required_by_affinity_stays_and_another_pod_is_preempted() -> None:
    # Of the same size and priority the younger would go first.
    scenario = contest(other("b0", "cache"), other("b1", "cache"), other("b2", "cache"), other("b3", "db"))
    gone, place = after(scenario, web("x", NEAR))
    assert (len(gone), place) == (1, {"x": "n0"})
    assert "b3" not in gone


def test_a_conflicting_pod_of_higher_priority_is_not_preempted() -> None:
    scenario = contest(other("b0", "db", priority=10))
    assert after(scenario, web("x", APART)) == (set(), {})


def test_daemon_set_pods_preempt_conflicting_pods_on_their_node() -> None:
    scenario = contest(other("b0", "cache"), other("b1", "cache", PORT))
    ask = replace(web("x", PORT), required_node=NodeId("n0"))
    assert after(scenario, ask) == ({"b1"}, {"x": "n0"})


def test_two_pods_with_mutual_anti_affinity_do_not_share_freed_resources() -> None:
    scenario = contest(*(other(f"b{index}", "cache") for index in range(4)))
    lonely = PodProperties(InterPodConstraints(anti_affinity=(term("web", topology=HOST),)))
    run(scenario, "root.p.a", web("x", lonely), web("y", lonely))
    effects = scenario.wait(120)
    assert len(victims(effects)) == 1
    assert placed(confirm(scenario, effects)) == {"x": "n0"}
    assert AllocationKey("y") in scenario.app("a").asks


# -- Unsuccessful preemption is cached until something changes, and costs no work meanwhile.

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
    scenario.reload(with_preemption(a, a_queue("b"), a_queue("c")))
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


@pytest.mark.parametrize("size", [500, 1000], ids=["of another class", "of the same class"])
def test_a_request_that_comes_during_a_search_preempts_after_its_delay(size: int) -> None:
    """A search continues after two attempts. It does not evaluate what came after its start."""
    shared = a_queue("shared", a_queue("a", guaranteed=4000), a_queue("b"), vcore=4000)
    scenario = Scenario(with_preemption(shared), nodes=2)
    run(scenario, "root.shared.b", *pods("b", 4))
    run(scenario, "root.shared.a", *pods("a", 2))
    effects = scenario.wait(30)
    assert len(victims(effects)) == 2
    assert scenario.app("a").queue.preemption.left
    confirm(scenario, effects)
    scenario.submit(an_application("late", queue="root.shared.a"), an_ask("late", vcore=size))
    assert victims(scenario.wait(29)) == set()
    assert len(victims(scenario.wait(16))) == 1


def test_a_users_limit_does_not_block_the_same_pod_of_another_user() -> None:
    limits = (a_limit(users=("kim",), vcore=1000),)
    queues = (a_queue("a", guaranteed=3000, limits=limits), a_queue("b"))
    scenario = Scenario(with_preemption(*queues), nodes=1)
    run(scenario, "root.b", *pods("b", 4))
    for user in ("kim", "lee"):
        scenario.send(
            ApplicationAdded(an_application(user, queue="root.a", user=user)), AskAdded(an_ask(user, app=user))
        )
    scenario.submit(an_application("found", queue="root.a", user="kim"))
    scenario.add_node("n1", an_allocation("found", "n1", app="found"), vcore=1000)
    assert len(victims(scenario.wait(60))) == 1
    assert [ask.triggered for app in ("kim", "lee") for ask in scenario.app(app).asks.values()] == [False, True]
