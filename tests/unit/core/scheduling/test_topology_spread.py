"""Asks with topology spread constraints in a living world: who wakes them, gangs, and placeholders that hand over."""

from __future__ import annotations

from dataclasses import replace

from muster_core.model.constraints import (
    ANYWHERE,
    NAMESPACE,
    TERMINATING,
    Constraints,
    InterPodConstraints,
    Taint,
    Target,
    TopologySpreadConstraint,
)
from muster_core.model.events import AllocationReported, ApplicationAdded, AskAdded, NodeAction, NodeAdded, NodeUpdated
from muster_core.model.ids import Termination
from muster_core.model.specs import AllocationSpec, AskSpec, NodeSpec, PodProperties
from tests.unit.builders import a_configuration, a_node, a_queue, an_allocation, an_application, an_ask
from tests.unit.core.scheduling.scene import Scene, placed, releases, waits

WEB = {"app": "web", NAMESPACE: "ns"}
EVENLY = TopologySpreadConstraint("zone", 1, (Target("app", values=("web",)),), "ns")
IN_B = Constraints(node_selector=(("zone", "b"),))


def a_web(
    key: str,
    *,
    vcore: int = 1000,
    where: Constraints = ANYWHERE,
    by: TopologySpreadConstraint | None = EVENLY,
    group: str = "",
) -> AskSpec:
    facts = PodProperties(InterPodConstraints(spread=(by,) if by else ()))
    ask = an_ask(key, vcore=vcore, constraints=where, group=group, placeholder=bool(group) and key.startswith("p"))
    return replace(ask, tags=WEB, facts=facts)


def zoned(name: str, zone: str, vcore: int = 4000) -> NodeSpec:
    return a_node(name, vcore, labels={"zone": zone})


def a_foreigner(node: str, **tags: str) -> AllocationSpec:
    """A pod of another scheduler that takes nothing."""
    return replace(an_allocation("f", node, vcore=0, foreign=True), tags={NAMESPACE: "ns", **tags})


def waiting(by: TopologySpreadConstraint = EVENLY) -> Scene:
    """`w0` runs in zone a; `w1` waits, for in zone b there is no room, and a is one above it already."""
    scene = Scene(a_configuration(a_queue("a")))
    scene.tell(NodeAdded(zoned("n0", "a")), NodeAdded(zoned("n1", "b", 500)), ApplicationAdded(an_application()))
    said = scene.ask(a_web("w0", by=by), a_web("w1", by=by))
    assert placed(said) == {"w0": "n0"}
    assert waits(said)["w1"][1] == (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match pod topology spread constraints."
    )
    return scene


def test_an_ask_goes_on_when_another_comes_to_the_emptiest_domain() -> None:
    scene = waiting()
    assert placed(scene.ask(a_web("small", vcore=100, where=IN_B, by=None))) == {"small": "n1", "w1": "n0"}


def test_an_ask_goes_on_when_one_goes_from_the_full_domain() -> None:
    assert placed(waiting().release("w0")) == {"w1": "n0"}


def test_an_ask_goes_on_when_a_running_pods_labels_change() -> None:
    scene = waiting()
    assert placed(scene.tell(AllocationReported(a_foreigner("n1")))) == {}
    assert placed(scene.tell(AllocationReported(a_foreigner("n1", app="web")))) == {"w1": "n0"}


def test_an_ask_goes_on_when_a_pod_of_the_full_domain_begins_to_end() -> None:
    scene = Scene(a_configuration(a_queue("a")))
    scene.tell(NodeAdded(zoned("n0", "a")), NodeAdded(zoned("n1", "b", 500)), ApplicationAdded(an_application()))
    scene.tell(AllocationReported(a_foreigner("n0", app="web")))
    assert placed(scene.ask(a_web("w"))) == {}
    assert placed(scene.tell(AllocationReported(a_foreigner("n0", app="web", **{TERMINATING: "true"})))) == {"w": "n0"}


def test_an_ask_goes_on_when_the_last_node_of_the_emptiest_domain_goes() -> None:
    assert placed(waiting().node("n1", NodeAction.DECOMMISSION)) == {"w1": "n0"}


def test_an_ask_goes_on_when_a_node_changes_its_domain() -> None:
    assert placed(waiting().tell(NodeUpdated(zoned("n1", "a", 500)))) == {"w1": "n0"}


def test_an_ask_that_honours_taints_goes_on_when_the_emptiest_domain_is_tainted() -> None:
    scene = waiting(by=replace(EVENLY, honors_taints=True))
    tainted = replace(zoned("n1", "b", 500), taints=(Taint("dedicated", "", "NoSchedule"),))
    assert placed(scene.tell(NodeUpdated(tainted))) == {"w1": "n0"}


def test_an_ask_goes_on_when_a_node_comes_that_has_room_in_the_emptiest_domain() -> None:
    scene = waiting()
    assert placed(scene.tell(NodeAdded(zoned("n2", "a")))) == {}
    assert placed(scene.tell(NodeAdded(zoned("n3", "b")))) == {"w1": "n3"}


def test_what_was_known_of_a_class_that_nobody_waits_for_is_forgotten_when_domains_change() -> None:
    scene = waiting()
    scene.release_ask("w1")
    scene.node("n1", NodeAction.DECOMMISSION)
    assert placed(scene.ask(a_web("w2"))) == {"w2": "n0"}


def gang(scene: Scene, *placeholders: AskSpec) -> dict[str, str]:
    """An application with these placeholders; where they are."""
    members = ApplicationAdded(an_application(gang=len(placeholders), each=placeholders[0].resources))
    return placed(scene.tell(members, *(AskAdded(one) for one in placeholders)))


def test_members_of_a_gang_spread_and_each_takes_over_from_one_that_counts_like_itself() -> None:
    scene = Scene(a_configuration(a_queue("a")))
    scene.tell(NodeAdded(zoned("n0", "a", 2000)), NodeAdded(zoned("n1", "b", 2000)))
    held = gang(scene, *(a_web(f"p{index}", group="workers") for index in range(4)))
    assert sorted(held.values()) == ["n0", "n0", "n1", "n1"]
    for index in range(4):
        [gone] = releases(scene.ask(a_web(f"r{index}", group="workers")))
        said = scene.release(gone, why=Termination.PLACEHOLDER_REPLACED)
        assert placed(said) == {f"r{index}": held[gone]}


def test_members_take_over_although_the_other_placeholders_of_their_gang_lie_unevenly() -> None:
    """These count only until their own members come: the gang of real members is what has to be even."""
    scene = Scene(a_configuration(a_queue("a")))
    scene.tell(NodeAdded(zoned("n0", "a", 3000)), NodeAdded(zoned("n1", "b", 500)))
    held = gang(scene, *(a_web(f"p{index}", by=None, group="workers") for index in range(3)))
    assert set(held.values()) == {"n0"}
    wide = replace(EVENLY, max_skew=2)
    said = scene.ask(*(a_web(f"r{index}", by=wide, group="workers") for index in range(3)))
    assert len(releases(said)) == 2
    assert list(waits(said)) == ["r2"]
    # A node in the emptier zone is where the third goes.
    assert len(releases(scene.tell(NodeAdded(zoned("n2", "b"))))) == 1


def test_a_class_sees_those_of_its_gang_that_took_over_in_the_same_plan() -> None:
    scene = Scene(a_configuration(a_queue("a")))
    scene.tell(NodeAdded(zoned("n0", "a", 2000)), NodeAdded(zoned("n1", "b", 2000)))
    held = gang(scene, *(replace(a_web(f"p{index}", by=None, group="workers"), tags={}) for index in range(4)))
    first = replace(a_web("r0", by=None, group="workers"), priority=10)
    said = scene.ask(first, a_web("r1", group="workers"))
    assert {held[one] for one in releases(said)} == {"n0", "n1"}
