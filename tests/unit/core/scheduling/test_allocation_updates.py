"""An allocation told again is the one that is there: resized, relabelled, never moved (KEP-1287)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from muster_core.model.config import QueuePolicies
from muster_core.model.effects import AllocationResponse, Effect, TimerSet
from muster_core.model.events import AllocationReported, ApplicationAdded, ConfigurationReplaced, TimerKind
from muster_core.model.ids import ApplicationId, NodeId, QueuePath, Termination
from muster_core.model.resources import NOTHING
from tests.unit.builders import (
    RM,
    SECOND,
    a_configuration,
    a_queue,
    an_affinity,
    an_allocation,
    an_application,
    an_ask,
    resources,
)
from tests.unit.core.scheduling.preemption_scene import with_preemption
from tests.unit.core.scheduling.scene import Scene, placed, released_asks, releases, states

N0 = NodeId("n0")


def refusal(effects: list[Effect]) -> str:
    answers = [effect for effect in effects if isinstance(effect, AllocationResponse)]
    return next((one.reason for answer in answers for one in answer.rejected_allocations), "")


def running(vcore: int = 1000, most: int | None = None) -> Scene:
    """One pod, r0, on n0 of 4000."""
    scene = Scene(a_configuration(a_queue("a", vcore=most)), nodes=1)
    scene.tell(ApplicationAdded(an_application()))
    scene.ask(an_ask("r0", vcore=vcore))
    return scene


def resize(scene: Scene, key: str, vcore: int, node: str = "n0", **more: Any) -> list[Effect]:
    return scene.tell(AllocationReported(replace(an_allocation(key, node, vcore=vcore), **more)))


@pytest.mark.parametrize("vcore", [3000, 500])
def test_a_resized_pod_counts_as_large_as_it_is_with_application_queues_user_and_node(vcore: int) -> None:
    scene = running()
    assert resize(scene, "r0", vcore) == []
    now = resources(vcore=vcore, pods=1)
    partition = scene.partition
    leaf = scene.app().queue.path
    assert scene.app().allocated == now
    assert partition.queues.by_path[leaf].allocated == partition.queues.by_path[QueuePath("root")].allocated == now
    assert partition.users.of(scene.app().spec.user, leaf) == now
    assert partition.nodes.allocated(N0) == now


def test_the_same_once_more_changes_nothing() -> None:
    scene = running()
    resize(scene, "r0", 2000)
    epoch = scene.partition.nodes.epoch
    assert resize(scene, "r0", 2000) == []
    assert scene.partition.nodes.epoch == epoch


def test_room_that_a_smaller_pod_leaves_is_given_to_one_that_waits() -> None:
    scene = running(vcore=4000)
    assert placed(scene.ask(an_ask("r1"))) == {}
    assert placed(resize(scene, "r0", 3000)) == {"r1": "n0"}


def test_head_room_that_a_smaller_pod_leaves_is_given_to_one_that_waits() -> None:
    scene = running(vcore=2000, most=2000)
    assert placed(scene.ask(an_ask("r1"))) == {}
    assert placed(resize(scene, "r0", 1000)) == {"r1": "n0"}


def test_a_pod_that_grew_over_its_node_and_queue_stays_and_nothing_else_goes_there() -> None:
    scene = running(most=2000)
    assert resize(scene, "r0", 5000) == []
    assert scene.partition.nodes.available(N0)["vcore"] == -1000
    assert placed(scene.ask(an_ask("r1"))) == {}
    assert resize(scene, "r0", 6000) == []
    assert placed(resize(scene, "r0", 1000)) == {"r1": "n0"}
    assert scene.app().queue.tolerated == NOTHING


def test_a_gang_whose_promised_head_room_a_larger_pod_takes_waits_for_it_anew() -> None:
    scene = running(most=5000)
    scene.gang(ApplicationAdded(an_application("gang", gang=4)), 4)
    gang = scene.app("gang").gang
    assert (gang.reserved["vcore"], gang.quota_reservation["vcore"], gang.granted) == (3000, 1000, True)
    resize(scene, "r0", 2000)
    assert (gang.quota_reservation["vcore"], gang.granted) == (1000, False)
    resize(scene, "r0", 1000)
    assert (gang.quota_reservation["vcore"], gang.granted) == (1000, True)


def test_a_gang_that_lacks_less_after_a_resize_reserves_the_quota_that_it_lacks() -> None:
    scene = running(vcore=2000, most=4000)
    scene.gang(ApplicationAdded(an_application("gang", gang=4)), 4)
    gang = scene.app("gang").gang
    assert (gang.reserved["vcore"], gang.quota_reservation) == (2000, NOTHING)
    resize(scene, "gang-p0", 3000, application=ApplicationId("gang"), group="workers", placeholder=True)
    assert (gang.quota_reservation, gang.granted) == (resources(pods=2), True)


def test_a_queue_that_a_resize_takes_over_its_maximum_is_brought_below_it_later() -> None:
    policies = QueuePolicies(quota_preemption_delay_ns=60 * SECOND)
    queue = a_queue("a", vcore=2000, policies=policies)
    scene = Scene(with_preemption(queue, by_quota=True), nodes=1)
    scene.tell(ApplicationAdded(an_application()))
    scene.ask(an_ask("r0"), an_ask("r1"))
    said = resize(scene, "r0", 1500)
    assert [effect.timer.kind for effect in said if isinstance(effect, TimerSet)] == [TimerKind.QUOTA]
    assert set(releases(scene.wait(61)).values()) == {Termination.PREEMPTED_BY_SCHEDULER}


def test_a_victim_that_is_resized_on_its_way_out_leaves_clean_sums() -> None:
    policies = QueuePolicies(quota_preemption_delay_ns=60 * SECOND)
    scene = Scene(with_preemption(a_queue("a", policies=policies), by_quota=True), nodes=1)
    scene.tell(ApplicationAdded(an_application()))
    scene.ask(an_ask("r0"))
    lower = with_preemption(a_queue("a", vcore=500, policies=policies), by_quota=True)
    scene.tell(ConfigurationReplaced(RM, lower))
    assert set(releases(scene.wait(61))) == {"r0"}
    resize(scene, "r0", 3000)
    queue = scene.app().queue
    assert queue.preempting == resources(vcore=3000, pods=1)
    scene.release("r0", why=Termination.PREEMPTED_BY_SCHEDULER)
    assert (queue.preempting, queue.allocated) == (NOTHING, NOTHING)


def test_use_over_time_is_counted_by_the_size_that_it_had() -> None:
    scene = running(vcore=1000)
    app = scene.app()
    scene.wait(10)
    resize(scene, "r0", 2000)
    scene.wait(5)
    scene.release("r0")
    assert app.used.seconds()["UNKNOWN"]["vcore"] == 10 * 1000 + 5 * 2000


def test_the_most_that_an_application_had_grows_with_its_pod() -> None:
    scene = running()
    resize(scene, "r0", 3000)
    resize(scene, "r0", 500)
    assert scene.app().peak["vcore"] == 3000


def test_an_allocation_is_never_moved_by_being_told_again() -> None:
    scene = running()
    scene.add_node("n1")
    assert refusal(resize(scene, "r0", 1000, "n1")) == (
        "allocation r0 is on node n0 already: release it there before it is on node n1"
    )
    assert "known already, of ask r0" in refusal(
        scene.tell(AllocationReported(an_allocation("other", "n0", identity="r0-0")))
    )
    assert scene.app().allocated == resources(vcore=1000, pods=1)


def test_labels_that_a_placed_pod_gets_later_let_those_who_wait_for_them_in() -> None:
    """A constraint counts the tags that pods have now."""
    scene = running()
    beside = replace(an_ask("r1"), placement=an_affinity("role", "x", scope="hostname", least=1))
    assert placed(scene.ask(beside)) == {}
    assert placed(resize(scene, "r0", 1000, tags={"role": "x"})) == {"r1": "n0"}


def test_whether_a_pod_may_be_preempted_can_change_while_it_runs() -> None:
    scene = running()
    resize(scene, "r0", 1000, allow_preempt_self=False)
    [allocation] = scene.app().allocations.values()
    assert not allocation.spec.allow_preempt_self


def reserving(*sizes: int) -> Scene:
    """A gang of two whose first placeholders are as large as this."""
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    scene.tell(ApplicationAdded(an_application(gang=2)))
    for index, vcore in enumerate(sizes):
        spec = an_allocation(f"p{index}", "n0", vcore=vcore, group="workers", placeholder=True)
        scene.tell(AllocationReported(spec))
    return scene


def test_a_placeholder_that_shrinks_while_the_gang_reserves_is_reserved_as_small_as_it_is() -> None:
    scene = reserving(1000)
    resize(scene, "p0", 500, group="workers", placeholder=True)
    assert scene.app().gang.reserved["vcore"] == scene.app().gang.allocated["vcore"] == 500
    more = an_allocation("p1", "n0", group="workers", placeholder=True)
    assert states(scene.tell(AllocationReported(more))) == []
    assert states(resize(scene, "p0", 1000, group="workers", placeholder=True)) == ["Running"]


def test_a_placeholder_that_is_resized_while_it_is_swapped_leaves_clean_sums() -> None:
    scene = reserving(1000, 1000)
    assert scene.app().state == "Running"
    assert releases(scene.ask(an_ask("r0", group="workers"))) == {"p0": Termination.PLACEHOLDER_REPLACED}
    resize(scene, "p0", 700, group="workers", placeholder=True)
    assert placed(scene.release("p0", why=Termination.PLACEHOLDER_REPLACED)) == {"r0": "n0"}
    assert scene.partition.nodes.allocated(N0) == resources(vcore=2000, pods=2)


def test_a_pod_does_not_exceed_the_maximum_when_its_placeholder_was_resized_below_it_during_the_replacement() -> None:
    scene = reserving(1000, 1000)
    scene.ask(an_ask("r0", group="workers"))
    scene.tell(ConfigurationReplaced(RM, a_configuration(a_queue("a", vcore=1500))))
    resize(scene, "p0", 300, group="workers", placeholder=True)
    assert placed(scene.release("p0", why=Termination.PLACEHOLDER_REPLACED)) == {}
    assert scene.app().queue.allocated == resources(vcore=1000, pods=1)
    assert placed(scene.tell(ConfigurationReplaced(RM, a_configuration(a_queue("a", vcore=2000))))) == {"r0": "n0"}


def test_a_pod_does_not_exceed_its_node_when_its_placeholder_was_resized_below_it_during_the_replacement() -> None:
    scene = reserving(1000, 1000)
    scene.ask(an_ask("r0", group="workers"))
    resize(scene, "p0", 300, group="workers", placeholder=True)
    scene.ask(an_ask("r1", vcore=2700))
    assert placed(scene.release("p0", why=Termination.PLACEHOLDER_REPLACED)) == {}
    assert scene.partition.nodes.available(N0)["vcore"] == 300


def test_an_ask_that_is_labelled_while_it_is_swapped_keeps_its_swap() -> None:
    """Only an ask that is another to a plan begins anew."""
    scene = reserving(1000, 1000)
    scene.ask(an_ask("r0", group="workers"))
    told = replace(an_ask("r0", group="workers"), tags={"job-index": "0"}, allow_preempt_other=False)
    assert scene.ask(told) == []
    assert scene.app().asks[told.key].spec == told
    assert placed(scene.release("p0", why=Termination.PLACEHOLDER_REPLACED)) == {"r0": "n0"}
    [allocation] = [one for one in scene.app().allocations.values() if not one.spec.placeholder]
    assert allocation.spec.tags == {"job-index": "0"}


def test_a_pod_of_another_scheduler_that_is_resized_takes_its_new_room() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    scene.tell(AllocationReported(an_allocation("f", "n0", app="", vcore=1000, foreign=True)))
    assert resize_foreign(scene, 3500, "n0") == []
    scene.tell(ApplicationAdded(an_application()))
    assert placed(scene.ask(an_ask("r0"))) == {}
    assert placed(resize_foreign(scene, 3000, "n0")) == {"r0": "n0"}
    assert "on node n0 already" in refusal(resize_foreign(scene, 3000, "n0", "n1"))
    assert scene.partition.nodes.record(N0).foreign == resources(vcore=3000, pods=1)
    scene.release("f", app="")
    assert scene.partition.nodes.record(N0).foreign == NOTHING


def resize_foreign(scene: Scene, vcore: int, *nodes: str) -> list[Effect]:
    """Told of the last of the nodes; the ones that are missing come first."""
    if nodes[-1] not in scene.partition.nodes:
        scene.add_node(nodes[-1])
    return scene.tell(AllocationReported(an_allocation("f", nodes[-1], app="", vcore=vcore, foreign=True)))


def test_an_ask_of_an_allocated_key_is_still_refused() -> None:
    """An ask replaces an ask; what is allocated is told as an allocation."""
    scene = running()
    said = scene.ask(an_ask("r0", vcore=2000))
    answers = [effect for effect in said if isinstance(effect, AllocationResponse)]
    assert "is allocated already" in answers[0].rejected_asks[0].reason
    assert released_asks(said) == {}
