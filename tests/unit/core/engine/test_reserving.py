"""A gang gets its places whole, in part, or not yet; seed 000 and semantics 9-12."""

from __future__ import annotations

from muster_core.model.config import Timing
from muster_core.model.constraints import Constraints
from muster_core.model.effects import AllocationAnswer
from muster_core.model.events import ApplicationAdded, NodeAdded
from muster_core.model.ids import AllocationKey
from tests.unit.builders import SECOND, a_configuration, a_node, a_queue, an_application, an_ask, resources
from tests.unit.core.engine.scene import Scene, notices, placed, rejection, states, waits


def test_a_gang_that_fits_is_placed_in_one_answer_and_runs() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=2)
    said = scene.gang(ApplicationAdded(an_application(gang=6)), 6)
    assert len(placed(said)) == 6
    assert states(said) == ["Accepted", "Running"]
    assert len([effect for effect in said if isinstance(effect, AllocationAnswer) and effect.new]) == 1


def test_real_asks_are_ignored_until_all_placeholders_are_allocated() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=2)
    scene.tell(ApplicationAdded(an_application(gang=3)))
    early = scene.ask(an_ask("real", group="workers"), an_ask("app-p0", group="workers", placeholder=True))
    assert set(placed(early)) == {"app-p0"}
    rest = scene.ask(*(an_ask(f"app-p{i}", group="workers", placeholder=True) for i in (1, 2)))
    assert set(placed(rest)) == {"app-p1", "app-p2"}
    assert states(rest) == ["Running"]
    assert scene.app().asks[AllocationKey("real")].swap is not None


def test_a_gang_in_a_fair_leaf_is_refused_with_the_property_to_change() -> None:
    scene = Scene(a_configuration(a_queue("a", fair=True)), nodes=2)
    reason = rejection(scene.tell(ApplicationAdded(an_application(gang=2))))
    assert "root.a" in reason
    assert "application.sort.policy" in reason


def test_a_gang_over_the_quota_of_a_parent_is_refused_with_both_amounts() -> None:
    scene = Scene(a_configuration(a_queue("p", a_queue("a"), vcore=3000)), nodes=2)
    reason = rejection(scene.tell(ApplicationAdded(an_application(queue="root.p.a", gang=4))))
    assert "root.p" in reason
    assert "vcore=4000" in reason
    assert "vcore=3000" in reason


def test_a_queue_made_on_demand_is_bounded_by_its_parent() -> None:
    scene = Scene(a_configuration(), nodes=1)
    assert rejection(scene.tell(ApplicationAdded(an_application(queue="", gang=4)))) == ""
    assert scene.app().queue.path == "root.ns"


def test_reserving_waits_for_head_room_of_the_whole_gang() -> None:
    scene = Scene(a_configuration(a_queue("a", vcore=4000)), nodes=2)
    scene.tell(ApplicationAdded(an_application("busy")))
    scene.ask(*(an_ask(f"b{i}", app="busy") for i in range(2)))
    said = scene.gang(ApplicationAdded(an_application("gang", gang=3)), 3)
    assert placed(said) == {}
    state, reason = waits(said)["gang-p0"]
    assert state == "SKIPPED"
    assert "root.a" in reason
    freed = scene.release("b0", "busy")
    assert set(placed(freed)) == {"gang-p0", "gang-p1", "gang-p2"}


def test_an_application_that_has_not_started_does_not_overtake_a_waiting_gang() -> None:
    scene = Scene(a_configuration(a_queue("a", vcore=4000)), nodes=2)
    scene.tell(ApplicationAdded(an_application("busy")))
    scene.ask(*(an_ask(f"b{i}", app="busy") for i in range(2)))
    scene.gang(ApplicationAdded(an_application("gang", gang=3)), 3)
    scene.tell(ApplicationAdded(an_application("late")))
    late = scene.ask(an_ask("l0", app="late"))
    assert waits(late)["l0"][0] == "SKIPPED"
    running = scene.ask(an_ask("b2", app="busy"))
    assert set(placed(running)) == {"b2"}, "an application that runs may grow"


def test_a_starving_gang_pledges_before_running_applications_grow() -> None:
    timing = Timing(starvation_age_ns=60 * SECOND)
    scene = Scene(a_configuration(a_queue("a", vcore=4000), timing=timing), nodes=2)
    scene.tell(ApplicationAdded(an_application("busy")))
    scene.ask(*(an_ask(f"b{i}", app="busy") for i in range(2)))
    scene.gang(ApplicationAdded(an_application("gang", gang=3)), 3)
    scene.wait(61)
    assert placed(scene.ask(an_ask("b2", app="busy"))) == {}
    assert len(placed(scene.release("b0", "busy"))) == 3


def test_pledged_head_room_is_not_given_to_anyone_else() -> None:
    scene = Scene(a_configuration(a_queue("a", vcore=4000)), nodes=2)
    scene.tell(ApplicationAdded(an_application("gang", gang=4)))
    scene.ask(an_ask("gang-p0", app="gang", group="workers", placeholder=True))
    scene.tell(ApplicationAdded(an_application("other")))
    assert placed(scene.ask(an_ask("o", app="other"))) == {}
    rest = scene.ask(*(an_ask(f"gang-p{i}", app="gang", group="workers", placeholder=True) for i in (1, 2, 3)))
    assert states(rest, "gang") == ["Running"]


def test_only_one_gang_holds_a_part_of_its_places() -> None:
    scene = Scene(a_configuration(a_queue("a"), a_queue("b")), nodes=1, vcore=4000)
    first = scene.gang(ApplicationAdded(an_application("one", gang=6)), 6)
    assert len(placed(first)) == 4
    second = scene.gang(ApplicationAdded(an_application("two", queue="root.b", gang=2)), 2)
    assert placed(second) == {}
    assert scene.partition.partial == "one"
    grown = scene.add_node("n1")
    assert len(placed(grown)) == 4
    assert states(grown, "one") == ["Running"]
    assert states(grown, "two") == ["Running"]


def test_two_gangs_competing_for_room_for_one_both_finish() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1, vcore=4000)
    scene.tell(ApplicationAdded(an_application("one", gang=4)), ApplicationAdded(an_application("two", gang=4)))
    for index in range(4):
        for app in ("one", "two"):
            scene.ask(an_ask(f"{app}-p{index}", app=app, group="workers", placeholder=True))
    winner, loser = ("one", "two") if scene.app("one").gang.over else ("two", "one")
    assert scene.app(winner).state == "Running"
    assert not scene.app(loser).allocations
    last = [effect for index in range(4) for effect in scene.release(f"{winner}-p{index}", winner)]
    assert states(last, loser) == ["Running"]


def test_a_gang_that_no_empty_cluster_could_hold_is_told_so_once_and_takes_what_fits() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1, vcore=4000)
    said = scene.gang(ApplicationAdded(an_application(gang=6)), 6)
    assert len(placed(said)) == 4
    [notice] = notices(said)
    assert "workers" in notice
    assert "Insufficient cpu" in notice
    assert notices(scene.ask(an_ask("app-p6", group="workers", placeholder=True))) == []


def test_a_missing_member_is_reported_as_outstanding_with_the_nodes_reasons() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1, vcore=4000)
    said = waits(scene.gang(ApplicationAdded(an_application(gang=5)), 5))
    assert [(state, "Insufficient cpu" in reason) for state, reason in said.values()] == [("FAILED", True)]


def test_members_that_fit_apart_but_not_together_wait_together_behind_a_partial_gang() -> None:
    """One of the two has room on the ssd node, and does not get it while another gang holds the partial slot."""
    scene = Scene(a_configuration(a_queue("a"), a_queue("b")))
    scene.tell(
        NodeAdded(a_node("n0", 2000, labels={"disk": "hdd"})), NodeAdded(a_node("n1", 1000, labels={"disk": "ssd"}))
    )
    hdd, ssd = (Constraints(node_selector=(("disk", kind),)) for kind in ("hdd", "ssd"))
    assert len(placed(scene.gang(ApplicationAdded(an_application("huge", gang=9)), 9, hdd))) == 2
    assert scene.partition.partial == "huge"
    said = scene.gang(ApplicationAdded(an_application("picky", queue="root.b", gang=2)), 2, ssd)
    assert placed(said) == {}
    grown = scene.tell(NodeAdded(a_node("n2", 1000, labels={"disk": "ssd"})))
    assert placed(grown) == {"picky-p0": "n1", "picky-p1": "n2"}


def test_a_missing_member_that_is_called_off_lets_the_gang_run() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1, vcore=2000)
    scene.gang(ApplicationAdded(an_application(gang=2)), 3)
    assert scene.app().state == "Accepted", "a placeholder ask is still pending"
    assert states(scene.release_ask("app-p2")) == ["Running"]
    assert resources(vcore=2000, pods=2) == scene.app().gang.reserved
