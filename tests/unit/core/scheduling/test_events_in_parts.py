"""An event about many pods is applied in parts, so that the process does other work in between. Calls are counted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from muster_core.model.effects import AllocationResponse, Effect
from muster_core.model.events import (
    AllocationReleased,
    ApplicationAdded,
    AskReleased,
    Event,
)
from muster_core.model.ids import Termination
from muster_core.model.limits import PODS_PER_PART
from muster_core.scheduling import invariants
from muster_core.scheduling.scheduler import cycle, step, step_part
from tests.unit.builders import PARTITION, SECOND, an_application
from tests.unit.core.function_calls import most_calls
from tests.unit.core.scheduling.many_pods import APP, FIRST_SELECTOR, PODS, REMOVED, large
from tests.unit.core.scheduling.scenario import Scenario, placed, released_asks, releases

STOPPED = Termination.STOPPED_BY_RM
HOST = "kubernetes.io/hostname"


def parts_of(scenario: Scenario, event: Event) -> Iterator[list[Effect]]:
    yield step_part(scenario.scheduler_state, event, scenario.now_ns)
    while scenario.scheduler_state.unfinished is not None:
        yield step_part(scenario.scheduler_state, event, scenario.now_ns)


CANCELLED = AskReleased(PARTITION, APP, None, STOPPED)
RELEASED = AllocationReleased(PARTITION, APP, None, None, STOPPED)


@pytest.mark.parametrize("event", [REMOVED, CANCELLED, RELEASED], ids=["removal", "cancellation", "release"])
def test_d19_no_part_of_an_event_about_many_pods_grows_with_their_number(event: Event) -> None:
    (small, _), (most, parts) = (most_calls(parts_of(large(pods), event)) for pods in (PODS_PER_PART, PODS))
    assert len(parts) >= 3
    assert most <= 2.1 * small


@pytest.mark.parametrize("event", [REMOVED, CANCELLED, RELEASED], ids=["removal", "cancellation", "release"])
def test_d19_between_two_parts_the_state_is_consistent_and_all_pods_are_confirmed_at_the_end(event: Event) -> None:
    scenario, effects = large(), list[Effect]()
    for part in parts_of(scenario, event):
        effects += part
        assert invariants.check(scenario.scheduler_state) == []
    whole = step(large().scheduler_state, event, scenario.now_ns)
    assert releases(effects) == releases(whole)
    assert released_asks(effects) == released_asks(whole)
    assert len(releases(effects)) == (0 if event is CANCELLED else PODS)
    assert len(released_asks(effects)) == (0 if event is RELEASED else PODS)


def test_d19_a_cycle_or_another_event_completes_the_event_first() -> None:
    scenario = large()
    effects = step_part(scenario.scheduler_state, REMOVED, scenario.now_ns)
    assert scenario.scheduler_state.unfinished is not None
    effects += step(scenario.scheduler_state, ApplicationAdded(an_application()), scenario.now_ns)
    assert len(releases(effects)) == PODS
    assert not scenario.app().removed
    scenario = large()
    step_part(scenario.scheduler_state, REMOVED, scenario.now_ns)
    cycle(scenario.scheduler_state, scenario.now_ns, lambda: True)
    assert not scenario.app().allocations


def test_d20_the_first_selector_counts_the_labels_of_all_pods_in_parts() -> None:
    scenario = large()
    scenario.add_node("free", vcore=1000)
    small, _ = most_calls(parts_of(large(PODS_PER_PART), FIRST_SELECTOR))
    most, parts = most_calls(parts_of(scenario, FIRST_SELECTOR))
    assert len(parts) >= 5
    assert most <= 2.1 * small
    assert invariants.check(scenario.scheduler_state) == []
    scenario.now_ns += SECOND
    result = cycle(scenario.scheduler_state, scenario.now_ns, lambda: True)
    assert placed(result.effects) == {"first": "free"}
    assert all(isinstance(effect, AllocationResponse) for effect in result.effects if placed([effect]))
