"""An autoscaler sees only as many requests that wait for nodes as the quotas allow; the others wait for quota."""

from __future__ import annotations

import pytest

from muster_core.model.effects import Effect
from muster_core.model.events import ApplicationAdded, ApplicationRemoved
from muster_core.model.ids import ApplicationId
from muster_core.model.specs import GangPlacement
from tests.unit.builders import PARTITION, a_configuration, a_limit, a_queue, an_application, an_ask
from tests.unit.core.scheduling.direct import a_gang as a_direct_gang
from tests.unit.core.scheduling.scenario import Scenario, placed, waits

NEEDED = "the rest is needed by requests that wait for nodes"


def full(vcore: int = 2000) -> Scenario:
    """A queue of this size, and one node without free resources."""
    scenario = Scenario(a_configuration(a_queue("a", vcore=vcore)))
    scenario.add_full_node()
    return scenario


def by_state(effects: list[Effect]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for key, (state, _) in waits(effects).items():
        found.setdefault(state, set()).add(key)
    return found


def remove(scenario: Scenario, app: str) -> list[Effect]:
    return scenario.send(ApplicationRemoved(PARTITION, ApplicationId(app)))


def test_the_newest_pods_beyond_the_quota_wait_for_quota() -> None:
    scenario = full()
    scenario.send(ApplicationAdded(an_application("app")))
    effects = scenario.ask(*(an_ask(f"p{index}", app="app") for index in range(5)))
    assert by_state(effects) == {"FAILED": {"p0", "p1"}, "SKIPPED": {"p2", "p3", "p4"}}
    message = waits(effects)["p2"][1]
    assert message == f"Queue quota exceeded: root.a, requested cpu 1, available 0 of 2, {NEEDED}"


def test_a_pod_that_came_later_takes_the_place_of_one_that_was_cancelled() -> None:
    scenario = full()
    scenario.send(ApplicationAdded(an_application("app")))
    scenario.ask(*(an_ask(f"p{index}", app="app") for index in range(4)))
    assert by_state(scenario.release_ask("p0")) == {"FAILED": {"p2"}}
    assert by_state(scenario.release_ask("p3")) == {}
    assert by_state(scenario.ask(an_ask("p4", app="app"))) == {"SKIPPED": {"p4"}}
    assert by_state(scenario.release_ask("p1")) == {"FAILED": {"p4"}}


def test_pods_of_later_applications_wait_for_quota_until_an_earlier_one_leaves() -> None:
    scenario = full()
    for name in ("one", "two", "three"):
        scenario.send(ApplicationAdded(an_application(name)))
        scenario.ask(*(an_ask(f"{name}-{index}", app=name) for index in range(2)))
    assert by_state(remove(scenario, "one")) == {"FAILED": {"two-0", "two-1"}}


def test_pods_that_waited_for_quota_wait_for_it_when_the_first_ones_run() -> None:
    scenario = full()
    scenario.send(ApplicationAdded(an_application("app")))
    scenario.ask(*(an_ask(f"p{index}", app="app") for index in range(4)))
    effects = scenario.add_node("new")
    assert set(placed(effects)) == {"p0", "p1"}
    assert by_state(effects) == {"SCHEDULED": {"p0", "p1"}}
    assert set(placed(scenario.release("p0"))) == {"p2"}


def test_a_higher_maximum_lets_more_pods_wait_for_nodes() -> None:
    scenario = Scenario(a_configuration(a_queue("a", a_queue("b", vcore=3000), a_queue("c"), vcore=4000)))
    scenario.add_full_node()
    for leaf in ("b", "c"):
        scenario.send(ApplicationAdded(an_application(leaf, queue=f"root.a.{leaf}")))
        effects = scenario.ask(*(an_ask(f"{leaf}{index}", app=leaf) for index in range(4)))
        assert len(by_state(effects)["FAILED"]) == {"b": 3, "c": 1}[leaf]


def test_a_limit_of_a_user_counts_too() -> None:
    scenario = Scenario(a_configuration(a_queue("a", limits=(a_limit(users=("kim",), vcore=2000),))))
    scenario.add_full_node()
    for name in ("one", "two"):
        scenario.send(ApplicationAdded(an_application(name, user="kim")))
    scenario.send(ApplicationAdded(an_application("other", user="lee")))
    assert by_state(scenario.ask(*(an_ask(f"p{index}", app="one") for index in range(2)))) == {"FAILED": {"p0", "p1"}}
    assert by_state(scenario.ask(an_ask("q", app="two"))) == {"SKIPPED": {"q"}}
    assert by_state(scenario.ask(an_ask("r", app="other"))) == {"FAILED": {"r"}}


@pytest.mark.parametrize("placement", [GangPlacement.RESERVE, GangPlacement.ATOMIC])
def test_of_two_gangs_that_share_a_quota_only_the_first_waits_for_nodes(placement: GangPlacement) -> None:
    scenario = full(3000)
    one = scenario.gang(ApplicationAdded(an_application("one", gang=2, placement=placement)), 2)
    two = scenario.gang(ApplicationAdded(an_application("two", gang=2, placement=placement)), 2)
    assert by_state(one) == {"FAILED": {"one-p0", "one-p1"}}
    assert by_state(two) == {"SKIPPED": {"two-p0", "two-p1"}}
    assert by_state(remove(scenario, "one")) == {"FAILED": {"two-p0", "two-p1"}}


def test_of_two_direct_gangs_that_share_a_quota_only_the_first_waits_for_nodes() -> None:
    scenario = full(3000)
    assert by_state(scenario.send(a_direct_gang(2, "one"))) == {"FAILED": {"one/workers"}}
    assert by_state(scenario.send(a_direct_gang(2, "two"))) == {"SKIPPED": {"two/workers"}}
    assert by_state(remove(scenario, "one")) == {"FAILED": {"two/workers"}}
