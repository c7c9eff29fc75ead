"""Gangs that are packed by a label of nodes, and what is said of those that wait."""

from __future__ import annotations

from dataclasses import replace

from muster_core.model.constraints import NAMESPACE, InterPodConstraints
from muster_core.model.events import ApplicationAdded, NodeAdded
from muster_core.model.ids import TaskGroup
from muster_core.model.specs import ApplicationSpec, GangPlacement, Member, PodProperties, Topology
from tests.unit.builders import a_configuration, a_node, a_queue, an_allocation, an_application, an_ask, resources
from tests.unit.core.placement.affinity_clusters import term
from tests.unit.core.scheduling.scene import Scene, notices, placed, states, waits

ZONE = Topology("zone", required=True)
OUTSIDE = "node(s) were outside the gang's topology domain"


def a_scene(**zones: int) -> Scene:
    """One node of so many cores in each zone."""
    scene = Scene(a_configuration(a_queue("a"), a_queue("b")))
    scene.tell(*(NodeAdded(a_node(f"n-{zone}", cores * 1000, labels={"zone": zone})) for zone, cores in zones.items()))
    return scene


def packed(members: int, name: str = "app", queue: str = "root.a", topology: Topology = ZONE) -> ApplicationAdded:
    return ApplicationAdded(replace(an_application(name, queue=queue, gang=members), topology=topology))


def nodes_of(scene: Scene, name: str = "app") -> set[str]:
    return {allocation.node for allocation in scene.app(name).allocations.values()}


def test_placeholders_that_come_one_by_one_go_where_all_of_them_have_room() -> None:
    scene = a_scene(a=2, b=5, c=9)
    scene.tell(packed(4))
    for index in range(4):
        assert placed(scene.ask(an_ask(f"p{index}", group="workers", placeholder=True))) == {f"p{index}": "n-b"}
    assert scene.app().state == "Running"


def test_a_gang_without_a_domain_that_holds_it_waits_with_the_best_one_and_what_it_lacks() -> None:
    scene = a_scene(a=2, b=3)
    said = scene.gang(packed(4), 4)
    assert nodes_of(scene) == set(), "these nodes cannot hold it: nothing is reserved"
    about = "3 of 4 members of task group workers fit in zone=b"
    [(state, text)] = {tuple(one) for one in waits(said).values()}
    assert state == "FAILED"
    assert text.startswith(f"{about}: 0/2 nodes are available")
    [notice] = notices(said)
    assert "1 of 4 members of task group workers would not fit in zone=b: 0/2 nodes are available" in notice
    grown = scene.tell(NodeAdded(a_node("n-b2", 1000, labels={"zone": "b"})))
    assert states(grown) == ["Running"]
    assert nodes_of(scene) == {"n-b", "n-b2"}


def test_a_lost_placeholder_is_placed_anew_where_the_others_are() -> None:
    scene = a_scene(a=3, b=4, c=3)
    scene.tell(packed(4))
    scene.ask(*(an_ask(f"p{index}", group="workers", placeholder=True) for index in range(3)))
    assert nodes_of(scene) == {"n-b"}
    scene.release("p0")
    assert placed(scene.ask(an_ask("p4", group="workers", placeholder=True))) == {"p4": "n-b"}


def test_after_a_restart_the_rest_goes_where_the_gang_was_found() -> None:
    scene = a_scene(b=9)
    spec = replace(packed(3).spec, forced=True)
    scene.tell(ApplicationAdded(spec))
    scene.tell(
        NodeAdded(
            a_node("n-a", 4000, labels={"zone": "a"}),
            existing=(an_allocation("p0", "n-a", group="workers", placeholder=True),),
        )
    )
    asks = (an_ask(f"p{index}", group="workers", placeholder=True) for index in (1, 2))
    assert set(placed(scene.ask(*asks)).values()) == {"n-a"}


def test_a_gang_that_prefers_is_in_two_domains_where_one_does_not_hold_it_and_is_not_held_up() -> None:
    scene = a_scene(a=1, b=4, c=2)
    said = scene.gang(packed(6, topology=Topology("zone")), 6)
    assert states(said) == ["Accepted", "Running"]
    assert nodes_of(scene) == {"n-b", "n-c"}


def test_others_of_the_same_class_are_not_refused_for_what_a_domain_lacks() -> None:
    scene = a_scene(a=2, b=9)
    scene.tell(packed(3))
    scene.ask(an_ask("p0", group="workers", placeholder=True))
    scene.tell(NodeAdded(a_node("n-b2", 1000, labels={"zone": "b"})))
    other = scene.gang(packed(5, "other", "root.b", Topology("zone")), 5)
    assert states(other, "other") == ["Accepted", "Running"]


def test_a_gang_of_two_shapes_says_which_of_them_lacks_places_beside_the_others() -> None:
    """Each of them fits alone; the gang wants all or nothing, so they wait whole."""
    scene = a_scene(a=4)
    scene.tell(NodeAdded(a_node("n-big", 1000)))
    scene.ask(an_ask("busy", vcore=1000, app=_busy(scene)))
    scene.tell(ApplicationAdded(replace(_of_two_shapes(), gang_placement=GangPlacement.ATOMIC)))
    said = scene.ask(
        an_ask("big", app="two", vcore=3000, group="big", placeholder=True),
        *(an_ask(f"s{index}", app="two", group="small", placeholder=True) for index in range(2)),
    )
    text = (
        "1 of 2 members of task group small fit together with the others: 0/2 nodes are available: 2 Insufficient cpu."
    )
    assert {reason for _, reason in waits(said).values()} == {text}


def _busy(scene: Scene) -> str:
    scene.tell(ApplicationAdded(an_application("busy", queue="root.b")))
    return "busy"


def test_small_members_that_come_first_leave_room_for_the_large_one() -> None:
    """Members are reserved as they come; the gang was announced, so nobody has to guess."""
    scene = a_scene(a=3, b=2)
    scene.tell(ApplicationAdded(replace(_of_two_shapes(), queue="root.a")))
    for index in range(2):
        small = an_ask(f"s{index}", app="two", group="small", placeholder=True)
        assert placed(scene.ask(small)) == {f"s{index}": "n-b"}
    assert placed(scene.ask(an_ask("big", app="two", vcore=3000, group="big", placeholder=True))) == {"big": "n-a"}
    assert scene.app("two").state == "Running"


def _of_two_shapes() -> ApplicationSpec:
    small, big = resources(vcore=1000, pods=1), resources(vcore=3000, pods=1)
    members = (Member(TaskGroup("big"), 1, big), Member(TaskGroup("small"), 2, small))
    return replace(an_application("two", queue="root.b", gang=1), members=members, placeholder_ask=small.times(2) + big)


def test_members_of_a_large_gang_that_come_early_are_placed_a_few_at_a_time() -> None:
    """Each plan is one for the whole gang: one for every ask of a thousand would take seconds."""
    scene = a_scene(a=20, b=40)
    scene.tell(packed(26))
    plans = 0
    for index in range(26):
        plans += bool(placed(scene.ask(an_ask(f"p{index}", group="workers", placeholder=True))))
    assert plans == 16
    assert scene.app().state == "Running"
    assert nodes_of(scene) == {"n-b"}


def test_a_driver_goes_where_those_have_room_who_are_to_come_and_want_it_near() -> None:
    """The least used zone is too small for its workers; they were announced, and have not been asked for."""
    scene = a_scene(a=3, b=5, c=3)
    near = term("driver", "zone")
    labels = {name: {NAMESPACE: "red", "kubernetes.io/label/app": name} for name in ("driver", "worker")}
    one = resources(vcore=1000, pods=1)
    members = (
        Member(TaskGroup("driver"), 1, one, tags=tuple(labels["driver"].items())),
        Member(
            TaskGroup("worker"),
            4,
            one,
            tags=tuple(labels["worker"].items()),
            facts=PodProperties(InterPodConstraints(near=(near,))),
        ),
    )
    scene.tell(ApplicationAdded(replace(an_application(gang=5), members=members)))
    driver = an_ask("driver", group="driver", placeholder=True, tags=labels["driver"])
    assert placed(scene.ask(driver)) == {"driver": "n-b"}
    for index in range(4):
        worker = an_ask(f"w{index}", group="worker", placeholder=True, tags=labels["worker"])
        said = scene.ask(replace(worker, facts=PodProperties(InterPodConstraints(near=(near,)))))
        assert placed(said) == {f"w{index}": "n-b"}
    assert scene.app().state == "Running"
