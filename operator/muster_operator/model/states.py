"""Life cycles of applications and pods as tables."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeVar

from muster_operator.model.errors import ImpossibleTransitionError
from muster_operator.model.ids import TextEnum


class AppState(TextEnum):
    """State of an application in the operator."""

    NEW = "New"
    SUBMITTED = "Submitted"
    ACCEPTED = "Accepted"
    RESERVING = "Reserving"
    RESUMING = "Resuming"
    RUNNING = "Running"
    REJECTED = "Rejected"
    FAILING = "Failing"
    FAILED = "Failed"
    KILLING = "Killing"
    KILLED = "Killed"
    COMPLETED = "Completed"


class AppEvent(TextEnum):
    """Event in the life cycle of an application."""

    SUBMIT = "Submit"
    ACCEPT = "Accept"
    REJECT = "Reject"
    RESERVE = "Reserve"
    RESUME = "Resume"
    RUN = "Run"
    COMPLETE = "Complete"
    FAIL = "Fail"
    FAILED = "AllGone"
    KILL = "Kill"
    KILLED = "AllKilled"


class TaskState(TextEnum):
    """State of a task, which represents a pod."""

    NEW = "New"
    PENDING = "Pending"
    SCHEDULING = "Scheduling"
    ALLOCATED = "Allocated"
    BOUND = "Bound"
    REJECTED = "Rejected"
    FAILED = "Failed"
    KILLING = "Killing"
    KILLED = "Killed"
    COMPLETED = "Completed"


class TaskEvent(TextEnum):
    """Event in the life cycle of a task."""

    WAIT = "Wait"
    SUBMIT = "Submit"
    ALLOCATE = "Allocate"
    BIND = "Bind"
    ROLL_BACK = "RollBack"
    REJECT = "Reject"
    FAIL = "Fail"
    KILL = "Kill"
    KILLED = "Gone"
    COMPLETE = "Complete"


_A, _AE, _T, _TE = AppState, AppEvent, TaskState, TaskEvent
_ENDABLE_APPS: Final = (_A.NEW, _A.SUBMITTED, _A.ACCEPTED, _A.RESERVING, _A.RESUMING, _A.RUNNING)
_LIVE_TASKS: Final = (_T.NEW, _T.PENDING, _T.SCHEDULING, _T.ALLOCATED, _T.BOUND, _T.REJECTED)

APPLICATION: Final[Mapping[tuple[AppState, AppEvent], AppState]] = {
    (_A.NEW, _AE.SUBMIT): _A.SUBMITTED,
    (_A.SUBMITTED, _AE.ACCEPT): _A.ACCEPTED,
    (_A.SUBMITTED, _AE.REJECT): _A.REJECTED,
    (_A.ACCEPTED, _AE.RESERVE): _A.RESERVING,
    (_A.ACCEPTED, _AE.RUN): _A.RUNNING,
    (_A.RESERVING, _AE.RUN): _A.RUNNING,
    (_A.RESERVING, _AE.RESUME): _A.RESUMING,
    (_A.RESUMING, _AE.RUN): _A.RUNNING,
    **{(state, _AE.COMPLETE): _A.COMPLETED for state in _ENDABLE_APPS},
    **{(state, _AE.FAIL): _A.FAILING for state in _ENDABLE_APPS},
    **{(state, _AE.KILL): _A.KILLING for state in _ENDABLE_APPS},
    (_A.REJECTED, _AE.FAIL): _A.FAILING,
    (_A.FAILING, _AE.FAILED): _A.FAILED,
    (_A.KILLING, _AE.KILLED): _A.KILLED,
}

TASK: Final[Mapping[tuple[TaskState, TaskEvent], TaskState]] = {
    (_T.NEW, _TE.WAIT): _T.PENDING,
    (_T.PENDING, _TE.SUBMIT): _T.SCHEDULING,
    (_T.SCHEDULING, _TE.ALLOCATE): _T.ALLOCATED,
    (_T.ALLOCATED, _TE.BIND): _T.BOUND,
    # The rejection was of a later request, which arrived after the allocation of this one.
    (_T.REJECTED, _TE.ALLOCATE): _T.ALLOCATED,
    (_T.ALLOCATED, _TE.ROLL_BACK): _T.SCHEDULING,
    (_T.SCHEDULING, _TE.ROLL_BACK): _T.PENDING,
    # The pod was bound by another client, or before a restart.
    (_T.NEW, _TE.BIND): _T.BOUND,
    (_T.PENDING, _TE.BIND): _T.BOUND,
    (_T.SCHEDULING, _TE.BIND): _T.BOUND,
    (_T.NEW, _TE.REJECT): _T.REJECTED,
    (_T.PENDING, _TE.REJECT): _T.REJECTED,
    (_T.SCHEDULING, _TE.REJECT): _T.REJECTED,
    **{(state, _TE.FAIL): _T.FAILED for state in _LIVE_TASKS},
    **{(state, _TE.KILL): _T.KILLING for state in _LIVE_TASKS},
    (_T.KILLING, _TE.KILLED): _T.KILLED,
    **{(state, _TE.COMPLETE): _T.COMPLETED for state in _T if state is not _T.COMPLETED},
}

State = TypeVar("State", bound=StrEnum)
Event = TypeVar("Event", bound=StrEnum)


def after(table: Mapping[tuple[State, Event], State], state: State, event: Event) -> State:
    """Returns the next state.

    Raises:
        ImpossibleTransitionError: the table has no such row.
    """
    try:
        return table[(state, event)]
    except KeyError:
        raise ImpossibleTransitionError(state, event) from None
