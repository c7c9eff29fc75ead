"""The life cycles have exactly YuniKorn's transitions; every other transition is an error."""

from collections.abc import Mapping
from enum import StrEnum
from itertools import product

import pytest

from muster_core.model.errors import IllegalTransition
from muster_core.model.states import (
    APPLICATION,
    MANAGER,
    NODE,
    QUEUE,
    ApplicationEvent,
    ApplicationState,
    ManagerEvent,
    ManagerState,
    NodeEvent,
    NodeState,
    QueueEvent,
    QueueState,
    follow,
)

#: Event → (from, to) of YuniKorn's application states, without those that change nothing.
APPLICATIONS = {
    "accept": [("New", "Accepted"), ("Resuming", "Accepted")],
    "run": [("Accepted", "Running"), ("Completing", "Running")],
    "complete": [("Accepted", "Completing"), ("Running", "Completing"), ("Completing", "Completed")],
    "reject": [("New", "Rejected")],
    "fail": [
        ("New", "Failing"),
        ("Accepted", "Failing"),
        ("Running", "Failing"),
        ("Resuming", "Failing"),
        ("Completing", "Failing"),
        ("Failing", "Failed"),
    ],
    "resume": [("Accepted", "Resuming")],
    "expire": [("Completed", "Expired"), ("Failed", "Expired"), ("Rejected", "Expired")],
}
QUEUES = {
    "stop": [("Active", "Stopped")],
    "start": [("Active", "Active"), ("Stopped", "Active"), ("Draining", "Active")],
    "remove": [("Active", "Draining"), ("Stopped", "Draining"), ("Draining", "Draining")],
}
NODES = {
    "drain": [("SCHEDULABLE", "DRAINING"), ("DRAINING", "DRAINING")],
    "open": [("DRAINING", "SCHEDULABLE")],
    "remove": [("SCHEDULABLE", "REMOVED"), ("DRAINING", "REMOVED")],
}
MANAGERS = {
    "register": [("init", "running"), ("running", "running"), ("paused", "running"), ("stopped", "running")],
    "lose connection": [("running", "paused")],
    "time out": [("paused", "stopped")],
    "leave": [("running", "stopped"), ("paused", "stopped")],
}


@pytest.mark.parametrize(
    "table, states, events, rows",
    [
        pytest.param(APPLICATION, ApplicationState, ApplicationEvent, APPLICATIONS, id="application"),
        pytest.param(QUEUE, QueueState, QueueEvent, QUEUES, id="queue"),
        pytest.param(NODE, NodeState, NodeEvent, NODES, id="node"),
        pytest.param(MANAGER, ManagerState, ManagerEvent, MANAGERS, id="manager"),
    ],
)
def test_every_state_event_pair_follows_the_contract_or_is_an_error(
    table: Mapping[tuple[StrEnum, StrEnum], StrEnum],
    states: type[StrEnum],
    events: type[StrEnum],
    rows: Mapping[str, list[tuple[str, str]]],
) -> None:
    wanted = {(source, event): target for event, pairs in rows.items() for source, target in pairs}
    for state, event in product(states, events):
        target = wanted.pop((state.value, event.value), None)
        if target is None:
            with pytest.raises(IllegalTransition, match=f"{state.value}.*{event.value}|{event.value}.*{state.value}"):
                follow(table, state, event)
        else:
            assert follow(table, state, event).value == target
    assert wanted == {}
