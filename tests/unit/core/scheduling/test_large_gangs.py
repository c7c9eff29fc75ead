"""Work for a gang is bounded by what is done for it, not by the number of members that its user writes."""

from __future__ import annotations

import pytest

from muster_core.model.config import QueuePolicies
from muster_core.model.events import ApplicationAdded
from muster_core.model.specs import GangPlacement
from muster_core.preemption.planning import EXHAUSTED, NO_RIGHT
from tests.unit.builders import SECOND, a_queue, an_application, resources
from tests.unit.core.scheduling.preemption_scene import pods, run, with_preemption
from tests.unit.core.scheduling.scene import Scene

SOON = QueuePolicies(preemption_delay_ns=SECOND)


def full(guaranteed: int = 2000) -> Scene:
    """Two nodes full of pods of leaf b, and leaf a that may have a guarantee."""
    scene = Scene(with_preemption(a_queue("a", guaranteed=guaranteed, policies=SOON), a_queue("b")), nodes=2)
    run(scene, "root.b", *pods("v", 8))
    return scene


def attempts(scene: Scene) -> list[str]:
    first = next(iter(scene.app().asks.values()))
    return list(first.attempts or {})


def submit(scene: Scene, members: int, placement: GangPlacement = GangPlacement.DIRECT) -> None:
    each = resources(vcore=1, pods=1)
    scene.tell(ApplicationAdded(an_application(queue="root.a", gang=members, each=each, placement=placement)))


@pytest.mark.parametrize("members", [65, 10_000, 2**31 - 1])
def test_a_direct_gang_too_large_for_preemption_is_not_split_into_members(members: int) -> None:
    scene = full()
    submit(scene, members)
    scene.wait(120)
    assert len(scene.app().asks) == 1
    assert attempts(scene) == [EXHAUSTED]


def test_a_direct_gang_without_a_right_to_preempt_is_not_split_into_members() -> None:
    scene = full(guaranteed=2)
    submit(scene, 3)
    scene.wait(120)
    assert len(scene.app().asks) == 1
    assert attempts(scene) == [NO_RIGHT]


def test_a_direct_gang_that_may_preempt_is_split_and_gets_its_places() -> None:
    scene = full()
    each = resources(vcore=1000, pods=1)
    spec = an_application(queue="root.a", gang=2, each=each, placement=GangPlacement.DIRECT)
    scene.tell(ApplicationAdded(spec))
    scene.wait(120)
    assert len(scene.partition.preemptions.running) == 1
    assert [ask.left for ask in scene.app().asks.values()] == [1, 1]


def test_a_failed_preemption_of_a_large_atomic_gang_is_written_to_a_bounded_number_of_requests() -> None:
    scene = full()
    spec = an_application(queue="root.a", gang=500, placement=GangPlacement.ATOMIC)
    scene.gang(ApplicationAdded(spec), 500)
    scene.wait(120)
    tried = [ask for ask in scene.app().asks.values() if ask.attempts]
    assert len(tried) == 65
