"""A replay is divided, so that 20,000 pods do not block the loop."""

from muster_operator.controller import recovery
from muster_operator.controller.recovery import SLICE
from muster_operator.model.core_messages import ApplicationSubmitted, NodeCreated
from tests.unit.operator.controller.driver import Driver, requested_keys
from tests.unit.operator.controller.objects import a_pod
from tests.unit.operator.controller.test_recovery import gathered

PODS = 3 * SLICE
NODES = tuple(f"n{number}" for number in range(10))


def large() -> Driver:
    """Each second pod is bound; applications of two."""
    bound = (
        a_pod(f"p{number:04}", app=f"app-{number // 2:04}", nodeName=f"n{number % 10}") for number in range(1, PODS, 2)
    )
    waiting = (a_pod(f"p{number:04}", app=f"app-{number // 2:04}") for number in range(0, PODS, 2))
    return gathered(*bound, *waiting, nodes=NODES)


def test_each_replay_slice_is_limited_and_every_object_is_reported_exactly_once() -> None:
    driver = large()
    turns = list(recovery.begin(driver.ledger, 0.0))
    submitted = [item.spec.app for turn in turns for item in turn.requests if isinstance(item, ApplicationSubmitted)]
    assert submitted == sorted(set(submitted))
    assert len(submitted) == PODS // 2
    assert max(len(turn.requests) for turn in turns) <= SLICE // 2
    for app in submitted:
        driver.accepted(app)
    nodes = list(recovery.report_nodes(driver.ledger, 0.0))
    created = [item for turn in nodes for item in turn.requests if isinstance(item, NodeCreated)]
    assert [item.node.name for item in created] == list(NODES)
    assert sum(len(item.existing) for item in created) == PODS // 2
    assert len(nodes) > 1
    asks = list(recovery.submit_asks(driver.ledger, 0.0))
    assert requested_keys(asks[-1]) == sorted(requested_keys(asks[-1]))
    assert len(requested_keys(asks[-1])) == PODS // 2
    assert not any(asks[:-1])


def test_events_received_between_two_slices_are_applied_when_nodes_open() -> None:
    driver = large()
    turns = recovery.begin(driver.ledger, 0.0)
    next(turns)
    assert not driver.gone("p0000")
    assert not driver.see(a_pod("late", app="late"))
    for _ in turns:
        pass
    assert "late" not in driver.ledger.applications
    assert "uid-p0000" in driver.ledger.tasks
