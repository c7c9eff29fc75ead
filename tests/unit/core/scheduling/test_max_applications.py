"""`maxapplications` of queues, users and groups; further applications wait in Accepted."""

from __future__ import annotations

from muster_core.model.effects import Effect
from muster_core.model.events import ApplicationAdded, ApplicationRemoved, ConfigurationReplaced
from muster_core.model.ids import ApplicationId, QueuePath
from muster_core.model.records import Detail
from tests.unit.builders import (
    PARTITION,
    RM,
    a_configuration,
    a_limit,
    a_queue,
    an_allocation,
    an_application,
    an_ask,
)
from tests.unit.core.scheduling.scenario import Scenario, placed, states, waits

_MAY_RUN = (
    Detail.APP_CANNOTRUN_QUEUE,
    Detail.APP_RUNNABLE_QUEUE,
    Detail.APP_CANNOTRUN_QUOTA,
    Detail.APP_RUNNABLE_QUOTA,
)


def start(scenario: Scenario, name: str, *, queue: str = "root.a", user: str = "kim", asks: int = 1) -> list[Effect]:
    """Submit an application with asks."""
    effects = scenario.send(ApplicationAdded(an_application(name, queue=queue, user=user, groups=("dev",))))
    return effects + scenario.ask(*(an_ask(f"{name}{index}", app=name) for index in range(asks)))


def running(scenario: Scenario, *paths: str) -> list[int]:
    return [scenario.partition.queues.by_path[QueuePath(path)].running for path in paths]


def noted(scenario: Scenario) -> list[tuple[str, str]]:
    """Records of running applications since the last call: (application, detail)."""
    found = [(e.subject, str(e.detail)) for e in scenario.records if e.detail in _MAY_RUN]
    scenario.records.clear()
    return found


def test_an_application_over_max_applications_waits_in_accepted_with_a_reason() -> None:
    scenario = Scenario(a_configuration(a_queue("a", max_applications=1)), nodes=4)
    start(scenario, "x")
    effects = start(scenario, "y", asks=2)
    assert states(effects, "y") == ["Accepted"]
    reason = "queue root.a is running 1 of at most 1 application"
    assert waits(effects) == {"y0": ("SKIPPED", reason), "y1": ("SKIPPED", reason)}
    assert noted(scenario) == [("y", "APP_CANNOTRUN_QUEUE")]


def test_a_change_of_runnable_state_is_recorded_once() -> None:
    scenario = Scenario(a_configuration(a_queue("a", max_applications=1)), nodes=4)
    start(scenario, "x")
    start(scenario, "y")
    scenario.ask(an_ask("more", app="y"))
    scenario.release("x0", "x")
    assert noted(scenario) == [("y", "APP_CANNOTRUN_QUEUE"), ("y", "APP_RUNNABLE_QUEUE")]


def test_a_completing_application_lets_the_next_one_start() -> None:
    scenario = Scenario(a_configuration(a_queue("a", max_applications=2)), nodes=4)
    for name in ("x", "y", "z", "w"):
        start(scenario, name)
    effects = scenario.release("y0", "y")
    assert (states(effects, "y"), states(effects, "z"), states(effects, "w")) == (["Completing"], ["Running"], [])
    assert running(scenario, "root.a", "root") == [2, 2]


def test_a_running_application_may_grow_at_max_applications() -> None:
    scenario = Scenario(a_configuration(a_queue("a", max_applications=1)), nodes=4)
    start(scenario, "x")
    start(scenario, "y")
    assert placed(scenario.ask(an_ask("more", app="x"))).keys() == {"more"}


def test_every_queue_of_the_path_counts() -> None:
    tree = a_queue("p", a_queue("a", max_applications=2), a_queue("b", max_applications=2), max_applications=3)
    scenario = Scenario(a_configuration(tree), nodes=8)
    for name, leaf in (("a0", "a"), ("a1", "a"), ("a2", "a"), ("b0", "b"), ("b1", "b")):
        start(scenario, name, queue=f"root.p.{leaf}")
    assert running(scenario, "root.p.a", "root.p.b", "root.p", "root") == [2, 1, 3, 3]
    effects = scenario.release("b00", "b0")
    assert [name for name in ("a2", "b1") if states(effects, name) == ["Running"]] == ["b1"]


def test_a_gang_counts_from_when_it_starts_to_reserve() -> None:
    scenario = Scenario(a_configuration(a_queue("a", max_applications=1)), nodes=1, vcore=500)
    scenario.gang(ApplicationAdded(an_application("gang", gang=2)), 2)
    assert running(scenario, "root.a") == [1]
    effects = start(scenario, "y")
    assert waits(effects)["y0"][1].startswith("queue root.a is running 1")
    scenario.send(ApplicationRemoved(PARTITION, ApplicationId("gang")))
    assert placed(scenario.add_node("n1", vcore=1000)).keys() == {"y0"}


def test_a_gang_that_may_not_start_reserves_no_quota() -> None:
    scenario = Scenario(a_configuration(a_queue("a", max_applications=1)), nodes=4)
    start(scenario, "x")
    effects = scenario.gang(ApplicationAdded(an_application("gang", gang=2)), 2)
    assert (placed(effects), bool(scenario.app("gang").gang.quota_reservation)) == ({}, False)
    assert states(scenario.release("x0", "x"), "gang") == ["Running"]


def test_a_user_and_a_group_have_their_own_counts() -> None:
    limits = (a_limit(users=("kim",), applications=1), a_limit(groups=("dev",), applications=2))
    scenario = Scenario(a_configuration(a_queue("a", limits=limits)), nodes=8)
    start(scenario, "k0", user="kim")
    second = start(scenario, "k1", user="kim")
    start(scenario, "l0", user="lee")
    third = start(scenario, "l1", user="lee")
    assert waits(second)["k10"][1] == "user kim in queue root.a is running 1 of at most 1 application"
    assert waits(third)["l10"][1] == "group dev in queue root.a is running 2 of at most 2 applications"
    assert noted(scenario) == [("k1", "APP_CANNOTRUN_QUOTA"), ("l1", "APP_CANNOTRUN_QUOTA")]
    effects = scenario.release("k00", "k0")
    assert states(effects, "k1") == ["Running"]
    assert noted(scenario) == [("k1", "APP_RUNNABLE_QUOTA")]


def test_a_reload_changes_max_applications_without_stopping_any() -> None:
    def sized(count: int) -> ConfigurationReplaced:
        return ConfigurationReplaced(RM, a_configuration(a_queue("a", max_applications=count)))

    scenario = Scenario(sized(1).configuration, nodes=8)
    for name in ("x", "y", "z"):
        start(scenario, name)
    assert states(scenario.send(sized(2)), "y") == ["Running"]
    scenario.send(sized(1))
    assert running(scenario, "root.a") == [2]
    assert states(scenario.release("x0", "x"), "z") == []
    assert states(scenario.release("y0", "y"), "z") == ["Running"]


def test_a_lowered_max_applications_limits_gangs_without_reservations() -> None:
    scenario = Scenario(a_configuration(a_queue("a", max_applications=3, vcore=90_000)))
    scenario.add_full_node(vcore=10_000)
    for name in ("x", "y", "z"):
        scenario.gang(ApplicationAdded(an_application(name, gang=2)), 2)
    assert running(scenario, "root.a") == [3]
    scenario.send(ConfigurationReplaced(RM, a_configuration(a_queue("a", max_applications=1))))
    effects = scenario.add_node("large", vcore=20_000) + scenario.wait(30)
    assert [name for name in ("x", "y", "z") if states(effects, name) == ["Running"]] == ["x"]
    assert states(scenario.send(ApplicationRemoved(PARTITION, ApplicationId("x"))) + scenario.wait(30), "y") == [
        "Running"
    ]


def test_applications_that_had_pods_are_counted_when_they_are_reported_again() -> None:
    scenario = Scenario(a_configuration(a_queue("a", max_applications=1)))
    for name in ("x", "y"):
        scenario.send(ApplicationAdded(an_application(name, forced=True)))
    scenario.add_node("n0", an_allocation("x0", "n0", app="x"), an_allocation("y0", "n0", app="y"))
    assert running(scenario, "root.a") == [2]
    assert states(start(scenario, "z"), "z") == ["Accepted"]
    scenario.release("x0", "x")
    assert states(scenario.release("y0", "y"), "z") == ["Running"]


def test_an_application_that_exceeds_its_run_time_lets_the_next_one_start() -> None:
    scenario = Scenario(a_configuration(a_queue("a", max_applications=1)), nodes=4)
    scenario.send(ApplicationAdded(an_application("x", timeout_s=60)))
    scenario.ask(an_ask("x0", app="x"))
    start(scenario, "y")
    assert states(scenario.wait(61), "x") == ["Failing"]
    assert states(scenario.release("x0", "x"), "x") == ["Failed"]
    assert scenario.app("y").state == "Running"
