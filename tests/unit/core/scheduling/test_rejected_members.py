"""The place of a member that its kubelet refused is reported as a placeholder and kept for the next.

The resource manager reports it before it says that the member is gone, so that it is nobody's in between.
"""

from __future__ import annotations

from dataclasses import replace

from muster_core.model.config import Timing
from muster_core.model.events import AllocationReleased, AllocationReported, ApplicationAdded, NodeAction
from muster_core.model.ids import AllocationKey, ApplicationId, NodeId, QueuePath, Termination
from tests.unit.builders import (
    PARTITION,
    a_configuration,
    a_queue,
    an_allocation,
    an_application,
    an_ask,
    resources,
)
from tests.unit.core.scheduling.scene import Scene, placed, released_asks, releases, states

REPLACED = Termination.PLACEHOLDER_REPLACED
PLACE = "r0/place"


def refused(nodes: int = 2, members: int = 2) -> Scene:
    """A queue that a gang of 2-core members fills; other pods wait for head room and room; `r0` was refused by n0."""
    queue = a_queue("a", vcore=2000 * members)
    scene = Scene(a_configuration(queue, timing=Timing(completing_timeout_ns=10**9)), nodes=nodes, vcore=2000)
    each = resources(vcore=2000, pods=1)
    scene.gang(ApplicationAdded(an_application(gang=members, each=each)), members)
    for number in range(members):
        scene.ask(an_ask(f"r{number}", vcore=2000, group="workers"))
        scene.release(f"app-p{number}", why=REPLACED)
    scene.tell(ApplicationAdded(an_application("rival")))
    scene.ask(an_ask("greedy", app="rival"))
    place = an_allocation(PLACE, "n0", vcore=2000, group="workers", placeholder=True)
    gone = AllocationReleased(PARTITION, ApplicationId("app"), AllocationKey("r0"), None, Termination.STOPPED_BY_RM)
    assert placed(scene.tell(AllocationReported(place), gone)) == {}
    return scene


def test_nobody_else_gets_the_head_room_or_the_room_of_a_kept_place() -> None:
    scene = refused()
    assert scene.partition.queues.by_path[QueuePath("root.a")].allocated["vcore"] == 4000
    assert scene.partition.nodes.available(NodeId("n0"))["vcore"] == 0
    assert placed(scene.wait(30)) == {}


def test_the_pod_that_replaces_the_refused_one_takes_the_kept_place_by_a_swap() -> None:
    scene = refused()
    assert releases(scene.ask(an_ask("r9", vcore=2000, group="workers"))) == {PLACE: REPLACED}
    assert placed(scene.release(PLACE, why=REPLACED)) == {"r9": "n0"}


def test_a_pod_that_keeps_off_the_node_takes_the_head_room_of_the_place_to_another_node() -> None:
    scene = refused()
    replaced_by = replace(an_ask("r9", vcore=2000, group="workers"), avoid=frozenset({NodeId("n0")}))
    assert releases(scene.ask(replaced_by)) == {}
    assert releases(scene.add_node("n9", vcore=2000)) == {PLACE: REPLACED}
    assert placed(scene.release(PLACE, why=REPLACED)) == {"r9": "n9"}


def test_a_kept_place_that_is_given_up_is_free_for_others() -> None:
    scene = refused()
    assert set(placed(scene.release(PLACE))) == {"greedy"}


def test_a_kept_place_goes_with_its_node_and_does_not_keep_the_application_from_completing() -> None:
    scene = refused()
    assert states(scene.release("r1")) == ["Completing"]
    said = scene.node("n0", NodeAction.DECOMMISSION)
    assert set(releases(said)) == {PLACE}
    assert states(scene.wait(2)) == ["Completed"]


def test_a_kept_place_is_told_to_go_when_its_application_is_over() -> None:
    scene = refused()
    scene.release("r1")
    assert releases(scene.wait(2)) == {PLACE: Termination.TIMEOUT}
    assert states(scene.release(PLACE, why=Termination.TIMEOUT)) == ["Completed"]
    assert released_asks(scene.wait(1)) == {}
