"""Life cycles of applications, nodes, queues and resource managers as tables.

The diagrams in docs/internals/states are generated from these tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeVar

from muster_core.model.errors import IllegalTransition


class ApplicationState(StrEnum):
    """States of an application, as in YuniKorn."""

    NEW = "New"
    ACCEPTED = "Accepted"
    RUNNING = "Running"
    RESUMING = "Resuming"
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    FAILING = "Failing"
    FAILED = "Failed"
    REJECTED = "Rejected"
    EXPIRED = "Expired"


class ApplicationEvent(StrEnum):
    """Events in the life cycle of an application."""

    ACCEPT = "accept"
    REJECT = "reject"
    RUN = "run"
    RESUME = "resume"
    COMPLETE = "complete"
    FAIL = "fail"
    EXPIRE = "expire"


_A = ApplicationState
_E = ApplicationEvent

APPLICATION: Final[Mapping[tuple[ApplicationState, ApplicationEvent], ApplicationState]] = MappingProxyType(
    {
        (_A.NEW, _E.ACCEPT): _A.ACCEPTED,
        (_A.NEW, _E.REJECT): _A.REJECTED,
        (_A.NEW, _E.FAIL): _A.FAILING,
        (_A.ACCEPTED, _E.RUN): _A.RUNNING,
        (_A.ACCEPTED, _E.RESUME): _A.RESUMING,
        (_A.ACCEPTED, _E.COMPLETE): _A.COMPLETING,
        (_A.ACCEPTED, _E.FAIL): _A.FAILING,
        (_A.RESUMING, _E.ACCEPT): _A.ACCEPTED,
        (_A.RESUMING, _E.FAIL): _A.FAILING,
        (_A.RUNNING, _E.COMPLETE): _A.COMPLETING,
        (_A.RUNNING, _E.FAIL): _A.FAILING,
        (_A.COMPLETING, _E.RUN): _A.RUNNING,
        (_A.COMPLETING, _E.COMPLETE): _A.COMPLETED,
        (_A.COMPLETING, _E.FAIL): _A.FAILING,
        (_A.FAILING, _E.FAIL): _A.FAILED,
        (_A.COMPLETED, _E.EXPIRE): _A.EXPIRED,
        (_A.FAILED, _E.EXPIRE): _A.EXPIRED,
        (_A.REJECTED, _E.EXPIRE): _A.EXPIRED,
    }
)


class ManagerState(StrEnum):
    """States of a resource manager, as in the Scheduler Interface ("Status of RM in scheduler")."""

    INIT = "init"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


class ManagerEvent(StrEnum):
    """Events in the life cycle of a resource manager."""

    REGISTER = "register"
    LOSE_CONNECTION = "lose connection"
    TIME_OUT = "time out"
    LEAVE = "leave"


_M = ManagerState
_N = ManagerEvent

MANAGER: Final[Mapping[tuple[ManagerState, ManagerEvent], ManagerState]] = MappingProxyType(
    {
        (_M.INIT, _N.REGISTER): _M.RUNNING,
        (_M.RUNNING, _N.REGISTER): _M.RUNNING,
        (_M.RUNNING, _N.LOSE_CONNECTION): _M.PAUSED,
        (_M.RUNNING, _N.LEAVE): _M.STOPPED,
        (_M.PAUSED, _N.REGISTER): _M.RUNNING,
        (_M.PAUSED, _N.TIME_OUT): _M.STOPPED,
        (_M.PAUSED, _N.LEAVE): _M.STOPPED,
        (_M.STOPPED, _N.REGISTER): _M.RUNNING,
    }
)


class NodeState(StrEnum):
    """States of a node, as in the Scheduler Interface ("State transition of node")."""

    SCHEDULABLE = "SCHEDULABLE"
    DRAINING = "DRAINING"
    REMOVED = "REMOVED"


class NodeEvent(StrEnum):
    """Events in the life cycle of a node."""

    DRAIN = "drain"
    OPEN = "open"
    REMOVE = "remove"


_S = NodeState
_V = NodeEvent

NODE: Final[Mapping[tuple[NodeState, NodeEvent], NodeState]] = MappingProxyType(
    {
        (_S.SCHEDULABLE, _V.DRAIN): _S.DRAINING,
        (_S.DRAINING, _V.DRAIN): _S.DRAINING,
        (_S.DRAINING, _V.OPEN): _S.SCHEDULABLE,
        (_S.SCHEDULABLE, _V.REMOVE): _S.REMOVED,
        (_S.DRAINING, _V.REMOVE): _S.REMOVED,
    }
)


class QueueState(StrEnum):
    """States of a queue. The state of root is that of the partition.

    Stopped: a leaf that becomes a parent when its applications have ended.
    """

    ACTIVE = "Active"
    DRAINING = "Draining"
    STOPPED = "Stopped"


class QueueEvent(StrEnum):
    """Events in the life cycle of a queue."""

    REMOVE = "remove"
    STOP = "stop"
    START = "start"


_Q = QueueState
_W = QueueEvent

QUEUE: Final[Mapping[tuple[QueueState, QueueEvent], QueueState]] = MappingProxyType(
    {
        (_Q.ACTIVE, _W.START): _Q.ACTIVE,
        (_Q.ACTIVE, _W.STOP): _Q.STOPPED,
        (_Q.ACTIVE, _W.REMOVE): _Q.DRAINING,
        (_Q.DRAINING, _W.START): _Q.ACTIVE,
        (_Q.DRAINING, _W.REMOVE): _Q.DRAINING,
        (_Q.STOPPED, _W.START): _Q.ACTIVE,
        (_Q.STOPPED, _W.REMOVE): _Q.DRAINING,
    }
)

State = TypeVar("State", bound=StrEnum)
Trigger = TypeVar("Trigger", bound=StrEnum)


def follow(table: Mapping[tuple[State, Trigger], State], state: State, trigger: Trigger) -> State:
    """Returns the state after `trigger`. Raises IllegalTransition if the table has no such row."""
    try:
        return table[state, trigger]
    except KeyError:
        raise IllegalTransition(state, trigger) from None
