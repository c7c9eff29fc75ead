"""No placement is missed and no victim is released in vain, compared with a second evaluation of the same state."""

from dataclasses import replace

from muster_core.model.config import Configuration, QueuePolicies, Timing
from muster_core.model.events import ApplicationAdded
from muster_core.model.ids import Termination
from muster_core.model.specs import NamespaceQuota
from tests.unit.builders import SECOND, a_configuration, a_limit, a_queue, an_allocation, an_application, an_ask
from tests.unit.core.scheduling.preemption_scenario import (
    FENCE,
    a_daemon,
    cores,
    never,
    pods,
    run,
    run_until_idle,
    submit,
    victims,
)
from tests.unit.core.scheduling.scenario import Scenario, placed, states, waits


def test_a_large_victim_is_kept_if_a_queue_above_the_fence_would_drop_below_its_guarantee() -> None:
    inner = a_queue("q", a_queue("small", guaranteed=2000), a_queue("large"), policies=FENCE)
    scenario = Scenario(a_configuration(a_queue("p", inner, guaranteed=10_000)), nodes=1, vcore=10_000)
    run(scenario, "root.p.q.large", *[an_ask(f"l{index}", vcore=5000) for index in range(2)])
    run(scenario, "root.p.q.small", an_ask("s"))
    assert run_until_idle(scenario) == []


def test_a_queue_preempts_when_another_queue_uses_the_resources_of_its_guarantee() -> None:
    leaves = (a_queue("a", guaranteed=3000), a_queue("b", guaranteed=100_000), a_queue("c"))
    scenario = Scenario(a_configuration(*leaves), nodes=1, vcore=6000)
    run(scenario, "root.a", *pods("a", 3))
    run(scenario, "root.b", *pods("b", 1))
    run(scenario, "root.c", *pods("c", 2))
    run(scenario, "root.a", an_ask("more"))
    run(scenario, "root.b", never(an_ask("first")))
    effects = scenario.release("a0", app="a")
    assert placed(effects) == {"first": "n0"}
    run_until_idle(scenario)
    assert cores(scenario, "root.a", "root.b", "root.c") == [3, 2, 1]


def test_a_node_is_reserved_again_for_the_first_ask_after_the_reservation_timeout() -> None:
    timing = Timing(reservation_delay_ns=2 * SECOND, reservation_timeout_ns=60 * SECOND)
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b"), timing=timing), nodes=1)
    run(scenario, "root.b", *pods("b", 4))
    run(scenario, "root.a", an_ask("one", vcore=2000), an_ask("two", vcore=2000))
    scenario.wait(5)
    assert [hold.key for hold in scenario.partition.reservations.by_ask.values()] == ["one"]
    effects = scenario.wait(60)
    assert waits(effects)["one"][0] == "RESERVED"
    assert [hold.key for hold in scenario.partition.reservations.by_ask.values()] == ["one"]


def test_a_gang_that_waits_for_its_user_limit_does_not_block_other_users() -> None:
    queue = a_queue("a", limits=(a_limit(users=("kim",), vcore=2000),))
    scenario = Scenario(a_configuration(queue), nodes=1)
    submit(scenario, "first", "root.a")
    scenario.ask(an_ask("f", app="first"))
    scenario.gang(an_application("gang", gang=2), 2)
    assert placed(scenario.submit(an_application("other", user="bob"), an_ask("o"))) == {"o": "n0"}


def test_no_pod_is_preempted_for_an_ask_above_its_user_limit() -> None:
    leaves = (
        a_queue("a", guaranteed=4000, limits=(a_limit(users=("kim",), vcore=1000),)),
        a_queue("b"),
    )
    scenario = Scenario(a_configuration(*leaves), nodes=1)
    run(scenario, "root.b", *pods("b", 4))
    run(scenario, "root.a", an_ask("one", vcore=1000))
    scenario.submit(an_application("late"))
    scenario.wait(20)
    scenario.add_node("n1", vcore=500)
    scenario.ask(an_ask("small", app="late", vcore=500))
    assert run_until_idle(scenario) == []


def test_no_pod_is_preempted_for_a_daemon_pod_of_a_full_queue() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=2000), a_queue("b")), nodes=1)
    run(scenario, "root.b", *pods("b", 4))
    run(scenario, "root.a", a_daemon("d", "n0", vcore=2000, priority=-1))
    scenario.add_node("n1", vcore=1000)
    submit(scenario, "late", "root.a")
    assert placed(scenario.ask(an_ask("other", app="late"))) == {"other": "n1"}
    submit(scenario, "low", "root.b")
    for index in range(2):
        scenario.ask(an_ask(f"prey{index}", app="low", priority=-2))
        scenario.release(f"b{index}", app="b")
    assert cores(scenario, "root.b") == [4]
    assert run_until_idle(scenario, 60) == []


def test_a_shorter_preemption_delay_applies_immediately() -> None:
    def queues(delay_s: int) -> Configuration:
        waiting = QueuePolicies(preemption_delay_ns=delay_s * SECOND)
        return a_configuration(a_queue("a", guaranteed=2000, policies=waiting), a_queue("b"))

    scenario = Scenario(queues(3600), nodes=1)
    run(scenario, "root.b", *pods("b", 4))
    run(scenario, "root.a", an_ask("one"))
    scenario.wait(60)
    scenario.reload(queues(30))
    assert len(victims(scenario.wait(1))) == 1


def test_asks_of_many_classes_do_not_let_one_queue_get_ahead_of_another() -> None:
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")), nodes=0)
    for name in "ab":
        submit(scenario, name, f"root.{name}")
    asks = [an_ask(f"{name}{index}", app=name, priority=0, vcore=100 + index) for index in range(40) for name in "ab"]
    scenario.ask(*asks)
    scenario.add_node("n0", vcore=2000)
    used = [leaf.allocated["vcore"] for leaf in scenario.partition.queues.leaves()]
    assert abs(used[0] - used[1]) <= 200


def test_a_queue_below_its_guarantee_preempts_without_its_own_scheduling_attempt() -> None:
    leaves = (a_queue("a", guaranteed=2000), a_queue("b", guaranteed=100_000), a_queue("c"))
    scenario = Scenario(a_configuration(*leaves), nodes=1, vcore=2000)
    run(scenario, "root.a", an_ask("a0"))
    run(scenario, "root.c", an_ask("c0"))
    scenario.add_node("n1", vcore=3000)
    run(scenario, "root.a", an_ask("a1"))
    run(scenario, "root.b", an_ask("b0"))
    run(scenario, "root.c", an_ask("c1"))
    run(scenario, "root.a", an_ask("more"))
    scenario.wait(10)
    assert [hold.node for hold in scenario.partition.reservations.by_ask.values()] == ["n0"]
    run(scenario, "root.b", never(an_ask("first")))
    assert placed(scenario.release("a1", app="a")) == {"first": "n1"}
    run_until_idle(scenario)
    assert cores(scenario, "root.a", "root.b", "root.c") == [2, 2, 1]


def test_a_gang_blocked_by_the_application_limit_runs_after_the_other_times_out() -> None:
    scenario = Scenario(a_configuration(a_queue("a", max_applications=1)), nodes=1)
    scenario.gang(an_application("one", gang=3, timeout_s=60), 2)
    scenario.gang(an_application("two", gang=3), 3)
    effects = scenario.wait(70)
    assert states(effects, "one")[:1] == ["Resuming"]
    for index in range(2):
        scenario.release(f"one-p{index}", app="one", why=Termination.TIMEOUT)
    assert scenario.app("two").state == "Running"


def test_a_reload_to_fair_sorting_keeps_the_reservation_of_a_gang() -> None:
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")), nodes=2)
    run(scenario, "root.b", *pods("b", 6))
    scenario.gang(an_application("gang", gang=4), 4)
    scenario.wait(10)
    effects = scenario.reload(a_configuration(a_queue("a", fair=True), a_queue("b")))
    assert states(effects, "gang") == []
    for key in ("b0", "b1"):
        scenario.release(key, app="b")
    assert scenario.app("gang").state == "Running"


def test_a_user_over_the_limit_after_a_restart_waits_until_the_usage_drops() -> None:
    limits = (a_limit(users=("kim",), vcore=2000, applications=1),)
    scenario = Scenario(a_configuration(a_queue("a", limits=limits)))
    scenario.send(ApplicationAdded(an_application("old", forced=True)), ApplicationAdded(an_application("new")))
    scenario.add_node("n0", an_allocation("x", "n0", app="old"), an_allocation("y", "n0", app="old"))
    assert placed(scenario.ask(an_ask("z", app="new"))) == {}
    scenario.release("x", app="old")
    effects = scenario.release("y", app="old")
    assert placed(effects) == {"z": "n0"}


def test_preempted_placeholders_of_a_running_gang_do_not_block_its_pods() -> None:
    scenario = Scenario(a_configuration(a_queue("a", guaranteed=4000), a_queue("b")), nodes=1)
    scenario.gang(an_application("gang", gang=4, queue="root.b"), 4)
    assert scenario.app("gang").state == "Running"
    run(scenario, "root.a", *pods("a", 2))
    run_until_idle(scenario, 60)
    assert cores(scenario, "root.a") == [2]
    scenario.ask(*(an_ask(f"m{index}", app="gang", group="workers") for index in range(4)))
    for key in ("gang-p0", "gang-p1", "gang-p2", "gang-p3"):
        scenario.release(key, app="gang", why=Termination.PLACEHOLDER_REPLACED)
    assert cores(scenario, "root.b") == [2]
    scenario.add_node("n1")
    assert cores(scenario, "root.b") == [4]


def test_a_raised_namespace_application_limit_starts_waiting_applications() -> None:
    scenario = Scenario(a_configuration(), nodes=1)
    few, many = NamespaceQuota(max_applications=1), NamespaceQuota(max_applications=2)
    scenario.submit(replace(an_application("one", queue=""), quota=few))
    scenario.ask(an_ask("x", app="one"))
    scenario.submit(replace(an_application("two", queue=""), quota=few))
    assert placed(scenario.ask(an_ask("y", app="two"))) == {}
    assert placed(scenario.submit(replace(an_application("three", queue=""), quota=many))) == {"y": "n0"}
