"""All three placements keep the promises of a gang: whole, one after the other, through every kill."""

from __future__ import annotations

from collections import Counter

import pytest

from devcluster.nodes import FakeNode
from tests.e2e.conditions import told, waits_with
from tests.e2e.conftest import OpenScene
from tests.e2e.manifests import Group, a_gang, a_member, a_pod, is_bound, with_annotations
from tests.e2e.scenario import Scene

MEMBERS = 5
WORKERS = [Group("workers", MEMBERS)]
PLACEMENTS = ["Reserve", "Atomic", "Direct"]
#: Writes that a member costs: its own, and those of its placeholder.
OWN = {"create pods/binding": 1, "create events": 1}
WITH_PLACEHOLDER = {"create pods": 1, "create pods/binding": 2, "delete pods": 1, "create events": 1}
COSTS = {"Reserve": WITH_PLACEHOLDER, "Atomic": WITH_PLACEHOLDER, "Direct": OWN}
#: Room for a part of the gang only.
TIGHT = FakeNode("node-0", cpu="2500m")

every_placement = pytest.mark.parametrize("placement", PLACEMENTS)
every_victim = pytest.mark.parametrize(
    "victims", [["operator"], ["core"], ["operator", "core"]], ids=["operator", "core", "both"]
)


async def restart(scene: Scene, victims: list[str]) -> None:
    """Kill -9, then start what is gone."""
    for victim in victims:
        await getattr(scene.muster, victim).kill()
    if scene.has_gate:
        scene.gate.clear()
    await scene.muster.start()


@every_placement
async def test_a_gang_runs_for_as_many_writes_as_its_placement_costs(placement: str, open_scene: OpenScene) -> None:
    """Counted at the API server; what is told of the gang as a whole is one event, which moves on."""
    scene = await open_scene([FakeNode("node-0"), FakeNode("node-1")])
    await scene.create(a_gang("gang", WORKERS, timeout_s=600, placement=placement))
    await scene.all_bound(MEMBERS)

    async def all_are_told() -> bool:
        return len(await scene.events("Scheduled")) == MEMBERS

    await scene.eventually("every member's event is there", all_are_told)
    await told(scene, "gang-workers-0", "All 5", kind="Normal")
    series = {event["metadata"]["name"] for event in await scene.events("GangScheduling")}
    writes = [write for write in scene.writes(of_operator=True) if write.namespace == scene.namespace]
    found = Counter(write.what for write in writes if write.name not in series)
    assert found == {what: times * MEMBERS for what, times in COSTS[placement].items()}


@every_placement
async def test_two_gangs_that_fit_only_one_after_the_other_both_finish(placement: str, open_scene: OpenScene) -> None:
    scene = await open_scene([FakeNode(f"node-{index}", cpu="2") for index in range(2)])
    gangs = [a_gang(app, [Group("workers", 3)], timeout_s=600, placement=placement) for app in ("left", "right")]
    for pair in zip(*gangs, strict=True):
        await scene.create(with_annotations(pod, {"devcluster.muster/run-for": "1s"}) for pod in pair)

    async def all_done() -> bool:
        return Counter(pod["status"].get("phase", "") for pod in await scene.pods()) == {"Succeeded": 6}

    await scene.eventually("both gangs are done", all_done)


@every_victim
@every_placement
async def test_a_gang_is_whole_after_a_kill_in_the_middle_of_its_binds(
    placement: str, victims: list[str], open_scene: OpenScene
) -> None:
    """Two of five members have their nodes, three binds never arrive."""
    scene = await open_scene([FakeNode("node-0"), FakeNode("node-1")], gated=True)
    held = scene.gate.hold("POST", r"/pods/gang-[^/]*/binding$", skip=2)
    await scene.create(a_gang("gang", WORKERS, timeout_s=600, placement=placement))
    await held.reached(1)
    await restart(scene, victims)
    await scene.all_bound(MEMBERS)


@every_victim
@every_placement
async def test_a_gang_that_waits_goes_on_waiting_after_a_kill_and_is_whole_when_there_is_room(
    placement: str, victims: list[str], open_scene: OpenScene
) -> None:
    scene = await open_scene([TIGHT])
    await scene.create(a_gang("gang", WORKERS, timeout_s=600, placement=placement))

    async def a_member_says_so() -> bool:
        return any("members of task group workers" in str(pod["status"]) for pod in await scene.pods())

    await scene.eventually("a member says that the gang waits", a_member_says_so)
    await restart(scene, victims)
    assert await scene.bound() == []
    await scene.cluster.add_nodes([FakeNode("node-1")])
    await scene.all_bound(MEMBERS)


@every_placement
async def test_executors_that_nobody_creates_before_their_driver_runs_have_their_places(
    placement: str, open_scene: OpenScene
) -> None:
    """A rival, who came in between, has to wait for room of its own."""
    scene = await open_scene([FakeNode("node-0", cpu="5")])
    groups = [Group("driver", 1), Group("executors", 4)]
    words = f"gangPlacement={placement}"
    await scene.create([a_member("spark", "driver", "driver", groups, words)])

    async def driver_runs() -> bool:
        return [pod["status"].get("phase") for pod in await scene.pods()] == ["Running"]

    await scene.eventually("the driver runs", driver_runs)
    await scene.create([a_pod("rival", labels={"applicationId": "rival"})])

    async def rival_waits() -> bool:
        return "Insufficient cpu" in str((await scene.api.get("pods", "rival", scene.namespace))["status"])

    await scene.eventually("the rival finds no room", rival_waits)
    await scene.create(a_member("spark", "executors", f"executor-{index}", groups, words) for index in range(4))
    found = await scene.all_bound(5)
    assert "rival" not in {pod["metadata"]["name"] for pod in found}


@every_placement
async def test_places_that_nobody_took_are_given_back_when_their_time_is_up(
    placement: str, open_scene: OpenScene
) -> None:
    scene = await open_scene([FakeNode("node-0", cpu="4")])
    await scene.create(a_gang("left", [Group("workers", 4, real=1)], timeout_s=3, placement=placement))

    async def member_is_bound() -> bool:
        return len(await scene.bound()) == 1

    await scene.eventually("the member is bound", member_is_bound)
    await scene.create(a_pod(f"next-{index}", labels={"applicationId": "next"}) for index in range(3))
    await scene.all_bound(4)


@every_victim
async def test_after_a_kill_a_direct_gang_holds_places_for_who_is_still_to_come_and_not_for_who_has_ended(
    victims: list[str], open_scene: OpenScene
) -> None:
    """Of four members one has ended, one runs, two are still to come."""
    scene = await open_scene([FakeNode("node-0", cpu="4")])
    brief, stays = a_gang("half", [Group("workers", 4, real=2)], timeout_s=600, placement="Direct")
    await scene.create([with_annotations(brief, {"devcluster.muster/run-for": "1s"}), stays])

    async def one_has_ended() -> bool:
        return Counter(pod["status"].get("phase") for pod in await scene.pods()) == {"Succeeded": 1, "Running": 1}

    await scene.eventually("one has ended, one runs", one_has_ended)
    await restart(scene, victims)
    await scene.create(a_pod(f"next-{index}", labels={"applicationId": "next"}) for index in range(2))
    await waits_with(scene, "next-1", "Unschedulable", "1 Insufficient cpu")
    assert is_bound(await scene.api.get("pods", "next-0", scene.namespace))


@every_placement
async def test_members_beyond_min_member_and_pods_of_no_group_are_scheduled_as_usual(
    placement: str, open_scene: OpenScene
) -> None:
    scene = await open_scene([FakeNode("node-0"), FakeNode("node-1")])
    gang = a_gang("more", [Group("workers", 2, real=4)], timeout_s=600, placement=placement)
    await scene.create([*gang, a_pod("aside", labels={"applicationId": "more"})])
    await scene.all_bound(5)
