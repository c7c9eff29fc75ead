"""A kubelet rejects a pod that was bound to its node: the gang keeps the reservation."""

from dataclasses import dataclass, field

import pytest

from muster_operator.model.core_messages import (
    AllocationReleased,
    AllocationReported,
    AskSubmitted,
    CoreRequest,
    TerminationType,
)
from muster_operator.model.ids import AppId, PodUid
from muster_operator.model.settings import Settings
from muster_operator.model.states import AppState
from muster_si import keys
from tests.unit.operator.controller.core import Core
from tests.unit.operator.controller.objects import Raw, a_group, a_node, a_pod, gang_annotations
from tests.unit.operator.controller.simulation import Simulation

JOB = AppId("dev/job")
PLACE = PodUid("uid-w0/place")
REPLACED = TerminationType.PLACEHOLDER_REPLACED
SETTINGS = Settings()
DAEMON_SET = {"kind": "DaemonSet", "apiVersion": "apps/v1", "uid": "d", "name": "d", "controller": True}
ON_N0 = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}
REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [ON_N0]}}


@dataclass
class ListeningCore(Core):
    """Records the requests that it receives."""

    received: list[CoreRequest] = field(default_factory=list)

    def take(self, requests: CoreRequest) -> None:
        """Record the request, then handle it."""
        self.received.append(requests)
        super().take(requests)

    def about(self, key: PodUid) -> list[CoreRequest]:
        """Reports and releases of this key."""
        reported: list[CoreRequest] = [
            item for item in self.received if isinstance(item, AllocationReported) and item.allocation.ask.key == key
        ]
        return reported + [item for item in self.received if isinstance(item, AllocationReleased) and item.key == key]


def a_worker(name: str, members: int = 2) -> Raw:
    return a_pod(name, app=JOB, annotations=gang_annotations(a_group("g", members), member_of="g"))


def the_core(simulation: Simulation) -> ListeningCore:
    assert isinstance(simulation.core, ListeningCore)
    return simulation.core


def started(nodes: int = 2) -> Simulation:
    simulation = Simulation(core=ListeningCore())
    for number in range(nodes):
        simulation.kubernetes.add_node(a_node(f"n{number}"))
    return simulation.start()


def running(members: int = 2, nodes: int = 2) -> Simulation:
    """A gang whose members w0, w1, ... are bound."""
    simulation = started(nodes)
    simulation.kubernetes.add(*(a_worker(f"w{number}", members) for number in range(members)))
    simulation.run()
    assert simulation.ledger.applications[JOB].state is AppState.RUNNING
    assert simulation.kubernetes.placeholders() == []
    return simulation


def refuse(simulation: Simulation, name: str = "w0", reason: str = "OutOfcpu") -> str:
    """The kubelet does not start the pod; returns its node."""
    node = simulation.kubernetes.node_of(name)
    simulation.kubernetes.change(name, phase="Failed", reason=reason)
    simulation.run()
    assert node is not None
    return node


def last_ask(simulation: Simulation, name: str) -> AskSubmitted:
    asks = [item for item in the_core(simulation).received if isinstance(item, AskSubmitted)]
    return [item for item in asks if item.ask.key == f"uid-{name}"][-1]


def notes(simulation: Simulation) -> list[str]:
    return [event.note for event in simulation.kubernetes.events if event.action == "MemberRejected"]


def test_the_reservation_of_a_rejected_member_is_reported_before_the_member_is_released() -> None:
    """Otherwise another application may take the quota or the resources of the node in between."""
    simulation = running()
    node = refuse(simulation)
    received = the_core(simulation).received
    (reported,) = (item for item in received if isinstance(item, AllocationReported))
    (released,) = (item for item in received if isinstance(item, AllocationReleased) and item.key == "uid-w0")
    assert received.index(reported) < received.index(released)
    ask = reported.allocation.ask
    assert (ask.key, ask.placeholder, ask.task_group, reported.allocation.node) == (PLACE, True, "g", node)
    assert dict(ask.resources) == {"vcore": 1000, "memory": 2**30, "pods": 1}
    refusal = f"the kubelet of node {node} rejected pod w0 (OutOfcpu)"
    assert notes(simulation) == [f"{refusal}; its slot is reserved for 120 s for another pod of task group g"]


def test_the_replacement_pod_takes_the_reservation_and_avoids_the_node() -> None:
    simulation = running()
    node = refuse(simulation)
    simulation.kubernetes.add(a_worker("w9"))
    simulation.run()
    assert last_ask(simulation, "w9").ask.tags[keys.TAG_AVOID_NODES] == node
    assert simulation.kubernetes.node_of("w9") not in {node, None}
    released = the_core(simulation).about(PLACE)[-1]
    assert isinstance(released, AllocationReleased)
    assert released.termination is REPLACED
    assert simulation.ledger.places == {}


def test_the_node_may_be_used_again_after_a_while_and_is_still_reserved() -> None:
    simulation = running(nodes=1)
    refuse(simulation)
    simulation.kubernetes.add(a_worker("w9"))
    simulation.run()
    assert simulation.kubernetes.node_of("w9") is None
    simulation.wait(SETTINGS.avoid_node_s)
    assert simulation.kubernetes.node_of("w9") == "n0"


def test_a_pod_that_is_rejected_again_avoids_both_nodes() -> None:
    simulation = running(nodes=3)
    first = refuse(simulation)
    simulation.kubernetes.add(a_worker("w8"))
    simulation.run()
    second = refuse(simulation, "w8")
    simulation.kubernetes.add(a_worker("w9"))
    simulation.run()
    assert last_ask(simulation, "w9").ask.tags[keys.TAG_AVOID_NODES] == f"{first},{second}"


def test_a_reservation_that_no_pod_uses_expires() -> None:
    simulation = running()
    refuse(simulation)
    simulation.wait(SETTINGS.keep_slot_s - 1)
    assert PLACE in simulation.ledger.places
    simulation.wait(1)
    assert simulation.ledger.places == {}
    assert PLACE not in simulation.core.apps[JOB].held


def test_a_rejected_pod_beyond_the_gang_size_keeps_no_reservation() -> None:
    simulation = running()
    simulation.kubernetes.add(a_worker("extra"))
    simulation.run()
    refuse(simulation, "extra")
    assert simulation.ledger.places == {}
    assert not [item for item in the_core(simulation).received if isinstance(item, AllocationReported)]


@pytest.mark.parametrize("reason", ["Error", "Evicted"])
def test_a_member_that_ran_and_failed_keeps_no_reservation(reason: str) -> None:
    simulation = running()
    ran = [{"name": "main", "state": {"terminated": {"exitCode": 1}}}]
    simulation.kubernetes.change("w0", phase="Failed", reason=reason, containerStatuses=ran)
    simulation.run()
    assert simulation.ledger.places == {}
    assert notes(simulation) == []


def test_a_rejected_pod_without_a_gang_is_replaced_on_another_node() -> None:
    simulation = started()
    simulation.kubernetes.add(a_pod("w0", app=JOB))
    simulation.run()
    node = refuse(simulation, reason="UnexpectedAdmissionError")
    simulation.kubernetes.add(a_pod("w9", app=JOB), a_pod("w10", app=JOB))
    simulation.run()
    assert last_ask(simulation, "w9").ask.tags[keys.TAG_AVOID_NODES] == node
    assert keys.TAG_AVOID_NODES not in last_ask(simulation, "w10").ask.tags
    assert simulation.ledger.places == {}


def test_a_pod_that_is_created_later_does_not_avoid_the_node() -> None:
    simulation = running()
    refuse(simulation)
    simulation.wait(SETTINGS.avoid_node_s)
    simulation.kubernetes.add(a_worker("w9"))
    simulation.run()
    assert keys.TAG_AVOID_NODES not in last_ask(simulation, "w9").ask.tags
    assert simulation.kubernetes.node_of("w9") is not None


def test_a_rejected_daemon_pod_is_retried_on_its_node_and_no_other_pod_avoids_it() -> None:
    simulation = started()
    pods = [a_pod(name, app=JOB, affinity={"nodeAffinity": REQUIRED}) for name in ("w0", "w9")]
    for pod in pods:
        pod["metadata"]["ownerReferences"] = [DAEMON_SET]
    simulation.kubernetes.add(pods[0])
    simulation.run()
    refuse(simulation)
    simulation.kubernetes.add(pods[1], a_pod("plain", app=JOB))
    simulation.run()
    assert keys.TAG_REQUIRED_NODE in last_ask(simulation, "w9").ask.tags
    assert keys.TAG_AVOID_NODES not in last_ask(simulation, "w9").ask.tags
    assert keys.TAG_AVOID_NODES not in last_ask(simulation, "plain").ask.tags


def test_a_daemon_pod_does_not_avoid_its_node_after_the_rejection_of_another_pod() -> None:
    simulation = started(nodes=1)
    simulation.kubernetes.add(a_pod("w0", app=JOB))
    simulation.run()
    refuse(simulation)
    daemon = a_pod("d", app=JOB, affinity={"nodeAffinity": REQUIRED})
    daemon["metadata"]["ownerReferences"] = [DAEMON_SET]
    simulation.kubernetes.add(daemon)
    simulation.run()
    assert simulation.kubernetes.node_of("d") == "n0"


def test_a_gang_that_was_given_up_keeps_no_reservations() -> None:
    """Its members were scheduled one by one, without reservations."""
    simulation = started()
    simulation.core.is_stingy = True
    simulation.kubernetes.add(a_worker("w0"), a_worker("w1"))
    simulation.run()
    simulation.core.time_out(JOB)
    simulation.core.is_stingy = False
    simulation.run()
    refuse(simulation)
    assert simulation.ledger.applications[JOB].state is AppState.RUNNING
    assert simulation.ledger.places == {}


def test_a_rejected_placeholder_of_a_fully_reserved_gang_keeps_its_reservation() -> None:
    """Its member does not exist yet and needs the reservation."""
    simulation = started()
    simulation.kubernetes.add(a_worker("w0", members=3))
    simulation.run()
    left = [raw["metadata"]["name"] for raw in simulation.kubernetes.placeholders()]
    assert len(left) == 2
    refuse(simulation, left[0], "OutOfpods")
    assert len(simulation.ledger.places) == 1
    assert len(simulation.kubernetes.placeholders()) == 1
    simulation.kubernetes.add(a_worker("w1", members=3), a_worker("w2", members=3))
    simulation.run()
    assert simulation.kubernetes.node_of("w1") is not None
    assert simulation.kubernetes.node_of("w2") is not None
    assert simulation.ledger.places == {}
    assert simulation.kubernetes.placeholders() == []


def test_a_reservation_is_removed_with_its_node() -> None:
    simulation = running()
    node = refuse(simulation)
    simulation.kubernetes.remove_node(node)
    simulation.run()
    assert simulation.ledger.places == {}


def test_a_reservation_survives_a_restart_of_the_core_and_its_timer_continues() -> None:
    simulation = running()
    node = refuse(simulation)
    simulation.wait(SETTINGS.keep_slot_s - 10)
    simulation.kill_core()
    simulation.run()
    held = simulation.core.apps[JOB].held[PLACE]
    assert (held.node, held.ask.placeholder) == (node, True)
    simulation.wait(10)
    assert PLACE not in simulation.core.apps[JOB].held
    assert simulation.ledger.places == {}


def test_a_reservation_of_a_deleted_gang_or_node_is_removed_with_the_session() -> None:
    simulation = running()
    node = refuse(simulation)
    simulation.kubernetes.remove_node(node)
    simulation.kill_core()
    simulation.run()
    assert simulation.ledger.places == {}
    simulation = running()
    refuse(simulation)
    for name in ("w0", "w1"):
        simulation.kubernetes.delete_by_name(name)
    simulation.kill_core()
    simulation.run()
    assert simulation.ledger.places == {}


def test_a_restart_of_the_operator_drops_a_reservation() -> None:
    """No Kubernetes object represents it (ADR 0011)."""
    simulation = running()
    refuse(simulation)
    simulation.kill_operator(lose_commands=False)
    simulation.run()
    assert simulation.ledger.places == {}
    assert [held for held in simulation.core.apps[JOB].held.values() if held.ask.placeholder] == []
