"""The life cycles are complete tables: every pair is either a row or raises."""

from itertools import product

import pytest

from muster_operator.model.errors import ImpossibleTransitionError
from muster_operator.model.states import APPLICATION, TASK, AppEvent, AppState, TaskEvent, TaskState, after

APP_ENDS = {AppState.FAILED, AppState.KILLED, AppState.COMPLETED}


@pytest.mark.parametrize("state, event", list(product(AppState, AppEvent)))
def test_an_application_rejects_events_outside_its_transition_table(state: AppState, event: AppEvent) -> None:
    if (state, event) in APPLICATION:
        assert after(APPLICATION, state, event) is APPLICATION[(state, event)]
    else:
        with pytest.raises(ImpossibleTransitionError):
            after(APPLICATION, state, event)


@pytest.mark.parametrize("state, event", list(product(TaskState, TaskEvent)))
def test_a_task_rejects_events_outside_its_transition_table(state: TaskState, event: TaskEvent) -> None:
    if (state, event) in TASK:
        assert after(TASK, state, event) is TASK[(state, event)]
    else:
        with pytest.raises(ImpossibleTransitionError):
            after(TASK, state, event)


def reachable(table: dict[tuple[str, str], str], start: str) -> set[str]:
    found, frontier = {start}, [start]
    while frontier:
        state = frontier.pop()
        for (source, _), target in table.items():
            if source == state and target not in found:
                found.add(target)
                frontier.append(target)
    return found


def test_every_state_can_be_reached() -> None:
    assert reachable(dict(APPLICATION), AppState.NEW) == set(AppState)  # type: ignore[arg-type]  # both are strings
    assert reachable(dict(TASK), TaskState.NEW) == set(TaskState)  # type: ignore[arg-type]  # both are strings


def test_a_finished_application_has_no_transitions() -> None:
    assert not {state for state, _ in APPLICATION} & APP_ENDS


def test_every_task_that_has_not_completed_can_complete() -> None:
    assert {state for state, event in TASK if event is TaskEvent.COMPLETE} == set(TaskState) - {TaskState.COMPLETED}
