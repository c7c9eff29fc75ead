"""From marked victims to the allocation of the request, and the guard against preemption thrashing."""

from collections.abc import Callable

import pytest

from muster_core.model.config import QueuePolicies, Timing
from muster_core.model.decisions import Preemption
from muster_core.model.effects import AllocationResponse, Effect, SchedulingStateChanged
from muster_core.model.errors import BrokenDecision
from muster_core.model.events import ApplicationRemoved, ManagerRegistered, NodeAction, NodeAdded
from muster_core.model.ids import AllocationId, AllocationKey, ApplicationId, NodeId, QueuePath, Termination
from muster_core.model.records import Change, Detail, EventRecorded, Notice
from muster_core.model.resources import NOTHING
from muster_core.scheduling.commit import commit
from tests.unit.builders import (
    PARTITION,
    RM,
    SECOND,
    a_configuration,
    a_limit,
    a_node,
    a_queue,
    an_application,
    an_ask,
    resources,
)
from tests.unit.core.scheduling.preemption_scenario import (
    PREEMPTED,
    a_daemon,
    confirm,
    cores,
    pods,
    run,
    victims,
    with_preemption,
)
from tests.unit.core.scheduling.scenario import Scenario, nominations, notices, outstanding, placed, releases, waits

_A, _B = ApplicationId("a"), ApplicationId("b")


def preempting(nodes: int = 1) -> tuple[Scenario, list[Effect]]:
    """Request x of root.a waits for the release of b3 of root.b; returns the effects."""
    scenario = Scenario(a_configuration(a_queue("a", guaranteed=2000), a_queue("b")), nodes=nodes)
    run(scenario, "root.b", *pods("b", 4 * nodes))
    run(scenario, "root.a", an_ask("x"))
    return scenario, scenario.wait(31)


def test_one_response_lists_all_victims_of_a_decision() -> None:
    scenario = Scenario(a_configuration(a_queue("a", guaranteed=4000), a_queue("b")), nodes=1)
    run(scenario, "root.b", *pods("b", 4))
    run(scenario, "root.a", an_ask("wide", vcore=3000))
    answers = [one for one in scenario.wait(31) if isinstance(one, AllocationResponse)]
    assert [len(answer.released) for answer in answers] == [3]
    assert {one.message for one in answers[0].released} == {"preempted for a request of queue root.a"}


def crowded_by_b(quota: int = 0) -> Scenario:
    """Leaf b uses 4 cores: the only node, or all of the quota that it shares with leaf a."""
    leaves = a_queue("a", guaranteed=2000), a_queue("b")
    queues = (a_queue("shared", *leaves, vcore=quota),) if quota else leaves
    configuration = a_configuration(*queues, timing=Timing(scale_up_delay_ns=60 * SECOND))
    scenario = Scenario(configuration, nodes=2 if quota else 1)
    run(scenario, "root.shared.b" if quota else "root.b", *pods("b", 4))
    return scenario


def test_preemption_for_a_pod_that_fits_on_no_node_waits_for_a_scale_up() -> None:
    scenario = crowded_by_b()
    run(scenario, "root.a", an_ask("x"))
    assert victims(scenario.wait(55)) == set()
    assert victims(scenario.wait(20)) == {"b3"}


def test_preemption_for_a_pod_that_waits_for_quota_does_not_wait_for_a_scale_up() -> None:
    scenario = crowded_by_b(quota=4000)
    run(scenario, "root.shared.a", an_ask("x"))
    assert victims(scenario.wait(55)) == {"b3"}


def test_a_pod_of_a_daemon_set_preempts_without_waiting_for_a_scale_up() -> None:
    scenario = crowded_by_b()
    assert victims([*run(scenario, "root.a", a_daemon("agent", "n0")), *scenario.wait(5)]) == {"b3"}


def test_the_node_of_the_victims_is_reported_until_the_preemption_is_cancelled() -> None:
    """An autoscaler must add no node for the request meanwhile."""
    scenario, effects = preempting()
    assert nominations(effects) == {"x": "n0"}
    assert outstanding(scenario.partition) == []
    later = scenario.wait(150)
    assert [notice for notice in notices(later) if "in time" in notice]
    first = next(one for one in later if isinstance(one, SchedulingStateChanged))
    assert (first.key, first.state, first.preemption_node) == ("x", "FAILED", None)


def test_a_reported_node_of_victims_that_is_drained_is_not_reported_any_more() -> None:
    scenario, _ = preempting()
    scenario.add_full_node()
    assert nominations(scenario.node("n0", NodeAction.DRAIN)) == {"x": None}
    assert [one.count for one in outstanding(scenario.partition)] == [1]


def test_the_nodes_of_victims_of_a_gang_are_reported_for_its_placeholders() -> None:
    scenario = Scenario(a_configuration(a_queue("a", guaranteed=4000), a_queue("b")), nodes=1)
    run(scenario, "root.b", *pods("b", 4))
    scenario.submit(an_application("a", gang=2))
    run(scenario, "root.a", *(an_ask(f"p{number}", group="workers", placeholder=True) for number in range(2)))
    effects = scenario.wait(31)
    assert len(victims(effects)) == 2
    assert nominations(effects) == {"p0": "n0", "p1": "n0"}


def test_a_node_that_is_reserved_without_victims_is_not_a_node_of_victims() -> None:
    timing = Timing(reservation_delay_ns=SECOND)
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b"), timing=timing), nodes=1)
    run(scenario, "root.b", *pods("b", 4))
    run(scenario, "root.a", an_ask("wide", vcore=2000))
    effects = scenario.wait(31)
    assert waits(effects)["wide"][0] == "RESERVED"
    assert nominations(effects) == {"wide": None}


def test_victims_are_counted_on_every_queue_until_released() -> None:
    scenario, effects = preempting()
    b, root = scenario.app("b").queue, scenario.partition.queues.root
    assert [queue.preempting["vcore"] for queue in (b, root)] == [1000, 1000]
    confirm(scenario, effects)
    assert [queue.preempting["vcore"] for queue in (b, root)] == [0, 0]


def test_a_confirmed_victim_is_recorded_as_preempted_and_not_echoed() -> None:
    scenario, effects = preempting()
    scenario.records.clear()
    assert releases(confirm(scenario, effects)) == {}
    assert Detail.ALLOC_PREEMPT in {note.detail for note in scenario.records}


def test_a_preemption_is_recorded_on_the_queue_of_the_ask() -> None:
    scenario, _ = preempting()
    [note] = [note for note in scenario.records if note.detail is Detail.QUEUE_PREEMPTION]
    assert (note.subject, note.reference, note.resource["vcore"]) == ("root.a", "a", 1000)
    [report] = scenario.partition.preemptions.reports
    assert (report.asks, report.victims) == ((("a", "x"),), (("b", "b3-0"),))


@pytest.mark.parametrize(
    "end",
    [
        lambda scenario: scenario.release("b3", app="b", why=Termination.STOPPED_BY_RM),
        lambda scenario: scenario.send(ApplicationRemoved(PARTITION, _B)),
    ],
    ids=["ended by itself", "its application was removed"],
)
def test_a_victim_that_ends_another_way_counts_as_released(end: Callable[[Scenario], list[Effect]]) -> None:
    scenario, _ = preempting()
    assert placed(end(scenario)) == {"x": "n0"}
    assert not scenario.partition.preemptions.running


def test_victims_removed_with_their_node_count_as_released() -> None:
    scenario, _ = preempting()
    scenario.node("n0", NodeAction.DECOMMISSION)
    assert not scenario.partition.preemptions.running
    assert not scenario.partition.reservations
    assert placed(scenario.add_node("n1")) == {"x": "n1"}


def test_an_unconfirmed_victim_ends_the_reservation_after_the_deadline() -> None:
    scenario = Scenario(a_configuration(a_queue("a", guaranteed=2000), a_queue("b")), nodes=1)
    run(scenario, "root.b", *pods("b", 3, priority=9), an_ask("victim"))
    run(scenario, "root.a", an_ask("x"))
    scenario.wait(31)
    effects = scenario.wait(150)
    assert [notice for notice in notices(effects) if "in time" in notice]
    assert scenario.app("a").node_reserved["vcore"] == 0
    assert placed(scenario.release("victim", app="b", why=PREEMPTED)) == {"x": "n0"}


def test_another_victim_is_found_for_an_ask_whose_first_one_does_not_terminate() -> None:
    scenario, effects = preempting(nodes=2)
    [stuck] = victims(effects)
    [other] = victims(scenario.wait(150))
    assert other != stuck
    assert set(placed(scenario.release(other, app="b", why=PREEMPTED))) == {"x"}


def test_another_victim_releases_quota_that_a_stuck_victim_keeps() -> None:
    leaves = (a_queue("a", guaranteed=2000), a_queue("b"))
    scenario = Scenario(a_configuration(a_queue("p", *leaves, vcore=4000)), nodes=2)
    run(scenario, "root.p.b", *pods("b", 4))
    run(scenario, "root.p.a", an_ask("x"))
    [stuck] = victims(scenario.wait(31))
    [other] = victims(scenario.wait(150))
    assert other != stuck
    assert set(placed(scenario.release(other, app="b", why=PREEMPTED))) == {"x"}


def test_quota_preemption_selects_others_if_victims_do_not_terminate() -> None:
    policies = QueuePolicies(quota_preemption_delay_ns=60 * SECOND)
    scenario = Scenario(with_preemption(a_queue("a", policies=policies), by_quota=True), nodes=1)
    run(scenario, "root.a", *pods("x", 4))
    lower = with_preemption(a_queue("a", vcore=3000, policies=policies), by_quota=True)
    scenario.reload(lower)
    [stuck] = victims(scenario.wait(61))
    assert victims(scenario.wait(140)) == set(), "its time is not over"
    [other] = victims(scenario.wait(70))
    assert other != stuck


def test_a_daemon_set_pod_finds_another_victim_if_one_does_not_terminate() -> None:
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")), nodes=1)
    run(scenario, "root.b", *pods("b", 4))
    run(scenario, "root.a", a_daemon("agent", "n0", priority=1))
    [stuck] = victims(scenario.wait(1))
    [other] = victims(scenario.wait(150))
    assert other != stuck


def test_a_stuck_timed_out_allocation_stops_counting_as_freed() -> None:
    scenario = Scenario(a_configuration(a_queue("a", guaranteed=2000), a_queue("b")), nodes=1)
    run(scenario, "root.b", an_ask("stuck", timeout_s=25), *pods("b", 3))
    run(scenario, "root.a", an_ask("x"))
    effects = scenario.wait(40)
    assert "stuck" in releases(effects)
    assert victims(effects) == set(), "what was told to go a moment ago is room soon"
    scenario.wait(150)
    run(scenario, "root.b", an_ask("change", vcore=0))
    assert len(victims(scenario.wait(60))) == 1


def test_releasing_the_ask_drops_its_reservation_but_not_the_preemption() -> None:
    scenario, effects = preempting()
    scenario.release_ask("x", app="a")
    run(scenario, "root.b", an_ask("again"))
    assert placed(confirm(scenario, effects)) == {"again": "n0"}


def test_an_ask_that_fits_another_node_is_placed_there() -> None:
    scenario, effects = preempting()
    assert placed(scenario.add_node("n1")) == {"x": "n1"}
    run(scenario, "root.b", *pods("more", 5))
    assert len(placed(confirm(scenario, effects))) == 1


def test_draining_a_node_drops_its_reservation() -> None:
    scenario, effects = preempting()
    scenario.node("n0", NodeAction.DRAIN)
    assert not scenario.partition.reservations
    assert placed(confirm(scenario, effects)) == {}
    assert placed(scenario.node("n0", NodeAction.OPEN)) == {"x": "n0"}


def test_a_new_session_forgets_running_preemptions() -> None:
    scenario, _ = preempting()
    scenario.send(ManagerRegistered(RM, a_configuration(a_queue("a"))))
    assert not scenario.partition.preemptions.running


def test_failed_preemption_attempts_back_off_and_are_recorded() -> None:
    scenario = Scenario(a_configuration(a_queue("a", guaranteed=2000), a_queue("b")), nodes=1)
    run(scenario, "root.b", *pods("b", 4, priority=9))
    run(scenario, "root.a", an_ask("x"))
    for second in range(30 + 15 + 30 + 1):
        scenario.wait(1)
        run(scenario, "root.b", an_ask(f"change{second}", vcore=0))
    ask = scenario.app("a").asks[an_ask("x").key]
    assert ask.attempts is not None
    assert ask.attempts["Preemption does not help"][0] == 3
    assert not ask.triggered


def storm(*, inherited: bool, seconds: int) -> Scenario:
    """Two leaves whose victims are all replaced immediately, as by a ReplicaSet."""
    own = 0 if inherited else 5000
    leaves = (a_queue("a", guaranteed=own), a_queue("b", guaranteed=own))
    scenario = Scenario(a_configuration(a_queue("p", *leaves, vcore=10_000, guaranteed=10_000)), nodes=1, vcore=99_000)
    run(scenario, "root.p.a", *pods("a", 10))
    run(scenario, "root.p.b", *pods("b", 1))
    for index in range(seconds // 10):
        effects = scenario.wait(10)
        gone = victims(effects)
        owners = {key: app.id for app in (scenario.app("a"), scenario.app("b")) for key in app.ids if key in gone}
        confirm(scenario, effects)
        for key, owner in sorted(owners.items()):
            run(scenario, f"root.p.{owner}", an_ask(f"{key}-{index}"))
    return scenario


def test_preemption_thrashing_of_leaves_with_inherited_guarantees_stops() -> None:
    scenario = storm(inherited=True, seconds=3600)
    assert scenario.partition.preemptions.count <= 10, "without the guard there is one every half minute"
    assert scenario.partition.preemptions.livelocks >= 2
    paths = QueuePath("root.p.a"), QueuePath("root.p.b")
    assert all(scenario.partition.preemptions.paused_until_ns(path) > scenario.now_ns for path in paths)
    assert [note for note in scenario.records if "preempt from each other repeatedly" in note.message]


def test_leaves_with_separate_guarantees_do_not_thrash() -> None:
    scenario = storm(inherited=False, seconds=600)
    assert scenario.partition.preemptions.count == 1
    assert scenario.partition.preemptions.livelocks == 0
    assert cores(scenario, "root.p.a", "root.p.b") == [9, 1]


def test_a_decision_on_a_deleted_node_writes_nothing() -> None:
    scenario, _ = preempting()
    before = dict(scenario.partition.preemptions.running)
    places = ((AllocationKey("late"), NodeId("gone")),)
    decision = Preemption(PARTITION, _A, places, ((_B, AllocationId("b0-0")),))
    run(scenario, "root.a", an_ask("late"))
    with pytest.raises(BrokenDecision, match="node"):
        commit(scenario.partition, decision, scenario.now_ns)
    assert scenario.partition.preemptions.running == before


# -- Event records of node reservations and preemption.


def noted(scenario: Scenario, detail: Detail) -> list[EventRecorded]:
    return [one for one in scenario.records if one.detail is detail]


def test_adding_and_removing_a_reservation_is_recorded_on_its_node() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1, vcore=4000)
    run(scenario, "root.a", *pods("x", 4))
    run(scenario, "root.a", an_ask("big", vcore=3000))
    scenario.wait(60)
    [came] = noted(scenario, Detail.NODE_RESERVATION)
    assert (came.about, came.subject, came.change, came.reference) == (Notice.NODE, "n0", Change.ADD, "big")
    assert came.resource["vcore"] == 3000
    scenario.send(NodeAdded(a_node("n1")))
    scenario.wait(60)
    [_, went] = noted(scenario, Detail.NODE_RESERVATION)
    assert (went.subject, went.change, went.reference) == ("n0", Change.REMOVE, "big")


def test_a_victim_is_recorded_as_preempted_after_its_release() -> None:
    both = a_queue("p", a_queue("a", guaranteed=5000), a_queue("b", guaranteed=5000), vcore=10_000)
    scenario = Scenario(a_configuration(both), nodes=1, vcore=100_000)
    run(scenario, "root.p.a", *pods("a", 10))
    run(scenario, "root.p.b", *pods("b", 1))
    effects = scenario.wait(60)
    [victim] = victims(effects)
    assert noted(scenario, Detail.ALLOC_PREEMPT) == []
    confirm(scenario, effects)
    [gone] = noted(scenario, Detail.ALLOC_PREEMPT)
    assert (gone.about, gone.subject, gone.change, gone.reference) == (Notice.APPLICATION, "a", Change.REMOVE, victim)


def test_a_lowered_maximum_is_recorded_with_the_preempted_resources() -> None:
    later = QueuePolicies(quota_preemption_delay_ns=60 * SECOND)
    scenario = Scenario(with_preemption(a_queue("a", policies=later), by_quota=True), nodes=1, vcore=100_000)
    run(scenario, "root.a", *pods("x", 6))
    scenario.reload(with_preemption(a_queue("a", vcore=4000, policies=later), by_quota=True))
    confirm(scenario, scenario.wait(61))
    summary = noted(scenario, Detail.QUEUE_PREEMPTION)[0]
    assert (summary.about, summary.subject, summary.change) == (Notice.QUEUE, "root.a", Change.SET)
    assert summary.resource["vcore"] == 2000


# -- After preemption: a reservation takes the first free resources, and a gang that lost a member requests it
# again.


def test_a_new_node_serves_an_ask_with_a_reservation_that_fills_its_queue() -> None:
    queues = with_preemption(a_queue("a", vcore=1000, guaranteed=1000), a_queue("b"))
    scenario = Scenario(queues, nodes=1)
    run(scenario, "root.b", *pods("b", 4))
    run(scenario, "root.a", *pods("a", 1))
    assert len(victims(scenario.wait(31))) == 1  # release requested, not confirmed
    scenario.reload(queues)  # what was remembered of nodes is forgotten
    assert placed(scenario.add_node("n1")) == {"a0": "n1"}


def test_a_gang_that_loses_a_placeholder_gets_a_quota_reservation() -> None:
    scenario = Scenario(with_preemption(a_queue("a"), a_queue("b")), nodes=1, vcore=2000)
    scenario.gang(an_application("gang", queue="root.b", gang=2), 3)  # one more than announced
    gang = scenario.app("gang").gang
    assert (gang.reserved["vcore"], gang.quota_reservation) == (2000, NOTHING)
    effects = run(scenario, "root.a", a_daemon("daemon", "n0", priority=1))
    assert len(victims([*effects, *scenario.wait(1)])) == 1
    assert gang.quota_reservation == resources(vcore=1000, pods=1)


def test_two_reservations_of_one_user_share_the_user_limit() -> None:
    limits = (a_limit(users=("kim",), vcore=1000),)
    scenario = Scenario(with_preemption(a_queue("a", guaranteed=2000, limits=limits), a_queue("b")), nodes=1)
    run(scenario, "root.b", *pods("b", 4))
    run(scenario, "root.a", *pods("a", 2))
    assert len(victims(scenario.wait(60))) == 2  # release requested, not confirmed
    assert placed(scenario.add_node("n1")) == {"a0": "n1"}
