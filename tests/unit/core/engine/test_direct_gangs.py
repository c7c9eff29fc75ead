"""A Direct gang has its places held whole and without pods; members take them as they come (semantics 16, ADR 0020)."""

from __future__ import annotations

from muster_core.model.effects import AllocationAnswer, Effect
from muster_core.model.events import (
    AllocationReported,
    ApplicationAdded,
)
from muster_core.model.ids import TaskGroup
from muster_core.model.specs import AskSpec, GangPlacement
from tests.unit.builders import (
    a_configuration,
    a_queue,
    an_allocation,
    an_application,
    an_ask,
    resources,
)
from tests.unit.core.engine.scene import (
    Scene,
    placed,
    states,
    waits,
)

DIRECT = GangPlacement.DIRECT
KEY = "app/workers"


def a_gang(members: int, name: str = "app", **more: object) -> ApplicationAdded:
    return ApplicationAdded(an_application(name, gang=members, placement=DIRECT, **more))  # type: ignore[arg-type]  # its own arguments


def member(key: str, app: str = "app", vcore: int = 1000) -> AskSpec:
    return an_ask(key, app=app, vcore=vcore, group="workers")


def members(count: int, app: str = "app") -> list[AskSpec]:
    return [member(f"{app}-r{index}", app) for index in range(count)]


def bound(key: str, node: str, allocated_s: int = 0, app: str = "app") -> AllocationReported:
    return AllocationReported(an_allocation(key, node, app=app, group="workers", allocated_s=allocated_s))


def held(scene: Scene, app: str = "app") -> int:
    return sum(one.spec.podless for one in scene.app(app).allocations.values())


def answers(effects: list[Effect]) -> list[AllocationAnswer]:
    return [effect for effect in effects if isinstance(effect, AllocationAnswer)]


def test_places_are_held_before_any_member_is_there_and_the_resource_manager_is_not_told() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=2)
    said = scene.tell(a_gang(5))
    assert states(said) == ["Accepted", "Running"]
    assert answers(said) == []
    assert held(scene) == 5
    assert scene.app().gang.reserved == resources(vcore=5000, pods=5)
    assert scene.partition.queues.by_path[scene.app().queue.path].allocated == resources(vcore=5000, pods=5)


def test_a_member_that_comes_takes_its_place_at_once_with_one_word() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=2)
    scene.tell(a_gang(5))
    said = scene.ask(*members(2))
    [answer] = answers(said)
    assert [new.ask.key for new in answer.new] == ["app-r0", "app-r1"]
    assert answer.released == ()
    assert held(scene) == 3
    assert scene.app().gang.groups[TaskGroup("workers")].replaced == 2


def test_members_that_are_there_already_get_their_places_in_the_cycle_that_holds_them() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1, vcore=1000)
    assert placed(scene.tell(a_gang(4), *[])) == {}
    assert placed(scene.ask(*members(4))) == {}
    said = scene.add_node("big")
    assert len(placed(said)) == 4
    assert held(scene) == 0


def test_a_gang_that_does_not_fit_whole_holds_nothing_and_says_so_by_its_own_key() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    said = scene.tell(a_gang(5))
    assert held(scene) == 0
    assert states(said) == ["Accepted"]
    state, reason = waits(said)[KEY]
    assert state == "FAILED"
    assert "task group workers has places for 4 of 5 members" in reason
    assert waits(scene.ask(member("r0"))) == {}, "the gang speaks for its members"
    assert waits(scene.add_node("n1"))[KEY] == ("SCHEDULED", "all its places are held")
