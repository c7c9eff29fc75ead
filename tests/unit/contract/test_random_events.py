"""Random events with gangs of all placement modes: pods are bound once, nothing is left, and both sides agree."""

from random import Random  # noqa: TID251 - with a fixed seed

import pytest

from muster_operator.controller import tasks
from tests.amounts import amount
from tests.unit.contract.agent_and_core import Both
from tests.unit.contract.random_events import PLACEMENTS, RandomActions, law_breaches
from tests.unit.contract.random_preemption import RandomPreemption
from tests.unit.operator.controller.objects import a_group, a_pod, gang_annotations

SEEDS = amount(10, 1000)
#: Seeds of which at least one has to notice a step that is left out.
NOTICED_WITHIN = 100
#: Steps, and the first seed that is tried without them: it notices soon that the step is missing.
STEPS = {"adopt_bound": 16, "order_delete": 16, "release_from_core": 0}


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(SEEDS))
def test_operator_and_core_stay_consistent_with_random_events_and_kills(seed: int) -> None:
    """Messages, commands and events arrive in any order, with kills between any two of them."""
    chance = Random(seed)
    survives(RandomActions(chance.randrange), chance.randrange(3, 25))


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(SEEDS))
def test_operator_and_core_stay_consistent_with_preemption_and_lost_nodes(seed: int) -> None:
    """Adds preemption, quota changes, lost nodes, other binders, and pods that terminate slowly."""
    chance = Random(seed)
    survives(RandomPreemption(chance.randrange), chance.randrange(3, 25))


@pytest.mark.parametrize("name", STEPS)
def test_a_missing_operator_step_is_detected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of the seeds need the step. The first of them ends the test."""
    monkeypatch.setattr(tasks, name, lambda *_, **__: None)
    with pytest.raises(AssertionError):
        pass_every_random_preemption(STEPS[name])


def pass_every_random_preemption(first: int) -> None:
    for seed in range(first, first + NOTICED_WITHIN):
        test_operator_and_core_stay_consistent_with_preemption_and_lost_nodes(seed)


def survives(random_actions: RandomActions, things: int) -> None:
    """Run a number of random actions, then check the invariants."""
    for _ in range(things):
        random_actions.happen()
    random_actions.run_until_idle()
    assert list(law_breaches(random_actions)) == []
    random_actions.finish()
    assert random_actions.both.ledger.applications == {}
    assert random_actions.both.ledger.tasks == {}
    assert random_actions.both.real.applications_there == {}


def run_consecutive_gangs(pause_s: float, placements: tuple[str, ...]) -> None:
    """Run gangs with the same application ID, each after all pods of the previous one were deleted."""
    both = Both()
    both.kubernetes.add_nodes(2)
    both.start()
    for turn, placement in enumerate(placements):
        annotations = gang_annotations(a_group("g", 5), parameters=f"gangPlacement={placement}", member_of="g")
        pods = [a_pod(f"w-{turn}-{number}", app="same", annotations=dict(annotations)) for number in range(5)]
        for pod in pods:
            pod["metadata"]["creationTimestamp"] = both.created()
        both.kubernetes.add(*pods)
        both.run()
        assert all(both.kubernetes.node_of(pod["metadata"]["name"]) for pod in pods), f"{placement}, the {turn}th"
        assert both.kubernetes.placeholders() == []
        for pod in pods:
            both.kubernetes.delete(pod["metadata"]["uid"])
        both.run()
        both.wait(pause_s)


@pytest.mark.parametrize("pause_s", [0.0, 1.0, 40.0], ids=["at once", "while it completes", "once it has completed"])
@pytest.mark.parametrize("first", PLACEMENTS)
@pytest.mark.parametrize("second", PLACEMENTS)
def test_an_id_can_be_reused_by_gangs_of_different_placements(first: str, second: str, pause_s: float) -> None:
    run_consecutive_gangs(pause_s, (first, second, first))
