"""An exception at any call within any commit: what was written was delivered, and the outcome is the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

import pytest

from muster_core.model.config import Configuration, QueuePolicies
from muster_core.model.events import (
    AllocationReleased,
    ApplicationAdded,
    AskAdded,
    ConfigurationReplaced,
    Event,
    ManagerRegistered,
    NodeAdded,
)
from muster_core.model.specs import AllocationSpec, GangPlacement, GangStyle
from tests.amounts import amount
from tests.unit.builders import (
    PARTITION,
    RM,
    SECOND,
    a_configuration,
    a_node,
    a_queue,
    an_allocation,
    an_application,
    an_ask,
)
from tests.unit.core.scheduling.faults import FaultAt
from tests.unit.core.scheduling.preemption_scenario import with_preemption
from tests.unit.core.scheduling.random_events.simulated_core import Stage, Tally

#: Seconds, longer than any back-off, timer or interval of these stories; pods end every few of them.
_LONG, _FEW = 600, 5
#: Every so many calls of a fault_case raise, in a run of its own.
_STRIDE = amount(29, 1)


@dataclass(frozen=True)
class FaultCase:
    """`before`: events without faults, of several seconds each; `then`: what is decided upon is decided here."""

    configuration: Configuration
    before: tuple[tuple[Event, ...], ...]
    then: tuple[Event, ...]


def app(name: str, queue: str = "root.a", **more: object) -> ApplicationAdded:
    return ApplicationAdded(an_application(name, queue=queue, **more))  # type: ignore[arg-type]  # fields by their names


def asks(name: str, number: int, **more: object) -> list[AskAdded]:
    keys = (f"{name}-{index}{'p' if more.get('placeholder') else ''}" for index in range(number))
    return [AskAdded(an_ask(key, app=name, **more)) for key in keys]  # type: ignore[arg-type]  # the same


def placeholders(name: str, number: int) -> list[AskAdded]:
    return asks(name, number, group="workers", placeholder=True)


def nodes(number: int, vcore: int = 4000) -> tuple[NodeAdded, ...]:
    return tuple(NodeAdded(a_node(f"n{index}", vcore)) for index in range(number))


def full(vcore: int) -> NodeAdded:
    """An empty cluster could hold more than the present one."""
    pod: AllocationSpec = an_allocation("foreign", "full", app="", vcore=vcore, foreign=True)
    return NodeAdded(a_node("full", vcore), existing=(pod,))


_TWO = a_configuration(a_queue("a"), a_queue("b"))
_SHRINKING = QueuePolicies(quota_preemption_delay_ns=SECOND)
_DIRECT = GangPlacement.DIRECT

FAULT_CASES = {
    "placements": FaultCase(_TWO, (nodes(2),), (app("x"), app("y", "root.b"), *asks("x", 3), *asks("y", 3))),
    "a gang": FaultCase(_TWO, (nodes(1),), (app("x", gang=3), *placeholders("x", 3))),
    "replacements": FaultCase(
        _TWO,
        (nodes(1), (app("x", gang=3), *placeholders("x", 3))),
        (*asks("x", 2, group="workers"), *asks("x", 1, group="other")),
    ),
    "a gang without pods": FaultCase(
        _TWO, (nodes(1),), (app("x", gang=3, placement=_DIRECT), *asks("x", 3, group="workers"))
    ),
    "a gang with some pods": FaultCase(
        _TWO,
        (nodes(1), (app("x", gang=3, placement=GangPlacement.AUTO), *placeholders("x", 1))),
        tuple(asks("x", 3, group="workers")),
    ),
    "a gang that times out": FaultCase(
        _TWO, (nodes(1), (full(8000), app("x", gang=6, timeout_s=30), *placeholders("x", 6))), tuple(asks("x", 2))
    ),
    "a hard gang that times out": FaultCase(
        _TWO,
        (nodes(1), (full(8000), app("x", gang=6, timeout_s=30, style=GangStyle.HARD), *placeholders("x", 6))),
        (app("y", "root.b"), *asks("y", 4)),
    ),
    "a take-over": FaultCase(
        _TWO,
        (
            (*nodes(1), full(10_000)),
            (app("later", "root.b", gang=5, created_s=20), *placeholders("later", 3)),
        ),
        (app("first", gang=4, created_s=10), *placeholders("first", 4)),
    ),
    "a take-over from places without pods": FaultCase(
        _TWO,
        ((*nodes(1), full(10_000)), (app("later", "root.b", gang=5, created_s=20), *placeholders("later", 3))),
        (app("first", gang=4, created_s=10, placement=_DIRECT), *asks("first", 4, group="workers")),
    ),
    "preemption": FaultCase(
        with_preemption(a_queue("a", guaranteed=3000), a_queue("b")),
        (nodes(1), (app("y", "root.b"), *asks("y", 4))),
        (app("x"), *asks("x", 2)),
    ),
    "preemption for a gang": FaultCase(
        with_preemption(a_queue("a", guaranteed=3000), a_queue("b")),
        (nodes(1), (app("y", "root.b"), *asks("y", 4))),
        (app("x", gang=3), *placeholders("x", 3)),
    ),
    "quota preemption": FaultCase(
        with_preemption(a_queue("a", policies=_SHRINKING), by_quota=True),
        (nodes(1), (app("x"), *asks("x", 4))),
        (ConfigurationReplaced(RM, with_preemption(a_queue("a", vcore=2000, policies=_SHRINKING), by_quota=True)),),
    ),
    "a node reservation": FaultCase(
        _TWO,
        (nodes(1), (app("y", "root.b"), *asks("y", 3))),
        (app("x"), AskAdded(an_ask("wide", app="x", vcore=3000))),
    ),
}


def confirm(stage: Stage) -> None:
    """Every pod that is to go ends."""
    replica = stage.replicas[PARTITION]
    gone = [(place, one) for place, one in replica.allocations.items() if one.releasing is not None]
    for (name, identity), one in gone:
        if not stage.is_crashed and one.releasing is not None:
            stage.send(AllocationReleased(PARTITION, name, one.key, identity, one.releasing))


def play(fault_case: FaultCase, fault: FaultAt) -> Stage:
    """The fault_case to its end. `stage.is_crashed`: the state is to be thrown away."""
    stage = Stage(Tally())
    stage.send(ManagerRegistered(RM, fault_case.configuration))
    for events in fault_case.before:
        stage.send(*events)
        stage.wait(5)
    stage.fault = fault
    stage.send(*fault_case.then)
    for _ in range(0, _LONG, _FEW):
        if stage.is_crashed:
            return stage
        stage.wait(_FEW)
        if not stage.is_crashed:
            confirm(stage)
    stage.fault = FaultAt(0)
    return stage


def outcome(stage: Stage) -> dict[str, tuple[str, int, int]]:
    """State, number of allocations and of requests of each application."""
    apps = stage.scheduler_state.partitions[PARTITION].applications.values()
    return {app.id: (str(app.state), len(app.allocations), len(app.asks)) for app in apps}


def faults(*, after: bool) -> Iterator[FaultAt]:
    return (FaultAt(number, after) for number in count(1 + after, _STRIDE))


@pytest.mark.thorough
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("fault_case", FAULT_CASES.values(), ids=FAULT_CASES)
def test_an_exception_at_any_call_loses_neither_an_effect_nor_the_outcome(
    fault_case: FaultCase, *, after: bool
) -> None:
    expected = outcome(play(fault_case, FaultAt(0)))
    sound = 0
    for fault in faults(after=after):
        stage = play(fault_case, replace(fault))
        if not stage.tally.faults:
            break
        if not stage.is_crashed:  # else the state is thrown away, and resource managers send all of it again
            assert outcome(stage) == expected, f"after {fault}"
            sound += 1
    assert sound
