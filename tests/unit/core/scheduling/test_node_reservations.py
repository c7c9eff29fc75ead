"""Node reservations for a waiting request (docs/internals/adr/0007)."""

from dataclasses import replace

import pytest

from muster_core.model.config import Configuration, Timing
from muster_core.model.constraints import Constraints, Toleration
from muster_core.model.events import AllocationReleased, Event, NodeAction, NodeUpdated
from muster_core.model.ids import AllocationKey, ApplicationId, NodeId, QueuePath, Termination
from muster_core.model.records import Change, Detail
from muster_core.scheduling.scheduler import CyclePhase, cycle, step
from tests.unit.builders import (
    PARTITION,
    SECOND,
    a_configuration,
    a_node,
    a_queue,
    an_allocation,
    an_application,
    an_ask,
)
from tests.unit.core.scheduling.preemption_scenario import (
    PREEMPTED,
    a_daemon,
    never,
    pods,
    run,
    victims,
    with_preemption,
)
from tests.unit.core.scheduling.scenario import Scenario, placed, waits

_N0 = NodeId("n0")


def queues() -> Configuration:
    timing = Timing(reservation_timeout_ns=100 * SECOND)
    return a_configuration(a_queue("a"), a_queue("b"), timing=timing)


def waiting_for_resources() -> Scenario:
    """root.a waits for 3 cores of n0, of which others use 3 of 4."""
    scenario = Scenario(queues(), nodes=1)
    run(scenario, "root.b", *pods("b", 3))
    run(scenario, "root.a", an_ask("wide", vcore=3000))
    return scenario


def test_a_node_is_reserved_for_the_ask_after_the_delay_and_reported() -> None:
    scenario = waiting_for_resources()
    assert waits(scenario.wait(1)) == {}
    assert waits(scenario.wait(2)) == {
        "wide": ("RESERVED", "node n0 is reserved for the pod until enough resources are free")
    }
    [note] = [note for note in scenario.records if note.detail is Detail.NODE_RESERVATION]
    assert (note.subject, note.reference, note.change) == ("n0", "wide", Change.ADD)
    assert [hold.key for hold in scenario.partition.reservations.on(_N0)] == ["wide"]
    assert [hold.node for hold in scenario.partition.reservations.of(ApplicationId("a"))] == ["n0"]


def test_resources_freed_on_a_reserved_node_are_kept_for_the_reservation() -> None:
    scenario = waiting_for_resources()
    scenario.wait(3)
    assert placed(run(scenario, "root.b", an_ask("late"))) == {}
    assert placed(scenario.release("b0", app="b")) == {}
    assert placed(scenario.release("b1", app="b")) == {"wide": "n0"}
    assert not scenario.partition.reservations


def test_other_asks_use_resources_that_the_reservation_does_not_need() -> None:
    scenario = Scenario(queues(), nodes=1, vcore=4000)
    run(scenario, "root.b", an_ask("b", vcore=3000))
    run(scenario, "root.a", an_ask("wide", vcore=2000))
    scenario.wait(3)
    assert placed(run(scenario, "root.b", an_ask("late"), an_ask("light", vcore=0))) == {"light": "n0"}


def test_only_the_first_ask_of_a_leaf_gets_a_reservation_and_the_next_follows() -> None:
    scenario = waiting_for_resources()
    run(scenario, "root.a", an_ask("second", vcore=4000))
    scenario.wait(10)
    assert list(scenario.partition.reservations.by_ask) == [("a", "wide")]
    scenario.release("b0", app="b")
    scenario.release("b1", app="b")
    scenario.wait(10)
    assert list(scenario.partition.reservations.by_ask) == [("a", "second")]


def test_a_node_is_reserved_for_the_first_application_whichever_request_arrived_first() -> None:
    """After a restart requests of one second arrive in any order."""
    scenario = Scenario(queues(), nodes=1)
    run(scenario, "root.b", *pods("b", 3))
    for app in ("one", "two"):
        scenario.submit(an_application(app, queue="root.a"))
    for app in ("two", "one"):
        scenario.ask(an_ask(f"{app}-wide", app=app, vcore=3000))
    scenario.wait(3)
    assert [hold.key for hold in scenario.partition.reservations.on(_N0)] == ["one-wide"]


def test_a_node_too_small_for_the_ask_is_not_reserved() -> None:
    scenario = Scenario(queues(), nodes=1)
    run(scenario, "root.a", an_ask("huge", vcore=5000))
    scenario.wait(60)
    assert not scenario.partition.reservations


def test_the_node_with_the_smallest_shortage_is_reserved() -> None:
    scenario = Scenario(queues())
    for name, vcore in (("n0", 4000), ("n1", 4000)):
        scenario.add_node(name, vcore=vcore)
    run(scenario, "root.b", an_ask("most", vcore=3500), an_ask("less", vcore=2500))
    run(scenario, "root.a", an_ask("wide", vcore=3000))
    scenario.wait(3)
    [hold] = scenario.partition.reservations.by_ask.values()
    [less] = scenario.app("b").ids[an_ask("less").key]
    assert hold.node == scenario.app("b").allocations[less].node


def test_an_ask_with_a_reservation_uses_another_node_that_is_free_first() -> None:
    scenario = waiting_for_resources()
    scenario.wait(3)
    assert placed(scenario.add_node("n1")) == {"wide": "n1"}
    assert not scenario.partition.reservations
    assert placed(run(scenario, "root.b", an_ask("late"))) in ({"late": "n0"}, {"late": "n1"})


def test_a_reservation_ends_with_its_ask_or_its_node_or_after_its_timeout() -> None:
    for end in ("ask", "drain", "gone", "small", "time"):
        scenario = waiting_for_resources()
        run(scenario, "root.b", an_ask("waits", vcore=1000))
        scenario.wait(3)
        assert scenario.partition.reservations
        match end:
            case "ask":
                effects = scenario.release_ask("wide", app="a")
                assert placed(effects) == {}, "its core went to the one that came before"
            case "drain":
                scenario.node("n0", NodeAction.DRAIN)
            case "gone":
                scenario.node("n0", NodeAction.DECOMMISSION)
            case "small":
                scenario.send(NodeUpdated(a_node("n0", 2999)))
            case _:
                scenario.wait(100)
        assert not scenario.partition.reservations, end


def test_the_reason_of_a_waiting_ask_is_reported_again_when_its_reservation_expires() -> None:
    scenario = waiting_for_resources()
    scenario.wait(3)
    effects = scenario.wait(100)
    assert waits(effects)["wide"][0] in ("FAILED", "RESERVED")


def test_a_daemon_pod_ignores_reservations_of_others() -> None:
    scenario = waiting_for_resources()
    scenario.wait(3)
    assert placed(run(scenario, "root.b", an_ask("other"))) == {}
    assert placed(run(scenario, "root.b", a_daemon("daemon", "n0"))) == {"daemon": "n0"}


def test_a_daemon_pod_uses_a_reservation_left_by_its_application_only_once() -> None:
    scenario = Scenario(with_preemption(a_queue("a", guaranteed=2000), a_queue("b")), nodes=1)
    run(scenario, "root.b", *(a_daemon(f"b{index}", "n0") for index in range(3)), an_ask("victim"))
    run(scenario, "root.a", an_ask("x"))
    assert victims(scenario.wait(31)) == {"victim"}
    run(scenario, "root.a", a_daemon("daemon", "n0"))
    scenario.wait(3)
    assert reserved(scenario, "a") == [("x", "n0"), ("daemon", "n0")]
    assert placed(scenario.add_node("n1")) == {"x": "n1"}
    assert scenario.partition.void_decisions == 0
    assert placed(scenario.release("victim", app="b", why=PREEMPTED)) == {"daemon": "n0"}


def test_a_pod_with_a_required_node_gets_the_kube_scheduler_reason_for_other_nodes() -> None:
    scenario = Scenario(queues(), nodes=2)
    effects = run(scenario, "root.a", a_daemon("daemon", "n1", vcore=5000))
    text = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    assert waits(effects) == {"daemon": ("FAILED", text)}


def reserved(scenario: Scenario, app: str) -> list[tuple[str, str]]:
    return [(hold.key, hold.node) for hold in scenario.partition.reservations.of(ApplicationId(app))]


def test_a_gang_reserves_no_node_that_its_own_placeholder_fills() -> None:
    scenario = Scenario(queues(), nodes=4, vcore=1000)
    run(scenario, "root.b", *pods("b", 12))
    scenario.gang(an_application("gang", queue="root.a", gang=3, timeout_s=360_000), 3)
    for ended in range(3):
        scenario.wait(60)
        own = {one.node for one in scenario.app("gang").allocations.values()}
        assert not {node for _, node in reserved(scenario, "gang")} & own
        scenario.release(f"b{ended}", app="b")
    scenario.wait(60)
    scenario.release(next(iter(scenario.app("b").ids)), app="b")
    assert len(scenario.app("gang").allocations) == 3, "each node that was reserved went to the gang, not to the others"


def test_a_gang_prefers_to_reserve_a_node_without_its_own_members() -> None:
    scenario = Scenario(queues())
    scenario.add_node("n0", vcore=2000)
    run(scenario, "root.b", an_ask("half"))
    scenario.gang(an_application("gang", queue="root.a", gang=2, timeout_s=360_000), 2)
    assert [one.node for one in scenario.app("gang").allocations.values()] == ["n0"]
    scenario.add_node("n1", an_allocation("full", "n1", app="b", vcore=2000), vcore=2000)
    scenario.wait(3)
    assert reserved(scenario, "gang") == [("gang-p1", "n1")]


@pytest.mark.parametrize("kind", ["daemon", "foreign"])
def test_a_node_is_not_reserved_when_its_permanent_pods_leave_too_little(kind: str) -> None:
    scenario = Scenario(queues(), nodes=2)
    for node in ("n0", "n1"):
        if kind == "daemon":
            run(scenario, "root.b", a_daemon(f"agent-{node}", node, vcore=1500))
        else:
            scenario.report(an_allocation(f"mirror-{node}", node, vcore=1500, foreign=True))
    run(scenario, "root.a", an_ask("wide", vcore=3000))
    scenario.wait(10)
    assert not scenario.partition.reservations
    effects = scenario.release("agent-n1", app="b") if kind == "daemon" else scenario.release("mirror-n1")
    assert placed(effects) == {"wide": "n1"}


def test_a_node_with_permanent_pods_is_reserved_for_a_smaller_ask() -> None:
    scenario = Scenario(queues(), nodes=1)
    run(scenario, "root.b", a_daemon("agent", "n0", vcore=1500), an_ask("job", vcore=2000))
    run(scenario, "root.a", an_ask("fits", vcore=2500))
    scenario.wait(3)
    assert reserved(scenario, "a") == [("fits", "n0")]


def test_a_cordoned_node_is_not_reserved_even_for_an_ask_that_tolerates_the_cordon() -> None:
    scenario = Scenario(queues(), nodes=1)
    run(scenario, "root.b", *pods("b", 4))
    scenario.send(NodeUpdated(replace(a_node("n0"), cordoned=True)))
    scenario.node("n0", NodeAction.DRAIN)
    everything = Constraints(tolerations=(Toleration("", "Exists", "", ""),))
    scenario.add_node("n1", an_allocation("full", "n1", app="b", vcore=4000))
    run(scenario, "root.a", an_ask("system", constraints=everything), an_ask("other", constraints=everything))
    scenario.wait(10)
    assert reserved(scenario, "a") == [("system", "n1")]


def test_a_leaf_reserves_several_nodes_in_a_larger_cluster_up_to_its_limit() -> None:
    scenario = Scenario(queues(), nodes=20, vcore=1000)
    run(scenario, "root.b", *pods("b", 20))
    run(scenario, "root.a", *pods("a", 20))
    scenario.wait(3)
    assert [key for key, _ in reserved(scenario, "a")] == ["a0", "a1", "a2"], "one, and one for each ten nodes"
    assert len({node for _, node in reserved(scenario, "a")}) == 3


def test_an_ask_that_fits_no_node_does_not_block_the_reservation_of_the_next_ask() -> None:
    scenario = Scenario(queues(), nodes=1)
    run(scenario, "root.b", *pods("b", 4))
    run(scenario, "root.a", an_ask("huge", vcore=5000), an_ask("small", vcore=1000))
    scenario.wait(3)
    assert reserved(scenario, "a") == [("small", "n0")]


def test_a_node_that_becomes_schedulable_is_reserved_for_a_waiting_ask() -> None:
    scenario = Scenario(queues(), nodes=1)
    run(scenario, "root.b", *pods("b", 4))
    scenario.node("n0", NodeAction.DRAIN)
    run(scenario, "root.a", an_ask("waits"))
    scenario.wait(60)
    assert not scenario.partition.reservations
    scenario.node("n0", NodeAction.OPEN)
    scenario.wait(5)
    assert reserved(scenario, "a") == [("waits", "n0")]


def test_a_leaf_that_found_no_node_looks_again_after_a_new_configuration() -> None:
    scenario = with_a_reserved_node()
    scenario.wait(5)
    scenario.remove("a")
    scenario.reload(a_configuration(*map(a_queue, "abc"), a_queue("d", vcore=10_000)))
    scenario.wait(5)
    assert reserved(scenario, "c") == [("late", "n0")]


def attempts(scenario: Scenario, *events: Event) -> int:
    """Apply the events and return the number of scheduling attempts of the next cycle."""
    for event in events:
        step(scenario.scheduler_state, event, scenario.now_ns)
    phases: list[CyclePhase] = []
    cycle(scenario.scheduler_state, scenario.now_ns, lambda: True, phases.append)
    return phases.count(CyclePhase.NODE)


def ended(key: str, app: str) -> AllocationReleased:
    return AllocationReleased(PARTITION, ApplicationId(app), AllocationKey(key), None, Termination.STOPPED_BY_RM)


def with_a_reserved_node() -> Scenario:
    """root.a waits for 3 cores of n0, where root.b has 4 pods, and root.c waits for 1 core."""
    scenario = Scenario(a_configuration(*map(a_queue, "abcd")), nodes=1)
    run(scenario, "root.b", *pods("b", 4))
    run(scenario, "root.a", an_ask("wide", vcore=3000))
    run(scenario, "root.c", an_ask("late"))
    scenario.wait(3)
    assert reserved(scenario, "a") == [("wide", "n0")]
    return scenario


def test_resources_that_a_reservation_keeps_cause_no_scheduling_attempt() -> None:
    scenario = with_a_reserved_node()
    assert attempts(scenario, ended("b0", "b")) == 0, "too little for the reservation, and nothing for other requests"
    assert attempts(scenario, ended("b1", "b")) == 0
    assert attempts(scenario, ended("b2", "b")) == 1, "enough for the reservation"
    assert not scenario.partition.reservations


def test_resources_next_to_a_reservation_wake_up_the_requests_that_fit_there() -> None:
    scenario = with_a_reserved_node()
    scenario.add_node("n1", an_allocation("large", "n1", app="b", vcore=4000))
    run(scenario, "root.a", an_ask("second", vcore=3000))
    scenario.wait(3)
    effects = scenario.release("large", app="b")
    assert placed(effects) == {"wide": "n1", "late": "n1"}


def test_a_reservation_that_ends_wakes_up_the_requests_that_fit_on_its_node() -> None:
    scenario = with_a_reserved_node()
    assert placed(scenario.release("b0", app="b")) == {}
    assert placed(scenario.release_ask("wide", app="a")) == {"late": "n0"}


def test_a_daemon_pod_uses_resources_that_are_freed_on_its_reserved_node() -> None:
    scenario = with_a_reserved_node()
    run(scenario, "root.c", never(a_daemon("agent", "n0")))
    assert placed(scenario.release("b0", app="b")) == {"agent": "n0"}


def test_a_request_that_gets_nothing_next_to_a_reservation_reserves_another_node() -> None:
    scenario = Scenario(a_configuration(*map(a_queue, "abcd")), nodes=2)
    run(scenario, "root.b", *pods("b", 8))
    run(scenario, "root.a", an_ask("wide", vcore=3000))
    run(scenario, "root.d", an_ask("second"))
    scenario.wait(3)
    assert reserved(scenario, "a") == [("wide", "n0")]
    assert reserved(scenario, "d") == [("second", "n1")]
    run(scenario, "root.c", an_ask("late"))
    scenario.wait(3)
    scenario.release_ask("second", app="d")
    scenario.wait(3)
    assert not reserved(scenario, "c"), "all nodes were reserved, and n1 has gained nothing"
    assert placed(scenario.release("b0", app="b")) == {}
    scenario.wait(3)
    assert reserved(scenario, "c") == [("late", "n1")]


def test_the_first_leaf_looks_for_a_node_on_behalf_of_equal_requests() -> None:
    scenario = with_a_reserved_node()
    run(scenario, "root.d", an_ask("other"))
    scenario.wait(3)
    leaves = [scenario.partition.queues.by_path[QueuePath(f"root.{name}")] for name in "cd"]
    assert [leaf.reservation_timer for leaf in leaves] == [0, 0], "all nodes were reserved"
    scenario.release("b0", app="b")
    first, second = sorted(leaves, key=lambda leaf: -leaf.reservation_timer)
    assert first.reservation_timer
    assert not second.reservation_timer
    first_app = next(iter(first.waiting))
    scenario.report(an_allocation("usage", "n0", app=first_app))
    scenario.release("b1", app="b")
    assert second.reservation_timer, "it is first now"


def test_resources_are_counted_next_to_the_reservation_of_each_node() -> None:
    scenario = with_a_reserved_node()
    scenario.send(NodeUpdated(a_node("n0", labels={"zone": "a"})))
    scenario.add_node("n1", an_allocation("other", "n1", app="b", vcore=2000), vcore=2000)
    run(scenario, "root.d", an_ask("zonal", constraints=Constraints((("zone", "a"),))))
    scenario.release_ask("late", app="c")
    assert attempts(scenario, ended("b0", "b"), ended("other", "b")) == 0, "n0 has too little, and n1 is in no zone"
