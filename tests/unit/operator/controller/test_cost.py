"""The work for an event depends only on the affected objects. It is counted in instructions, not in time."""

from collections.abc import Callable

import pytest

from muster_operator.model.cluster_events import NodeGone
from muster_operator.model.commands import BindPod
from muster_operator.model.core_messages import AllocationReported, SchedulingState, TerminationType
from muster_operator.model.ids import NodeName
from muster_si import keys
from tests.unit.operator.controller.driver import APP, Driver, done, live, orders
from tests.unit.operator.controller.gang import a_member, creates, pod_of, uid
from tests.unit.operator.controller.index_checks import work_of
from tests.unit.operator.controller.kubernetes import namespace_seen, seen
from tests.unit.operator.controller.objects import Raw, a_group, a_namespace, a_pod, gang_annotations
from tests.unit.operator.controller.test_auto import a_forged_pod
from tests.unit.operator.controller.test_auto import began as began_auto
from tests.unit.operator.controller.test_direct import FULL, conditions, gang_state

#: Twice as many members take twice the work, and not four times.
LINEAR = 2.2
SMALL, LARGE = 100, 200


def reserving(members: int) -> tuple[Driver, list[Raw]]:
    """A gang whose placeholders were all observed."""
    driver = live()
    for number in range(members):
        driver.see(a_member(f"w{number}", count=members))
    placeholders = [pod_of(command) for command in creates(driver.accepted())]
    for raw in placeholders:
        driver.see(raw)
    return driver, placeholders


def binding_after_the_core_runs(members: int) -> int:
    """The core reports Running when all reservations are allocated; the binds are confirmed later, one by one."""
    driver, placeholders = reserving(members)
    binds = [bind for raw in placeholders for bind in orders(driver.allocated(uid(raw)))]
    assert all(isinstance(bind, BindPod) for bind in binds)
    driver.updated(keys.APP_RUNNING)

    def confirm() -> None:
        for bind in binds:
            driver.result(done(bind))

    return work_of(confirm)


def losing_placeholders(members: int) -> int:
    """A user deletes all placeholders of a reserving gang; each is created again."""
    driver, placeholders = reserving(members)
    made: list[object] = []

    def lose() -> None:
        for raw in placeholders:
            made.extend(creates(driver.gone_uid(raw["metadata"]["uid"])))

    work = work_of(lose)
    assert len(made) == members
    return work


def running(members: int) -> tuple[Driver, list[Raw]]:
    """A gang whose members have replaced its placeholders."""
    driver, placeholders = reserving(members)
    for raw in placeholders:
        driver.allocated(uid(raw))
        driver.see({**raw, "spec": {**raw["spec"], "nodeName": "n1"}})
    driver.updated(keys.APP_RUNNING)
    pods = [a_member(f"w{number}", count=members) for number in range(members)]
    for raw, placeholder in zip(pods, placeholders, strict=True):
        driver.released(uid(placeholder), TerminationType.PLACEHOLDER_REPLACED)
        driver.gone_uid(placeholder["metadata"]["uid"])
        driver.allocated(uid(raw))
        raw["spec"]["nodeName"] = "n1"
        driver.see(raw)
    return driver, pods


def refusing_members(members: int) -> int:
    """The kubelet rejects every member of a running gang, and its controller creates replacements."""
    driver, pods = running(members)
    failed = {"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: out of cpu"}
    facts = [seen({**raw, "status": {**raw["status"], **failed}}) for raw in pods]
    others = [seen(a_member(f"again{number}", count=members)) for number in range(members)]
    kept: list[object] = []

    def refuse() -> None:
        for of_pod, of_other in zip(facts, others, strict=True):
            kept.extend(item for item in driver.fact(of_pod).requests if isinstance(item, AllocationReported))
            driver.fact(of_other)

    work = work_of(refuse)
    assert len(kept) == members
    return work


@pytest.mark.parametrize("event", [binding_after_the_core_runs, losing_placeholders, refusing_members])
def test_events_of_all_members_of_a_gang_cost_work_linear_in_the_members(event: Callable[[int], int]) -> None:
    event(SMALL)  # so that nothing is remembered for the first time
    assert event(LARGE) < LINEAR * event(SMALL)


def losing_a_node(others: int) -> int:
    """A node with one pod is deleted; all other pods are on other nodes."""
    driver = live("n1", "n2")
    for number in range(others):
        driver.see(a_pod(f"foreign{number}", schedulerName="other", nodeName="n2"))
        driver.see(a_pod(f"own{number}", app="job", nodeName="n2"))
        driver.see(a_pod(f"stray{number}", app="x" * 100, nodeName="n2"))
    driver.see(a_pod("foreign", schedulerName="other", nodeName="n1"))
    driver.see(a_pod("own", app="job", nodeName="n1"))
    driver.see(a_pod("stray", app="x" * 100, nodeName="n1"))
    driver.accepted()
    work = work_of(lambda: driver.fact(NodeGone(NodeName("n1"))))
    assert driver.ledger.awaiting_node == {NodeName("n1"): {"uid-foreign", "uid-own", "uid-stray"}}
    return work


def test_a_node_deletion_costs_no_more_work_for_pods_on_other_nodes() -> None:
    losing_a_node(1)
    assert losing_a_node(300) < 1.1 * losing_a_node(1)


def comparing_task_groups(groups: int) -> int:
    """A member appears in an Auto gang. The other task groups have a placeholder pod for each absent member."""
    driver = live()
    others = [a_group(f"g{number}", 5) for number in range(groups)]
    annotations = gang_annotations(a_group("first", 1), *others, parameters="gangPlacement=Auto", member_of="first")
    driver.see(a_pod("w0", app=APP, annotations=annotations))
    driver.accepted()
    commands = creates(driver.wait(1))
    assert len(commands) == 5 * groups
    for command in commands:
        driver.see(pod_of(command))
    driver.see(a_pod("w1", app=APP, annotations=annotations))
    return work_of(lambda: driver.wait(1))


def test_comparing_members_and_slots_costs_work_linear_in_the_slots() -> None:
    comparing_task_groups(5)
    assert comparing_task_groups(20) < LINEAR * comparing_task_groups(10)


def a_surplus_in_each_group(groups: int) -> int:
    """A member appears in each task group of an Auto gang, which has a placeholder pod for each absent member."""
    driver = live()
    others = [a_group(f"g{number}", 5) for number in range(groups)]

    def annotations(group: str) -> dict[str, str]:
        return gang_annotations(a_group("first", 1), *others, parameters="gangPlacement=Auto", member_of=group)

    driver.see(a_pod("w0", app=APP, annotations=annotations("first")))
    driver.accepted()
    for command in creates(driver.wait(1)):
        driver.see(pod_of(command))
    for number in range(groups):
        driver.see(a_pod(f"w{number + 1}", app=APP, annotations=annotations(f"g{number}")))
    return work_of(lambda: driver.wait(1))


def test_removing_surplus_pods_costs_work_linear_in_the_slots() -> None:
    a_surplus_in_each_group(5)
    assert a_surplus_in_each_group(20) < LINEAR * a_surplus_in_each_group(10)


def unverified_pods_without_an_originator(count: int) -> int:
    """The originator of an Auto gang has ended, and its other pods have a forged mark. One more such pod appears."""
    driver = began_auto("w0")
    driver.updated(keys.APP_RUNNING)
    [order] = orders(driver.allocated("uid-w0"))
    driver.result(done(order))
    for number in range(count):
        driver.see(a_forged_pod(f"forged{number}"))
    driver.gone("w0")
    return work_of(lambda: driver.see(a_forged_pod("late")))


def test_the_cost_of_a_pod_with_a_forged_mark_does_not_depend_on_their_number() -> None:
    unverified_pods_without_an_originator(1)
    assert unverified_pods_without_an_originator(200) < 1.1 * unverified_pods_without_an_originator(20)


def repeating_a_reason(members: int) -> int:
    """The core reports again why the members of an Auto gang wait: a slot without a pod is requested again."""
    driver = live()
    for number in range(members):
        driver.see(a_member(f"w{number}", count=members, parameters="gangPlacement=Auto"))
    driver.accepted()
    gang_state(driver, SchedulingState.FAILED, FULL)
    assert len(conditions(driver.wait(5))) == members
    return work_of(lambda: gang_state(driver, SchedulingState.FAILED, FULL))


def test_an_unchanged_reason_costs_no_more_work_for_a_larger_gang() -> None:
    repeating_a_reason(SMALL)
    assert repeating_a_reason(LARGE) < 1.1 * repeating_a_reason(SMALL)


def seeing_a_namespace(members: int) -> int:
    """A new namespace while an application of another namespace has this many members."""
    driver = live()
    for number in range(members):
        driver.see(a_pod(f"p{number}"))
    driver.accepted()
    return work_of(lambda: driver.fact(namespace_seen(a_namespace("new"))))


def test_a_new_namespace_costs_the_same_for_any_number_of_members_elsewhere() -> None:
    assert seeing_a_namespace(LARGE) == seeing_a_namespace(SMALL)
