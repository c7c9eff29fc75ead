"""Whatever has no result for a minute is ordered again, whichever event or result was lost."""

from muster_operator.controller import sweep
from muster_operator.controller.state import SWEEP_S
from muster_operator.model import problems
from muster_operator.model.commands import (
    BindPod,
    ClaimVolume,
    Command,
    CommandUnanswered,
    CreatePlaceholder,
    DeletePod,
    Outcome,
    Repeat,
)
from muster_operator.model.core_messages import AllocationResponse, AskSubmitted, Released, TerminationType
from muster_operator.model.ids import AllocationId, PodUid
from muster_operator.model.states import TaskState
from tests.unit.operator.controller.driver import APP, Driver, done, live, live_with_pod, orders, waiting
from tests.unit.operator.controller.gang import a_member, creates, pod_of, reserving, uid
from tests.unit.operator.controller.objects import a_pod
from tests.unit.operator.controller.test_storage import a_driver, allocated_with

W0 = PodUid("uid-w0")


def repeated(out: Outcome) -> list[Command]:
    return [order.command for order in out.commands if isinstance(order, Repeat)]


def swept(driver: Driver, sweeps: int = 1) -> list[Command]:
    """What these sweeps order again."""
    return [command for _ in range(sweeps) for command in repeated(driver.wait(SWEEP_S))]


def test_a_bind_without_a_result_is_ordered_again() -> None:
    driver = live_with_pod()
    [bind] = orders(driver.allocated(W0))
    assert swept(driver) == [], "it may have been ordered just before the sweep"
    assert swept(driver) == [bind]
    driver.result(done(bind))
    assert driver.ledger.tasks[W0].state is TaskState.BOUND
    assert swept(driver, 3) == []


def test_a_bind_that_was_ordered_again_meanwhile_is_not_repeated() -> None:
    driver = live_with_pod()
    [bind] = orders(driver.allocated(W0))
    driver.wait(SWEEP_S)
    assert orders(driver.result(CommandUnanswered(bind))) == [bind]
    assert swept(driver) == []
    assert swept(driver) == [bind]


def test_a_bind_of_a_pod_that_the_api_server_does_not_have_is_repeated_until_the_deletion_is_seen() -> None:
    """404: the watch should show the deletion. If its event was lost, the repetition requests a comparison."""
    driver = live_with_pod()
    driver.allocated(W0)
    assert len(swept(driver, 4)) == 3
    driver.gone("w0")
    assert swept(driver, 2) == []


def test_a_creation_without_a_result_is_ordered_again() -> None:
    driver = live()
    driver.see(a_member(count=2))
    ordered = creates(driver.accepted())
    driver.result(done(ordered[0]))
    driver.see(pod_of(ordered[0]))
    assert swept(driver) == []
    assert swept(driver) == ordered[1:]
    assert isinstance(ordered[1], CreatePlaceholder)
    driver.result(done(ordered[1]))
    driver.see(pod_of(ordered[1]))
    assert swept(driver, 3) == []


def test_a_delete_without_a_result_is_ordered_again() -> None:
    driver = live_with_pod()
    driver.result(done(orders(driver.allocated(W0))[0]))
    driver.see(a_pod("w0", nodeName="n1"), phase="Running")
    [delete] = [one for one in orders(driver.released(W0, TerminationType.PREEMPTED_BY_SCHEDULER)) if is_delete(one)]
    assert swept(driver) == []
    assert swept(driver) == [delete]


def test_a_forced_delete_without_a_result_is_ordered_again_as_such() -> None:
    driver, placeholders = reserving()
    key = uid(placeholders[0])
    driver.result(done(orders(driver.allocated(key))[0]))
    replaced = TerminationType.PLACEHOLDER_REPLACED
    order = Released(APP, PodUid(key), replaced, AllocationId(f"{key}-0"), at_once=True)
    delete = DeletePod(driver.ledger.pods[PodUid(key)].ref, problems.placeholder_replaced(), force=True)
    assert orders(driver.receive(AllocationResponse(released=(order,)))) == [delete]
    assert delete in swept(driver, 2)


def is_delete(command: Command) -> bool:
    return isinstance(command, DeletePod)


def test_a_pod_that_is_to_be_deleted_without_a_record_of_it_is_deleted() -> None:
    driver = live_with_pod()
    driver.result(done(orders(driver.allocated(W0))[0]))
    driver.released(W0, TerminationType.PREEMPTED_BY_SCHEDULER)
    driver.ledger.forget_deletion(W0)  # an exception left the state behind
    assert [type(command) for command in swept(driver, 2)] == [DeletePod]
    assert not driver.ledger.deletions[W0].placeholder, "a workload keeps its grace period"


def test_a_write_of_a_volume_without_a_result_is_ordered_again() -> None:
    driver = a_driver()
    [write] = allocated_with(driver, "disk")
    assert isinstance(write, ClaimVolume)
    assert swept(driver) == []
    assert swept(driver) == [write]


def test_the_sweep_of_a_quiet_cluster_orders_nothing() -> None:
    driver = live()
    for number in range(3):
        waiting(driver, f"w{number}")
    driver.result(done(orders(driver.allocated(W0))[0]))
    for _ in range(5):
        out = driver.wait(SWEEP_S)
        assert repeated(out) == []
        assert [item for item in out.requests if isinstance(item, AskSubmitted)] == []


def test_a_failing_repetition_prevents_neither_the_others_nor_the_next_sweep() -> None:
    driver = live()
    for name in ("w0", "w1"):
        waiting(driver, name)
        driver.allocated(f"uid-{name}")
    driver.wait(SWEEP_S)
    driver.ledger.tasks[W0].pod = None  # type: ignore[assignment] # a bug somewhere else
    driver.now += SWEEP_S
    out = Outcome()
    sweep.on_timer(driver.ledger, out, driver.now)
    assert [command.pod.name for command in repeated(out) if isinstance(command, BindPod)] == ["w1"]
    assert len(out.failures) == 1
