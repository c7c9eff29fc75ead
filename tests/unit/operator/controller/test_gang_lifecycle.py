"""The complete life cycle of a gang with a small Kubernetes and core, in any order and with a kill at every step."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_operator.model.commands import PostEvent
from muster_operator.model.ids import AppId
from muster_operator.model.states import AppState, TaskState
from tests.unit.operator.controller.kubernetes import Kubernetes
from tests.unit.operator.controller.objects import Raw, a_group, a_pod, gang_annotations
from tests.unit.operator.controller.simulation import Choose, Simulation

APP = AppId("dev/job")


def members(count: int = 3, parameters: str = "") -> list[Raw]:
    """The pods of a Job with one group of ``count``."""
    annotations = gang_annotations(a_group("workers", count), parameters=parameters, member_of="workers")
    return [a_pod(f"w{number}", app=APP, annotations=annotations) for number in range(count)]


def a_cluster(*pods: Raw, nodes: int = 2) -> Simulation:
    """Nodes first, then a running operator, then the pods."""
    simulation = Simulation()
    simulation.kubernetes.add_nodes(nodes)
    simulation.start()
    simulation.kubernetes.add(*pods)
    return simulation


def assert_converged(simulation: Simulation) -> None:
    """Every real pod is bound once, no placeholder is left, and both ledgers agree with the cluster."""
    kubernetes = simulation.kubernetes
    assert kubernetes.placeholders() == []
    assert all(raw["spec"].get("nodeName") for raw in kubernetes.pods.values())
    assert all(count == 1 for count in kubernetes.binds.values())
    assert set(kubernetes.pods) == {task.uid for task in simulation.ledger.tasks.values()}
    assert all(task.state is TaskState.BOUND for task in simulation.ledger.tasks.values())
    assert {key for app in simulation.core.apps.values() for key in app.held} == set(kubernetes.pods)
    assert simulation.ledger.deletions == {}
    assert simulation.core.refused == []


def finish(simulation: Simulation) -> None:
    """All pods run to their end, and the core completes what is left."""
    for raw in list(simulation.kubernetes.pods.values()):
        simulation.kubernetes.change(raw["metadata"]["name"], phase="Succeeded")
    simulation.run()
    for _ in range(2):
        simulation.core.complete()
        simulation.run()
    assert simulation.ledger.applications == {}
    assert simulation.ledger.tasks == {}
    assert simulation.core.apps == {}


def test_a_gang_is_reserved_replaced_and_released() -> None:
    simulation = a_cluster(*members())
    simulation.run()
    assert_converged(simulation)
    finish(simulation)


def test_a_member_costs_five_writes_and_the_gang_two_events() -> None:
    simulation = a_cluster(*members(20))
    simulation.run()
    writes = simulation.kubernetes.writes
    assert (writes["CreatePlaceholder"], writes["BindPod"], writes["DeletePod"]) == (20, 40, 20)
    assert writes["PostEvent"] == 22  # one Scheduled a pod, and the gang's series twice
    assert sum(writes.values()) == 102


def test_no_member_is_bound_before_all_placeholders_are() -> None:
    simulation = a_cluster(*members())
    while simulation.kubernetes.binds.total() < 3:
        assert simulation.step()
    assert all(uid.startswith("uid-ph") for uid in simulation.kubernetes.binds)


@given(st.data())
def test_any_order_of_streams_leads_to_the_same_end(data: st.DataObject) -> None:
    simulation = a_cluster(*members())
    simulation.run(lambda count: data.draw(st.integers(0, count - 1)))
    assert_converged(simulation)


def life_cycle_steps() -> int:
    return a_cluster(*members()).run()


STEPS = life_cycle_steps()
KILLS = ["core", "both, commands done", "both, commands lost"]


@pytest.mark.parametrize("cut", range(STEPS + 1))
@pytest.mark.parametrize("process", KILLS)
def test_a_kill_at_any_step_converges(cut: int, process: str) -> None:
    simulation = a_cluster(*members())
    for _ in range(cut):
        simulation.step()
    kill(simulation, process)
    simulation.run()
    simulation.wait(60)
    assert_converged(simulation)
    finish(simulation)


def kill(simulation: Simulation, process: str) -> None:
    match process:
        case "core":
            simulation.kill_core()
        case _:
            # A new operator opens a new session, for which the core drops the old one: so this is both as well.
            simulation.kill_operator(lose_commands=process == "both, commands lost")


@given(st.data())
def test_kills_at_random_steps_of_random_orders_converge(data: st.DataObject) -> None:
    simulation = a_cluster(*members(2))
    choose: Choose = lambda count: data.draw(st.integers(0, count - 1))  # noqa: E731 - a name for the type
    for _ in range(data.draw(st.integers(1, 3))):
        for _ in range(data.draw(st.integers(0, 40))):
            simulation.step(choose)
        kill(simulation, data.draw(st.sampled_from(KILLS)))
    simulation.run(choose)
    simulation.wait(60)
    assert_converged(simulation)
    finish(simulation)


def test_a_gang_with_two_groups_accepts_executors_that_are_created_later() -> None:
    """Spark's shape: the driver defines both groups; executors exist only after it runs."""
    groups = gang_annotations(a_group("driver", 1), a_group("executor", 2), member_of="driver")
    simulation = a_cluster(a_pod("driver", app=APP, annotations=groups))
    simulation.run()
    assert simulation.kubernetes.node_of("driver")
    assert len(simulation.kubernetes.placeholders()) == 2
    for number in range(3):
        annotations = gang_annotations(member_of="executor")
        simulation.kubernetes.add(a_pod(f"e{number}", app=APP, annotations=annotations))
    simulation.run()
    assert_converged(simulation)
    finish(simulation)


def test_unused_placeholders_are_deleted_when_the_application_completes() -> None:
    simulation = a_cluster(*members()[:2])
    simulation.run()
    assert len(simulation.kubernetes.placeholders()) == 1
    finish(simulation)
    assert simulation.kubernetes.placeholders() == []


@pytest.mark.parametrize("allocated", [True, False])
def test_a_soft_timeout_deletes_the_placeholders_and_schedules_the_members(allocated: bool) -> None:  # noqa: FBT001
    simulation = a_cluster(*members())
    simulation.core.is_stingy = not allocated
    reach(simulation, AppState.RESERVING)
    while not simulation.core.apps[APP].asks and not simulation.core.apps[APP].held:
        simulation.step()
    simulation.core.is_stingy = True
    simulation.core.time_out(APP)
    simulation.run()
    assert_converged(simulation)
    assert [event.action for event in warnings(simulation.kubernetes)] == ["GangSchedulingFailed", "GangIncomplete"]
    simulation.kill_operator(lose_commands=True)
    simulation.run()
    assert_converged(simulation)
    assert simulation.kubernetes.writes["MarkResumed"] == 1


def warnings(kubernetes: Kubernetes) -> list[PostEvent]:
    return [event for event in kubernetes.events if event.type == "Warning"]


def reach(simulation: Simulation, state: AppState) -> None:
    while APP not in simulation.ledger.applications or simulation.ledger.applications[APP].state is not state:
        assert simulation.step()


def test_a_hard_timeout_fails_the_members() -> None:
    simulation = a_cluster(*members(parameters="gangSchedulingStyle=Hard"))
    simulation.core.is_stingy = True
    simulation.run()
    simulation.core.time_out(APP)
    simulation.run()
    assert simulation.kubernetes.placeholders() == []
    failed = [raw["status"] for raw in simulation.kubernetes.pods.values()]
    assert {status["phase"] for status in failed} == {"Failed"}
    assert {status["reason"] for status in failed} == {"ResourceReservationTimeout"}
    event_actions = {(event.reason, event.action) for event in simulation.kubernetes.events}
    assert ("GangScheduling", "PlaceholderTimeOut") in event_actions
    assert ("GangFailed", "GangFailed") in event_actions, "found with --field-selector reason=GangFailed"
    assert simulation.ledger.applications == {}


def test_a_rejected_application_fails_its_pods_with_the_cause() -> None:
    simulation = a_cluster(*members())
    simulation.core.reject = "queue root.dev sorts fair"
    simulation.run()
    statuses = [raw["status"] for raw in simulation.kubernetes.pods.values()]
    assert {status["reason"] for status in statuses} == {"ApplicationRejected"}
    assert all("sorts fair" in status["message"] for status in statuses)
    assert simulation.kubernetes.placeholders() == []
    assert simulation.ledger.applications == {}


def test_a_manually_deleted_placeholder_is_created_again() -> None:
    simulation = a_cluster(*members())
    simulation.core.is_stingy = True
    simulation.run()
    simulation.kubernetes.delete_by_name(simulation.kubernetes.placeholders()[0]["metadata"]["name"])
    simulation.core.is_stingy = False
    simulation.run()
    assert_converged(simulation)
    assert simulation.kubernetes.writes["CreatePlaceholder"] == 4


def test_the_next_pod_becomes_the_originator_if_the_first_is_deleted_while_reserving() -> None:
    simulation = a_cluster(*members())
    simulation.core.is_stingy = True
    simulation.run()
    simulation.kubernetes.delete_by_name("w0")
    simulation.core.is_stingy = False
    simulation.run()
    owners = {raw["metadata"]["ownerReferences"][0]["uid"] for raw in simulation.kubernetes.placeholders()}
    assert owners == {"uid-w1"}
    assert {simulation.kubernetes.node_of("w1"), simulation.kubernetes.node_of("w2")} <= {"n0", "n1"}
    finish_with_left_overs(simulation)


def test_the_oldest_member_becomes_the_originator_whichever_was_seen_first() -> None:
    """The watch shows pods in any order."""
    pods = {raw["metadata"]["name"]: raw for raw in members()}
    pods["w1"]["metadata"]["creationTimestamp"] = "2026-01-01T00:00:09Z"
    pods["w2"]["metadata"]["creationTimestamp"] = "2026-01-01T00:00:05Z"
    simulation = a_cluster(*pods.values())
    simulation.core.is_stingy = True
    simulation.run()
    assert simulation.ledger.applications[APP].originator.ref.name == "w0"
    simulation.kubernetes.delete_by_name("w0")
    simulation.run()
    assert simulation.ledger.applications[APP].originator.ref.name == "w2"


def test_a_long_lived_application_forgets_the_ages_of_deleted_pods() -> None:
    simulation = a_cluster(a_pod("stays", app=APP))
    simulation.run()
    for number in range(300):
        simulation.kubernetes.add(a_pod(f"brief-{number}", app=APP))
        simulation.run()
        simulation.kubernetes.delete_by_name(f"brief-{number}")
        simulation.run()
    assert len(simulation.ledger.applications[APP].ages) < 100


def finish_with_left_overs(simulation: Simulation) -> None:
    for name in ("w1", "w2"):
        simulation.kubernetes.change(name, phase="Succeeded")
    simulation.run()
    for _ in range(2):
        simulation.core.complete()
        simulation.run()
    assert simulation.kubernetes.placeholders() == []
    assert simulation.ledger.applications == {}


def test_all_pods_deleted_while_reserving_removes_the_application() -> None:
    simulation = a_cluster(*members())
    simulation.core.is_stingy = True
    simulation.run()
    for number in range(3):
        simulation.kubernetes.delete_by_name(f"w{number}")
    simulation.run()
    assert simulation.kubernetes.pods == {}
    assert simulation.core.apps == {}
    assert simulation.ledger.applications == {}
    assert simulation.ledger.tasks == {}


@given(st.data())
def test_a_deleted_namespace_leaves_nothing_behind_at_any_time(data: st.DataObject) -> None:
    simulation = a_cluster(*members())
    choose: Choose = lambda count: data.draw(st.integers(0, count - 1))  # noqa: E731 - a name for the type
    for _ in range(data.draw(st.integers(0, 80))):
        simulation.step(choose)
    for uid in data.draw(st.permutations(sorted(simulation.kubernetes.pods))):
        if uid in simulation.kubernetes.pods:
            simulation.kubernetes.delete(uid)
    simulation.run(choose)
    simulation.wait(60)
    for _ in range(2):
        simulation.core.complete()
        simulation.run()
    assert simulation.kubernetes.pods == {}
    assert simulation.ledger.tasks == {}
    assert simulation.ledger.applications == {}
    assert simulation.core.apps == {}


@pytest.mark.parametrize("style", ["Soft", "Hard"])
def test_a_placeholder_creation_failure_is_handled_as_the_gang_style_defines(style: str) -> None:
    simulation = a_cluster(*members(parameters=f"gangSchedulingStyle={style}"))
    simulation.kubernetes.refuse_creates = 2
    simulation.run()
    assert "PlaceholderCreateFailed" in [event.action for event in simulation.kubernetes.events]
    if style == "Soft":
        assert_converged(simulation)
    else:
        assert {raw["status"]["phase"] for raw in simulation.kubernetes.pods.values()} == {"Failed"}
        assert simulation.kubernetes.placeholders() == []
        assert simulation.core.apps == {}
        assert simulation.ledger.applications == {}


def test_a_node_that_is_deleted_during_a_replacement_does_not_lose_a_pod() -> None:
    simulation = a_cluster(*members(2), nodes=3)
    reach(simulation, AppState.RUNNING)
    simulation.step()
    simulation.kubernetes.remove_node("n1")
    simulation.run()
    assert simulation.kubernetes.placeholders() == []
    alive = simulation.kubernetes.pods.values()
    assert all(raw["spec"].get("nodeName") not in {None, "n1"} for raw in alive)


def test_an_application_id_can_be_used_again() -> None:
    simulation = a_cluster(*members())
    simulation.run()
    finish(simulation)
    for uid in list(simulation.kubernetes.pods):
        simulation.kubernetes.delete(uid)
    simulation.kubernetes.add(*members())
    simulation.kubernetes.binds.clear()
    simulation.run()
    assert_converged(simulation)
