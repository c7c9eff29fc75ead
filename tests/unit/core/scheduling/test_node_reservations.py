"""Node reservations for a waiting request (docs/internals/adr/0007)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster_core.model.config import Configuration, Timing
from muster_core.model.constraints import Constraints, Toleration
from muster_core.model.events import AllocationReported, ApplicationAdded, NodeAction, NodeUpdated
from muster_core.model.ids import ApplicationId, NodeId
from muster_core.model.records import Change, Detail
from tests.unit.builders import SECOND, a_configuration, a_node, a_queue, an_allocation, an_application, an_ask
from tests.unit.core.scheduling.preemption_scene import PREEMPTED, a_daemon, pods, run, victims, with_preemption
from tests.unit.core.scheduling.scene import Scene, placed, waits

_N0 = NodeId("n0")


def queues() -> Configuration:
    timing = Timing(reservation_timeout_ns=100 * SECOND)
    return a_configuration(a_queue("a"), a_queue("b"), timing=timing)


def held_up() -> Scene:
    """root.a waits for 3 cores of n0, of which others use 3 of 4."""
    scene = Scene(queues(), nodes=1)
    run(scene, "root.b", *pods("b", 3))
    run(scene, "root.a", an_ask("wide", vcore=3000))
    return scene


def test_after_the_delay_room_is_held_for_the_ask_and_that_is_said_and_noted() -> None:
    scene = held_up()
    assert waits(scene.wait(1)) == {}
    assert waits(scene.wait(2)) == {
        "wide": ("RESERVED", "node n0 is reserved for it until enough resources are free there")
    }
    [note] = [note for note in scene.noted if note.detail is Detail.NODE_RESERVATION]
    assert (note.subject, note.reference, note.change) == ("n0", "wide", Change.ADD)
    assert [hold.key for hold in scene.partition.reservations.on(_N0)] == ["wide"]
    assert [hold.node for hold in scene.partition.reservations.of(ApplicationId("a"))] == ["n0"]


def test_what_frees_there_gathers_for_the_holder() -> None:
    scene = held_up()
    scene.wait(3)
    assert placed(run(scene, "root.b", an_ask("late"))) == {}
    assert placed(scene.release("b0", app="b")) == {}
    assert placed(scene.release("b1", app="b")) == {"wide": "n0"}
    assert not scene.partition.reservations


def test_others_use_what_the_holder_does_not_need() -> None:
    scene = Scene(queues(), nodes=1, vcore=4000)
    run(scene, "root.b", an_ask("b", vcore=3000))
    run(scene, "root.a", an_ask("wide", vcore=2000))
    scene.wait(3)
    assert placed(run(scene, "root.b", an_ask("late"), an_ask("light", vcore=0))) == {"light": "n0"}


def test_only_the_first_ask_of_a_leaf_has_room_held_and_the_next_follows() -> None:
    scene = held_up()
    run(scene, "root.a", an_ask("second", vcore=4000))
    scene.wait(10)
    assert list(scene.partition.reservations.by_ask) == [("a", "wide")]
    scene.release("b0", app="b")
    scene.release("b1", app="b")
    scene.wait(10)
    assert list(scene.partition.reservations.by_ask) == [("a", "second")]


def test_a_node_is_reserved_for_the_first_application_whichever_request_arrived_first() -> None:
    """After a restart requests of one second arrive in any order."""
    scene = Scene(queues(), nodes=1)
    run(scene, "root.b", *pods("b", 3))
    for app in ("one", "two"):
        scene.tell(ApplicationAdded(an_application(app, queue="root.a")))
    for app in ("two", "one"):
        scene.ask(an_ask(f"{app}-wide", app=app, vcore=3000))
    scene.wait(3)
    assert [hold.key for hold in scene.partition.reservations.on(_N0)] == ["one-wide"]


def test_no_node_is_held_that_could_not_hold_the_ask_even_if_it_were_empty() -> None:
    scene = Scene(queues(), nodes=1)
    run(scene, "root.a", an_ask("huge", vcore=5000))
    scene.wait(60)
    assert not scene.partition.reservations


def test_the_node_that_lacks_least_is_held() -> None:
    scene = Scene(queues())
    for name, vcore in (("n0", 4000), ("n1", 4000)):
        scene.add_node(name, vcore=vcore)
    run(scene, "root.b", an_ask("most", vcore=3500), an_ask("less", vcore=2500))
    run(scene, "root.a", an_ask("wide", vcore=3000))
    scene.wait(3)
    [hold] = scene.partition.reservations.by_ask.values()
    assert hold.node == scene.app("b").allocations[scene.app("b").ids[an_ask("less").key][0]].node


def test_the_holder_takes_another_node_when_that_has_room_first() -> None:
    scene = held_up()
    scene.wait(3)
    assert placed(scene.add_node("n1")) == {"wide": "n1"}
    assert not scene.partition.reservations
    assert placed(run(scene, "root.b", an_ask("late"))) in ({"late": "n0"}, {"late": "n1"})


def test_a_hold_ends_with_its_ask_its_node_or_its_time() -> None:
    for end in ("ask", "drain", "gone", "small", "time"):
        scene = held_up()
        run(scene, "root.b", an_ask("waits", vcore=1000))
        scene.wait(3)
        assert scene.partition.reservations
        match end:
            case "ask":
                said = scene.release_ask("wide", app="a")
                assert placed(said) == {}, "its core went to the one that came before"
            case "drain":
                scene.node("n0", NodeAction.DRAIN)
            case "gone":
                scene.node("n0", NodeAction.DECOMMISSION)
            case "small":
                scene.tell(NodeUpdated(a_node("n0", 2999)))
            case _:
                scene.wait(100)
        assert not scene.partition.reservations, end


def test_an_ask_whose_hold_ended_is_told_why_it_waits_again() -> None:
    scene = held_up()
    scene.wait(3)
    said = scene.wait(100)
    assert waits(said)["wide"][0] in ("FAILED", "RESERVED")


def test_a_daemons_pod_passes_by_what_others_hold() -> None:
    scene = held_up()
    scene.wait(3)
    assert placed(run(scene, "root.b", an_ask("other"))) == {}
    assert placed(run(scene, "root.b", a_daemon("daemon", "n0"))) == {"daemon": "n0"}


def test_a_daemons_pod_uses_what_another_pod_of_its_application_leaves_only_once() -> None:
    scene = Scene(with_preemption(a_queue("a", guaranteed=2000), a_queue("b")), nodes=1)
    run(scene, "root.b", *(a_daemon(f"b{index}", "n0") for index in range(3)), an_ask("victim"))
    run(scene, "root.a", an_ask("x"))
    assert victims(scene.wait(31)) == {"victim"}
    run(scene, "root.a", a_daemon("daemon", "n0"))
    scene.wait(3)
    assert reserved(scene, "a") == [("x", "n0"), ("daemon", "n0")]
    assert placed(scene.add_node("n1")) == {"x": "n1"}
    assert scene.partition.void_decisions == 0
    assert placed(scene.release("victim", app="b", why=PREEMPTED)) == {"daemon": "n0"}


def test_a_pod_that_requires_a_node_is_refused_on_the_others_in_the_words_of_kube_scheduler() -> None:
    scene = Scene(queues(), nodes=2)
    said = run(scene, "root.a", a_daemon("daemon", "n1", vcore=5000))
    text = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    assert waits(said) == {"daemon": ("FAILED", text)}


def reserved(scene: Scene, app: str) -> list[tuple[str, str]]:
    return [(hold.key, hold.node) for hold in scene.partition.reservations.of(ApplicationId(app))]


def test_a_gang_reserves_no_node_that_its_own_placeholder_fills() -> None:
    scene = Scene(queues(), nodes=4, vcore=1000)
    run(scene, "root.b", *pods("b", 12))
    scene.gang(ApplicationAdded(an_application("gang", queue="root.a", gang=3, timeout_s=360_000)), 3)
    for ended in range(3):
        scene.wait(60)
        own = {one.node for one in scene.app("gang").allocations.values()}
        assert not {node for _, node in reserved(scene, "gang")} & own
        scene.release(f"b{ended}", app="b")
    scene.wait(60)
    scene.release(next(iter(scene.app("b").ids)), app="b")
    assert len(scene.app("gang").allocations) == 3, "each node that was reserved went to the gang, not to the others"


def test_a_node_without_members_of_the_gang_is_reserved_rather_than_one_with_them() -> None:
    scene = Scene(queues())
    scene.add_node("n0", vcore=2000)
    run(scene, "root.b", an_ask("half"))
    scene.gang(ApplicationAdded(an_application("gang", queue="root.a", gang=2, timeout_s=360_000)), 2)
    assert [one.node for one in scene.app("gang").allocations.values()] == ["n0"]
    scene.add_node("n1", an_allocation("full", "n1", app="b", vcore=2000), vcore=2000)
    scene.wait(3)
    assert reserved(scene, "gang") == [("gang-p1", "n1")]


@pytest.mark.parametrize("kind", ["daemon", "foreign"])
def test_no_node_is_reserved_on_which_too_much_is_never_freed(kind: str) -> None:
    scene = Scene(queues(), nodes=2)
    for node in ("n0", "n1"):
        if kind == "daemon":
            run(scene, "root.b", a_daemon(f"agent-{node}", node, vcore=1500))
        else:
            scene.tell(AllocationReported(an_allocation(f"mirror-{node}", node, vcore=1500, foreign=True)))
    run(scene, "root.a", an_ask("wide", vcore=3000))
    scene.wait(10)
    assert not scene.partition.reservations
    said = scene.release("agent-n1", app="b") if kind == "daemon" else scene.release("mirror-n1")
    assert placed(said) == {"wide": "n1"}


def test_what_is_never_freed_on_a_node_leaves_room_for_smaller_asks() -> None:
    scene = Scene(queues(), nodes=1)
    run(scene, "root.b", a_daemon("agent", "n0", vcore=1500), an_ask("job", vcore=2000))
    run(scene, "root.a", an_ask("fits", vcore=2500))
    scene.wait(3)
    assert reserved(scene, "a") == [("fits", "n0")]


def test_a_cordoned_node_is_not_reserved_even_for_an_ask_that_tolerates_the_cordon() -> None:
    scene = Scene(queues(), nodes=1)
    run(scene, "root.b", *pods("b", 4))
    scene.tell(NodeUpdated(replace(a_node("n0"), cordoned=True)))
    scene.node("n0", NodeAction.DRAIN)
    everything = Constraints(tolerations=(Toleration("", "Exists", "", ""),))
    scene.add_node("n1", an_allocation("full", "n1", app="b", vcore=4000))
    run(scene, "root.a", an_ask("system", constraints=everything), an_ask("other", constraints=everything))
    scene.wait(10)
    assert reserved(scene, "a") == [("system", "n1")]


def test_a_leaf_reserves_several_nodes_in_a_larger_cluster_and_no_more_than_its_bound() -> None:
    scene = Scene(queues(), nodes=20, vcore=1000)
    run(scene, "root.b", *pods("b", 20))
    run(scene, "root.a", *pods("a", 20))
    scene.wait(3)
    assert [key for key, _ in reserved(scene, "a")] == ["a0", "a1", "a2"], "one, and one for each ten nodes"
    assert len({node for _, node in reserved(scene, "a")}) == 3


def test_an_ask_that_no_node_could_hold_does_not_keep_the_next_one_from_a_reservation() -> None:
    scene = Scene(queues(), nodes=1)
    run(scene, "root.b", *pods("b", 4))
    run(scene, "root.a", an_ask("huge", vcore=5000), an_ask("small", vcore=1000))
    scene.wait(3)
    assert reserved(scene, "a") == [("small", "n0")]


def test_a_node_that_opens_later_is_reserved_for_an_ask_that_waits_already() -> None:
    scene = Scene(queues(), nodes=1)
    run(scene, "root.b", *pods("b", 4))
    scene.node("n0", NodeAction.DRAIN)
    run(scene, "root.a", an_ask("waits"))
    scene.wait(60)
    assert not scene.partition.reservations
    scene.node("n0", NodeAction.OPEN)
    scene.wait(5)
    assert reserved(scene, "a") == [("waits", "n0")]
