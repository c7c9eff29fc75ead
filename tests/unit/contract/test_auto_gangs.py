"""Auto gangs with operator and core: placeholder pods only for members that are absent after a quiet period."""

import pytest

from muster_operator.model.ids import AppId
from tests.unit.contract import gangs
from tests.unit.contract.agent_and_core import Both
from tests.unit.contract.test_restarts import Kill, both_of_them, every_kill, the_core
from tests.unit.operator.controller.objects import Raw, a_container, a_node, a_pod

APP = AppId("dev/app")
QUIET_S = 1
"""Longer than ``gang.memberQuietPeriod``, shorter than ``gang.memberWait``."""

WAIT_S = 6
"""Longer than ``gang.memberWait``, after which a complete gang creates pods."""


def a_member(both: Both, name: str, *, extra: str = "", cpu: str = "1") -> Raw:
    return gangs.a_member(both, name, f"gangPlacement=Auto {extra}".strip(), cpu=cpu)


def began(*names: str, nodes: int = 1, extra: str = "", cpu: str = "1") -> Both:
    """Return nodes of eight CPUs, and these members of a gang of four."""
    both = gangs.on_nodes(nodes)
    return gangs.add(both, *(a_member(both, name, extra=extra, cpu=cpu) for name in names))


def pods(both: Both) -> list[bool]:
    """Return whether each placeholder pod has a node, those without a node first."""
    return sorted(bool(raw["spec"].get("nodeName")) for raw in both.kubernetes.placeholders())


def creations(both: Both) -> int:
    return both.kubernetes.writes["CreatePlaceholder"]


def test_a_burst_of_members_gets_no_placeholder_pod() -> None:
    both = began("w0", "w1", "w2", "w3")
    both.wait(10)
    assert all(both.kubernetes.node_of(f"w{number}") for number in range(4))
    assert creations(both) == 0
    assert both.kubernetes.writes["BindPod"] == 4


def test_absent_members_of_a_complete_gang_get_pods_on_the_reserved_nodes() -> None:
    both = began("w0")
    assert both.kubernetes.node_of("w0")
    both.wait(QUIET_S)
    assert pods(both) == []
    both.wait(WAIT_S)
    assert pods(both) == [True] * 3
    both.kubernetes.add(*(a_member(both, f"w{number}") for number in range(1, 4)))
    both.run()
    assert all(both.kubernetes.node_of(f"w{number}") for number in range(4))
    assert pods(both) == []
    assert creations(both) == 3


def test_absent_members_of_a_gang_without_nodes_get_pending_pods() -> None:
    both = began("w0", cpu="3")
    both.wait(QUIET_S)
    assert pods(both) == [False] * 3
    both.wait(10)
    [member] = [raw for raw in both.kubernetes.pods.values() if raw["metadata"]["name"] == "w0"]
    assert [(one["reason"], one["status"]) for one in member["status"]["conditions"]] == [("Unschedulable", "False")]
    both.kubernetes.add_node(a_node("more"))
    both.run()
    assert both.kubernetes.node_of("w0")
    assert pods(both) == [True] * 3


def test_the_core_plans_the_slot_of_a_member_as_its_pod_and_the_pods_of_absent_members_together() -> None:
    """They differ in their images."""
    both = began("w0", cpu="3")
    app = both.real.applications_there[APP]
    assert len([kind for kind in app.waiting if kind.placeholder]) == 1
    both.wait(QUIET_S)
    [slot] = [ask for ask in app.asks.values() if ask.spec.is_virtual]
    [member] = [ask for ask in app.asks.values() if not ask.spec.placeholder]
    assert slot.left == 1
    assert slot.kind.pod_on_node == member.kind.pod_on_node
    assert len([kind for kind in app.waiting if kind.placeholder]) == 2


def test_a_member_takes_the_slot_of_a_pod_without_a_node() -> None:
    both = began("w0", cpu="3")
    both.wait(QUIET_S)
    both.kubernetes.add(a_member(both, "w1", cpu="3"))
    both.run()
    both.wait(QUIET_S)
    assert pods(both) == [False] * 2
    both.kubernetes.add_node(a_node("more"))
    both.run()
    assert both.kubernetes.node_of("w0")
    assert both.kubernetes.node_of("w1")
    assert pods(both) == [True] * 2


def test_a_deleted_member_gets_a_pod_after_the_quiet_period() -> None:
    both = began("w0", "w1", "w2", "w3", cpu="3")
    both.wait(QUIET_S)
    assert pods(both) == []
    both.kubernetes.delete_by_name("w3")
    both.run()
    assert pods(both) == []
    both.wait(QUIET_S)
    assert pods(both) == [False]


def test_a_deleted_pod_is_created_again_on_the_same_node() -> None:
    both = began("w0")
    both.wait(WAIT_S)
    first = both.kubernetes.placeholders()[0]
    both.kubernetes.delete(first["metadata"]["uid"])
    both.run()
    both.wait(WAIT_S)
    assert pods(both) == [True] * 3
    assert creations(both) == 4


def test_a_member_that_ran_and_ended_gets_no_pod() -> None:
    both = began("w0", "w1", "w2", "w3")
    both.kubernetes.delete_by_name("w3")
    both.run()
    both.wait(10)
    assert creations(both) == 0


@pytest.mark.parametrize("style", ["Soft", "Hard"])
def test_the_wait_timeout_ends_pods_and_reservation(style: str) -> None:
    both = began("w0", cpu="3", extra=f"gangWaitTimeoutInSeconds=20 gangSchedulingStyle={style}")
    both.wait(QUIET_S)
    assert pods(both) == [False] * 3
    both.wait(30)
    assert pods(both) == []
    [member] = both.kubernetes.pods.values()
    assert member["status"]["phase"] == ("Failed" if style == "Hard" else "Pending")
    assert bool(both.kubernetes.node_of("w0")) == (style == "Soft")
    both.wait(60)
    assert creations(both) == 3


def test_the_placeholder_timeout_ends_unused_pods_for_good() -> None:
    both = began("w0", extra="placeholderTimeoutInSeconds=20")
    both.wait(WAIT_S)
    assert pods(both) == [True] * 3
    both.wait(30)
    assert pods(both) == []
    both.wait(60)
    assert creations(both) == 3
    assert both.kubernetes.node_of("w0")


def test_pods_that_cannot_be_created_leave_their_slots_reserved() -> None:
    both = began("w0")
    both.kubernetes.refuse_creates = 1
    both.wait(WAIT_S)
    app = both.real.applications_there[APP]
    assert sum(one.spec.placeholder for one in app.allocations.values()) == 3
    both.kubernetes.add(*(a_member(both, f"w{number}") for number in range(1, 4)))
    both.run()
    assert all(both.kubernetes.node_of(f"w{number}") for number in range(4))


def rejected_by_kubelet(both: Both, name: str) -> None:
    """The kubelet rejects this member, and the pod is deleted."""
    both.kubernetes.change(name, phase="Failed", reason="OutOfcpu")
    both.run()
    both.kubernetes.delete_by_name(name)
    both.run()


def reserved(both: Both) -> int:
    """Return how many slots have a node without a member."""
    return sum(one.spec.placeholder for one in both.real.applications_there[APP].allocations.values())


def test_the_slot_of_a_member_that_its_kubelet_rejected_gets_a_pod_if_no_replacement_appears() -> None:
    both = began("w0", "w1", "w2", "w3", extra="placeholderTimeoutInSeconds=300")
    rejected_by_kubelet(both, "w1")
    both.wait(100)
    assert (reserved(both), pods(both)) == (1, [])
    both.wait(30)
    assert (reserved(both), pods(both)) == (1, [True])
    both.wait(200)
    assert (reserved(both), pods(both)) == (0, [])
    both.wait(60)
    assert creations(both) == 1


def test_a_kept_slot_gets_a_pod_after_another_member_was_replaced() -> None:
    both = began("w0", "w1", "w2", "w3", extra="placeholderTimeoutInSeconds=3000")
    both.kubernetes.change("w3", phase="Failed", reason="Error")
    both.run()
    both.kubernetes.delete_by_name("w3")
    both.kubernetes.add(a_member(both, "w4"))
    both.run()
    assert both.kubernetes.node_of("w4")
    rejected_by_kubelet(both, "w1")
    both.wait(130)
    assert (reserved(both), pods(both)) == (1, [True])


@every_kill
def test_a_kept_slot_gets_a_pod_after_a_member_has_completed(kill: Kill) -> None:
    both = began("w0", "w1", "w2", "w3", extra="placeholderTimeoutInSeconds=3000")
    both.wait(10)
    both.kubernetes.change("w3", phase="Succeeded")
    both.kubernetes.add(a_member(both, "w4"))
    both.run()
    assert both.kubernetes.node_of("w4")
    kill(both)
    both.run()
    both.wait(20)
    both.kubernetes.delete_by_name("w4")
    both.run()
    rejected_by_kubelet(both, "w1")
    both.wait(130)
    assert (reserved(both), pods(both)) == (1, [True])


def test_absent_members_keep_their_slots_if_the_replacement_of_a_rejected_member_takes_one() -> None:
    both = began("w0", "w1", nodes=2)
    both.wait(WAIT_S)
    assert pods(both) == [True] * 2
    rejected_by_kubelet(both, "w1")
    both.kubernetes.add(a_member(both, "w9"))
    both.run()
    assert both.kubernetes.node_of("w9")
    both.wait(130)
    assert (reserved(both), pods(both)) == (2, [True] * 2)
    both.kubernetes.delete(both.kubernetes.placeholders()[0]["metadata"]["uid"])
    both.run()
    both.wait(WAIT_S)
    assert pods(both) == [True] * 2


@every_kill
def test_after_a_restart_pods_without_a_node_keep_their_slots(kill: Kill) -> None:
    both = began("w0", cpu="3")
    both.wait(QUIET_S)
    kill(both)
    both.run()
    both.wait(QUIET_S)
    assert pods(both) == [False] * 3
    assert creations(both) == 3
    both.kubernetes.add_node(a_node("more"))
    both.run()
    assert both.kubernetes.node_of("w0")
    assert pods(both) == [True] * 3


@every_kill
def test_after_a_restart_a_complete_gang_keeps_its_pods(kill: Kill) -> None:
    both = began("w0")
    both.wait(WAIT_S)
    kill(both)
    both.run()
    both.wait(WAIT_S)
    assert pods(both) == [True] * 3
    assert creations(both) == 3
    both.kubernetes.add(*(a_member(both, f"w{number}") for number in range(1, 4)))
    both.run()
    assert all(both.kubernetes.node_of(f"w{number}") for number in range(4))
    assert pods(both) == []


@every_kill
def test_after_a_restart_during_the_wait_absent_members_get_pods(kill: Kill) -> None:
    both = began("w0")
    kill(both)
    both.run()
    both.wait(WAIT_S)
    assert pods(both) == [True] * 3


@pytest.mark.parametrize("kill", [the_core, both_of_them], ids=lambda kill: kill.__name__)
def test_after_a_restart_a_running_gang_without_enough_nodes_gets_pods_after_the_quiet_period(kill: Kill) -> None:
    """Meanwhile a pod of another scheduler has taken a node that was reserved for absent members."""
    both = began("w0", nodes=2, cpu="3")
    node = both.kubernetes.node_of("w0")
    other = a_pod("other", schedulerName="default-scheduler", nodeName="n0" if node == "n1" else "n1")
    other["spec"]["containers"] = [a_container(cpu="8")]
    both.kubernetes.add(other)
    kill(both)
    both.run()
    both.wait(QUIET_S)
    assert pods(both) == [False] * 3


@every_kill
def test_after_a_restart_no_pod_is_created_for_slots_that_had_timed_out(kill: Kill) -> None:
    both = began("w0", extra="placeholderTimeoutInSeconds=20")
    both.wait(30)
    made = creations(both)
    assert (made, pods(both)) == (3, [])
    kill(both)
    both.run()
    both.wait(60)
    assert (creations(both), pods(both)) == (made, [])
