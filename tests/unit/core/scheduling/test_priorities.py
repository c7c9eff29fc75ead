"""Priority orders requests, applications and queues, with offsets and fences."""

from dataclasses import replace

import pytest

from muster_core.model.config import ApplicationOrder, PriorityPolicy, QueueConfig, QueuePolicies
from muster_core.model.events import ApplicationAdded, AskAdded, NodeAdded
from muster_core.model.ids import QueuePath
from muster_core.scheduling.scheduler import cycle, step
from tests.unit.builders import a_configuration, a_node, a_queue, an_application, an_ask
from tests.unit.core.scheduling.scenario import Scenario, placed

_HIGHEST = 2**31 - 1


def offset(name: str, amount: int, *children: QueueConfig, fence: bool = False) -> QueueConfig:
    policy = PriorityPolicy.FENCE if fence else PriorityPolicy.DEFAULT
    return a_queue(name, *children, policies=QueuePolicies(priority=policy, priority_offset=amount))


def priority_of(scenario: Scenario, path: str) -> int | None:
    return scenario.partition.queues.by_path[QueuePath(path)].shown


def order(scenario: Scenario, places: int) -> list[str]:
    """The order of allocation, with one free slot at a time."""
    effects: list[str] = []
    for number in range(places):
        effects += placed(scenario.add_node(f"one{number}", vcore=1000))
    return effects


def wanting(scenario: Scenario, queue: str, name: str, *priorities: int) -> None:
    scenario.submit(
        an_application(name, queue=queue),
        *(an_ask(f"{name}{index}", priority=one) for index, one in enumerate(priorities)),
    )


def test_asks_of_an_application_go_by_priority_then_age() -> None:
    scenario = Scenario(a_configuration(a_queue("a")))
    wanting(scenario, "root.a", "x", 0, 5, 0, 5, -3)
    assert order(scenario, 5) == ["x1", "x3", "x0", "x2", "x4"]


def test_the_application_with_the_highest_pending_priority_is_scheduled_first() -> None:
    scenario = Scenario(a_configuration(a_queue("a")))
    wanting(scenario, "root.a", "early", 0, 0)
    wanting(scenario, "root.a", "late", 7, 0)
    assert order(scenario, 4) == ["late0", "early0", "early1", "late1"]


def test_without_priority_sorting_priority_only_breaks_ties_of_the_sort_policy() -> None:
    policies = QueuePolicies(sorts_by_priority=False)
    scenario = Scenario(a_configuration(a_queue("a", policies=policies)))
    for name, priority, created_s in (("late", 9, 3), ("low", 0, 2), ("high", 1, 2)):
        scenario.submit(an_application(name, created_s=created_s), an_ask(name, priority=priority))
    assert order(scenario, 3) == ["high", "low", "late"]


def test_a_queue_shows_its_highest_pending_priority_and_updates_it() -> None:
    scenario = Scenario(a_configuration(a_queue("p", a_queue("a"))))
    wanting(scenario, "root.p.a", "x", 3, 8)
    wanting(scenario, "root.p.a", "y", 5)
    seen = [priority_of(scenario, "root.p")]
    scenario.release_ask("x1", "x")
    seen.append(priority_of(scenario, "root.p"))
    scenario.add_node("n", vcore=1000)
    seen.append(priority_of(scenario, "root.p"))
    scenario.add_node("m", vcore=1000)
    seen.append(priority_of(scenario, "root.p"))
    assert seen == [8, 5, 3, None]


def test_offsets_add_up_along_the_path_within_32_bits() -> None:
    tree = offset("p", 100, offset("a", 20), offset("b", -5), offset("c", _HIGHEST))
    scenario = Scenario(a_configuration(tree, offset("low", -_HIGHEST)))
    for queue, name in (("root.p.a", "x"), ("root.p.b", "y"), ("root.p.c", "z"), ("root.low", "w")):
        wanting(scenario, queue, name, -10 if name == "w" else 10)
    leaves = {path: priority_of(scenario, path) for path in ("root.p.a", "root.p.b", "root.p.c", "root.p", "root.low")}
    assert leaves == {
        "root.p.a": 30,
        "root.p.b": 5,
        "root.p.c": _HIGHEST,
        "root.p": _HIGHEST,
        "root.low": -(2**31),
    }


def test_a_priority_fence_shows_only_its_offset() -> None:
    scenario = Scenario(a_configuration(offset("p", 4, offset("a", 50), fence=True), offset("q", 0, fence=True)))
    wanting(scenario, "root.p.a", "x", 1000)
    wanting(scenario, "root.q", "y", 1000)
    assert (
        priority_of(scenario, "root.p.a"),
        priority_of(scenario, "root.p"),
        priority_of(scenario, "root.q"),
    ) == (1050, 4, 0)


def test_tenants_behind_fences_share_equally_whatever_their_own_priorities_are() -> None:
    tenants = [offset(name, 0, a_queue("x"), fence=True) for name in ("a", "b")]
    scenario = Scenario(a_configuration(*tenants, a_queue("system")))
    wanting(scenario, "root.a.x", "loud", *([1000] * 4))
    wanting(scenario, "root.b.x", "meek", *([0] * 4))
    wanting(scenario, "root.system", "sys", 1)
    effects = order(scenario, 5)
    assert effects[0] == "sys0"
    assert sorted(effects[1:]) == ["loud0", "loud1", "meek0", "meek1"]


def test_the_documented_offsets_put_high_before_normal_before_low() -> None:
    scenario = Scenario(a_configuration(offset("high", 100), offset("normal", 0), offset("low", -100)))
    for queue in ("low", "normal", "high"):
        wanting(scenario, f"root.{queue}", queue, 0, 0)
    assert order(scenario, 6) == ["high0", "high1", "normal0", "normal1", "low0", "low1"]


def test_eleven_allocations_are_ordered_by_priority_then_share_then_demand() -> None:
    """Comments: the reported priorities of `batch` and `online` before the allocation."""
    tree = (
        offset("batch", 0, offset("etl", 10), offset("adhoc", 0)),
        offset("online", 5, offset("web", 0), offset("jobs", -20, fence=True)),
    )
    scenario = Scenario(a_configuration(*tree))
    wanting(scenario, "root.batch.etl", "etl", 2, 0, 0)
    wanting(scenario, "root.batch.adhoc", "adhoc", 11, 1, 1)
    wanting(scenario, "root.online.web", "web", 6, 6, 0)
    wanting(scenario, "root.online.jobs", "jobs", 99, 0)
    assert order(scenario, 11) == [
        "etl0",  # 12, 11
        "web0",  # 11, 11: online has less
        "adhoc0",  # 11, 11: as much, and batch waits for more
        "web1",  # 10, 11
        "etl1",  # 10, 5
        "etl2",  # 10, 5
        "web2",  # 1, 5
        "adhoc1",  # 1, -15
        "adhoc2",  # 1, -15
        "jobs0",  # none, -15
        "jobs1",
    ]


def test_a_parent_queue_may_sort_by_share_before_priority() -> None:
    parent = a_queue("p", a_queue("a"), a_queue("b"), policies=QueuePolicies(sorts_by_priority=False))
    scenario = Scenario(a_configuration(parent))
    wanting(scenario, "root.p.a", "x", 9, 9, 9)
    wanting(scenario, "root.p.b", "y", 0, 0, 0)
    assert order(scenario, 6) == ["x0", "y0", "x1", "y1", "x2", "y2"]


def test_a_reload_of_offsets_turns_the_order_round() -> None:
    scenario = Scenario(a_configuration(offset("a", 10), offset("b", 0)))
    wanting(scenario, "root.a", "x", 0, 0)
    wanting(scenario, "root.b", "y", 0, 0)
    assert order(scenario, 1) == ["x0"]
    scenario.reload(a_configuration(offset("a", -10), offset("b", 0)))
    assert placed(scenario.add_node("after", vcore=2000)).keys() == {"y0", "y1"}


@pytest.mark.parametrize("fair", [False, True])
def test_equal_applications_go_in_the_order_of_their_submission(*, fair: bool) -> None:
    scenario = Scenario(a_configuration(a_queue("a", fair=fair)))
    for name in ("c", "a", "b"):
        scenario.submit(replace(an_application(name), created_ns=1))
        scenario.ask(an_ask(name, app=name))
    assert order(scenario, 3) == ["c", "a", "b"]


def test_a_fair_leaf_shares_its_resources_equally_between_applications() -> None:
    scenario = Scenario(a_configuration(a_queue("a", policies=QueuePolicies(order=ApplicationOrder.FAIR))))
    for name in ("x", "y"):
        step(scenario.scheduler_state, ApplicationAdded(an_application(name)), scenario.now_ns)
        for index in range(6):
            step(scenario.scheduler_state, AskAdded(an_ask(f"{name}{index}", app=name)), scenario.now_ns)
    step(scenario.scheduler_state, NodeAdded(a_node("n", 6000)), scenario.now_ns)
    effects = placed(cycle(scenario.scheduler_state, scenario.now_ns, lambda: True).effects)
    assert sum(key.startswith("x") for key in effects) == 3
