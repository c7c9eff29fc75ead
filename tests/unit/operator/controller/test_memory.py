"""No state of deleted objects is kept, because an operator runs for months while objects are created and deleted."""

from itertools import count

import pytest

from muster_operator.controller import recovery
from muster_operator.controller.state import Phase, TimerKind
from muster_operator.model.cluster_events import NodeGone, PodGone
from muster_operator.model.core_messages import (
    AllocationResponse,
    ApplicationAccepted,
    ApplicationRemoved,
    ApplicationResponse,
    AskRejected,
    NodeResponse,
)
from muster_operator.model.ids import NodeName, PodUid
from tests.unit.operator.controller.driver import APP, Driver, live, live_with_pod, whole
from tests.unit.operator.controller.kubernetes import seen
from tests.unit.operator.controller.objects import Raw, a_node, a_pod
from tests.unit.operator.controller.simulation import Choose, Simulation
from tests.unit.operator.controller.test_random_events import a_job_pod

#: What remains of a cluster from which every pod went: its nodes and namespaces, and counts.
STAYS = {"settings", "keys", "phase", "nodes", "namespaces", "objects", "priority_classes", "deadline_count"} | {
    *("submissions", "retired", "runs_numbered"),
}


def remaining_state(simulation: Simulation) -> dict[str, object]:
    """The parts of the ledger that still have state of pods."""
    found = {name: getattr(simulation.ledger, name) for name in simulation.ledger.__slots__}
    found["storage"] = simulation.ledger.storage.waiting
    devices = simulation.ledger.devices
    found["devices"] = devices.users or devices.used or devices.apps or devices.held or devices.changed
    found["deadlines"] = [due for due in simulation.ledger.deadlines if due[2].kind is not TimerKind.SWEEP]
    return {name: value for name, value in found.items() if name not in STAYS and value}


def any_order() -> Choose:
    """Each choice depends on the number of previous ones."""
    serial = count(1)
    return lambda count: next(serial) * 7919 // 13 % count


def a_pod_of_any_kind(choose: Choose, number: int) -> Raw:
    """Ids of applications are of one pod, or of several one after the other."""
    name, app, node = f"p{number}", f"job{number // 3}", ("n0", f"gone{number}")[choose(2)]
    kinds = [
        a_job_pod("soft", number),
        a_job_pod("hard", number),
        a_pod(name, app=app),
        a_pod(name, app=app, schedulingGates=[{"name": "quota"}]),
        a_pod(name, app=app, nodeName=node),
        a_pod(name, schedulerName="default-scheduler", nodeName=node),
    ]
    return kinds[choose(len(kinds))]


def test_the_ledger_is_empty_again_after_a_thousand_pods_nodes_and_sessions() -> None:
    choose, simulation = any_order(), Simulation()
    kubernetes = simulation.kubernetes
    kubernetes.add_nodes(3)
    simulation.start()
    for number in range(1_000):
        kubernetes.add(a_pod_of_any_kind(choose, number))
        for _ in range(choose(12)):
            simulation.step(choose)
        if number % 7 == 0:
            kubernetes.delete(sorted(kubernetes.pods)[choose(len(kubernetes.pods))])
        if number % 31 == 0:
            kubernetes.add_node(a_node(f"spot{number}"))
            simulation.run(choose)
            kubernetes.remove_node(f"spot{number}")
        if number % 97 == 0:
            simulation.kill_core()
        while len(kubernetes.pods) > 20:
            kubernetes.delete(next(iter(kubernetes.pods)))
    while kubernetes.pods:
        kubernetes.delete(next(iter(kubernetes.pods)))
    for _ in range(3):
        simulation.run()
        simulation.core.complete()
        simulation.run()
        simulation.wait(400)
    assert remaining_state(simulation) == {}
    assert simulation.core.apps == {}


def test_an_application_whose_only_request_was_rejected_is_removed_with_its_pod() -> None:
    """The core ends what it began; of this one it has nothing that could end (application states)."""
    driver = live()
    driver.see(a_pod("w0", app=APP))
    driver.receive(ApplicationResponse(accepted=(ApplicationAccepted(APP),)))
    driver.receive(AllocationResponse(rejected_asks=(AskRejected(APP, PodUid("uid-w0"), "its name is too long"),)))
    # It was sent before the application was accepted, so it is sent again.
    driver.receive(AllocationResponse(rejected_asks=(AskRejected(APP, PodUid("uid-w0"), "its name is too long"),)))
    assert driver.gone("w0").requests == [ApplicationRemoved(APP)]
    assert driver.ledger.applications == {}


def test_an_application_that_had_an_accepted_request_is_left_to_the_core() -> None:
    driver = live_with_pod()
    assert ApplicationRemoved(APP) not in driver.gone("w0").requests


@pytest.mark.parametrize("scheduler", ["muster", "default-scheduler"])
def test_no_state_is_kept_for_a_node_that_never_returns(scheduler: str) -> None:
    driver = live("n1", "n2")
    driver.see(a_pod("w0", app=APP, nodeName="n2", schedulerName=scheduler))
    driver.accepted()
    driver.fact(NodeGone(NodeName("n2")))
    assert driver.ledger.awaiting_node == {NodeName("n2"): {PodUid("uid-w0")}}
    driver.gone("w0")
    assert driver.ledger.awaiting_node == {}


def test_reports_about_a_pod_that_was_deleted_between_sessions_are_forgotten() -> None:
    driver = live()
    driver.see(a_pod("w0", app=APP, schedulingGates=[{"name": "quota"}]))
    assert driver.ledger.noticed
    recovery.pause(driver.ledger)
    driver.gone("w0")
    whole(recovery.begin(driver.ledger, 0.0))
    assert driver.ledger.noticed == set()


def test_no_cluster_event_is_lost_if_an_input_fails_at_the_end_of_a_recovery() -> None:
    """Kubernetes does not repeat events that arrived meanwhile, and a failing input affects only itself."""
    driver = Driver()
    whole(recovery.begin(driver.ledger, 0.0))
    driver.receive(NodeResponse(accepted=7))  # type: ignore[arg-type]  # a bug somewhere else
    driver.fact(seen(a_pod("w0", app=APP)))
    driver.fact(seen(a_pod("w1", app=APP)))
    out = recovery.open_nodes(driver.ledger, 0.0)
    assert [failure.kind for failure in out.failures] == ["NodeResponse"]
    assert driver.ledger.phase is Phase.LIVE
    driver.fact(PodGone(PodUid("uid-w1")))
    assert list(driver.ledger.pods) == ["uid-w0"]
