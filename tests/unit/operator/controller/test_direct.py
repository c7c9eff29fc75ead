"""A Direct gang: the core reserves its members without placeholder pods, and members request immediately."""

import json

import pytest

from muster_operator.controller import recovery
from muster_operator.controller.state import TimerKind
from muster_operator.model.cluster_events import PlacementChosen, PriorityClassSeen
from muster_operator.model.commands import BindPod, FailPod, MarkResumed, Outcome, PostEvent, SetCondition
from muster_operator.model.core_messages import (
    ApplicationSubmitted,
    AskReleased,
    CoreEvent,
    CoreEvents,
    EventKind,
    SchedulingState,
    SchedulingStateChanged,
    SchedulingStates,
)
from muster_operator.model.ids import AppId, PodUid
from muster_operator.model.names import CHECK_CAPACITY
from muster_operator.model.pods import Placement
from muster_operator.model.settings import Settings
from muster_operator.model.states import AppState
from muster_si import keys
from tests.unit.operator.controller.driver import APP, Driver, done, events, live, notes, orders, requested_keys, whole
from tests.unit.operator.controller.gang import a_direct_member, a_member, began, creates, pod_of
from tests.unit.operator.controller.kubernetes import namespace_seen, node_seen
from tests.unit.operator.controller.objects import Raw, a_group, a_namespace, a_node, a_pod, gang_annotations

DIRECT = "gangPlacement=Direct"
SSD = {"key": "disk", "operator": "In", "values": ["ssd"]}
FULL = "1 of 2 members of task group g fit: 0/1 nodes are available: 1 Insufficient cpu."
QUOTA = "Not enough queue quota: root.a, requested cpu 2, available 0 of 1"
FAILED, SKIPPED, SCHEDULED = SchedulingState.FAILED, SchedulingState.SKIPPED, SchedulingState.SCHEDULED


def looking(parameters: str = "gangPlacement=Direct") -> Driver:
    """A gang of two whose members are requested while the core has not reserved them."""
    driver, _ = began("w0", "w1", parameters=parameters)
    return driver


def gang_state(driver: Driver, kind: SchedulingState, reason: str = "", group: str = "g") -> Outcome:
    """A scheduling state of the core for a task group."""
    reason_kind = keys.REASON_QUOTA if reason == QUOTA else ""
    change = SchedulingStateChanged(APP, PodUid(f"{APP}/{group}"), kind, reason, reason_kind)
    return driver.receive(SchedulingStates((change,)))


def conditions(out: Outcome) -> dict[str, tuple[str, str]]:
    found = [command for command in out.commands if isinstance(command, SetCondition)]
    return {command.pod.name: (command.reason, command.message) for command in found}


def tag(out: Outcome) -> str | None:
    [submitted] = [item for item in out.requests if isinstance(item, ApplicationSubmitted)]
    return submitted.spec.tags.get(keys.APP_TAG_GANG_PLACEMENT)


def test_the_members_tag_carries_what_a_placeholder_would_request() -> None:
    like = {"preference": {"matchExpressions": [SSD]}, "weight": 5}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [like]}}
    driver = live()
    driver.fact(PriorityClassSeen("calm", allow_preemption=False))
    pod = a_pod("w0", app=APP, annotations=gang_annotations(a_group("g", affinity=affinity), parameters=DIRECT))
    pod["spec"] |= {"priority": 7, "priorityClassName": "calm", "preemptionPolicy": "Never"}
    out = driver.see(pod)
    [submitted] = [item for item in out.requests if isinstance(item, ApplicationSubmitted)]
    [member] = json.loads(submitted.spec.tags[keys.APP_TAG_MEMBERS])
    assert (member["priority"], member["allowPreemptSelf"], member["allowPreemptOther"]) == (7, False, False)
    assert member["preferences"]["nodeAffinity"][0]["weight"] == 5


def test_direct_members_request_once_the_application_is_accepted_without_placeholders() -> None:
    driver = live()
    assert tag(driver.see(a_direct_member())) == "Direct"
    out = driver.accepted()
    assert requested_keys(out) == ["uid-w0"]
    assert orders(out) == []
    assert requested_keys(driver.see(a_direct_member("w1"))) == ["uid-w1"], "one that comes later asks at once as well"
    assert driver.ledger.applications[APP].state is AppState.RESERVING


def test_a_gang_runs_when_the_core_reserved_all_members_and_reports_it_once() -> None:
    driver = looking()
    out = driver.updated(keys.APP_RUNNING)
    assert driver.ledger.applications[APP].state is AppState.RUNNING
    assert requested_keys(out) == []
    [event] = [command for command in out.commands if isinstance(command, PostEvent)]
    assert (event.name, event.action, event.note, event.series) == (
        "w0",
        "GangReservationComplete",
        "All 2 members are reserved",
        "gang/dev/job",
    )
    assert driver.updated(keys.APP_RUNNING).commands == []


def test_a_member_costs_a_bind_and_an_event() -> None:
    driver = looking()
    driver.updated(keys.APP_RUNNING)
    for name in ("w0", "w1"):
        [order] = orders(driver.allocated(f"uid-{name}"))
        assert isinstance(order, BindPod)
        assert events(driver.result(done(order))) == [(name, "Scheduled", "Scheduled")]
    assert not driver.wait(600)


@pytest.mark.parametrize("is_bound", [False, True])
def test_an_allocation_may_arrive_before_the_running_state(is_bound: bool) -> None:  # noqa: FBT001
    """They are sent on two streams and may arrive in any order."""
    driver = looking()
    [order] = orders(driver.allocated("uid-w0"))
    if is_bound:
        driver.result(done(order))
    assert orders(driver.updated(keys.APP_RUNNING)) == []
    assert driver.ledger.applications[APP].state is AppState.RUNNING


def test_w8_every_member_of_a_gang_that_needs_more_nodes_is_marked_unschedulable_once_and_gets_an_event() -> None:
    driver = looking()
    assert conditions(gang_state(driver, FAILED, FULL)) == {}
    out = driver.wait(2.5)
    assert conditions(out) == {
        "w0": ("Unschedulable", f"gang job is waiting for its reservation: {FULL}"),
        "w1": ("Unschedulable", "gang job is waiting for its reservation (not enough suitable nodes); see pod w0"),
    }
    assert notes(out) == {name: message for name, (_, message) in conditions(out).items()}
    assert sum(len(driver.wait(60).commands) for _ in range(60)) == 0


def test_a_gang_that_is_queued_or_over_quota_is_not_marked_unschedulable() -> None:
    driver = looking()
    gang_state(driver, SKIPPED, QUOTA)
    assert conditions(driver.wait(2.5)) == {
        "w0": ("SchedulingSkipped", f"gang job is waiting for its reservation: {QUOTA}"),
        "w1": ("SchedulingSkipped", "gang job is waiting for its reservation (not enough queue quota); see pod w0"),
    }


def test_a_reason_that_arrives_before_the_gang_is_accepted_is_kept() -> None:
    driver = live()
    driver.see(a_direct_member())
    gang_state(driver, SKIPPED, QUOTA)
    driver.accepted()
    assert conditions(driver.wait(2.5))["w0"][1].endswith(QUOTA)


def test_a_gang_without_a_reported_reason_waits_for_its_reservation() -> None:
    found = conditions(looking().wait(2.5))
    assert found == {
        "w0": ("SchedulingSkipped", "gang job is waiting for its reservation"),
        "w1": ("SchedulingSkipped", "gang job is waiting for its reservation; see pod w0"),
    }


def test_a_new_reason_is_written_immediately_but_a_late_member_waits_two_seconds() -> None:
    driver = looking()
    gang_state(driver, SKIPPED, QUOTA)
    driver.wait(2.5)
    assert {reason for reason, _ in conditions(gang_state(driver, FAILED, FULL)).values()} == {"Unschedulable"}
    driver.see(a_direct_member("w2"))
    assert conditions(driver.wait(1)) == {}
    assert set(conditions(driver.wait(1.5))) == {"w2"}


def test_the_group_that_needs_nodes_reports_for_the_gang() -> None:
    driver = live()
    annotations = gang_annotations(a_group("a", 1), a_group("b", 1), a_group("c", 1), parameters="gangPlacement=Direct")
    driver.see(a_pod("w0", app=APP, annotations=annotations))
    driver.accepted()
    for group, kind in (("a", SKIPPED), ("b", FAILED), ("c", SKIPPED)):
        gang_state(driver, kind, f"of {group}", group)
    assert conditions(driver.wait(2.5))["w0"] == ("Unschedulable", "gang job is waiting for its reservation: of b")
    assert conditions(gang_state(driver, SCHEDULED, group="b"))["w0"][0] == "SchedulingSkipped"


def test_a_fully_reserved_gang_reports_no_reason_before_it_runs() -> None:
    """The two messages are on different streams. No condition is written on a member that is about to be bound."""
    driver = live()
    groups = [a_group("a", 1), a_group("b", 1)]
    driver.see(a_pod("w0", app=APP, annotations=gang_annotations(*groups, parameters=DIRECT)))
    driver.accepted()
    gang_state(driver, SKIPPED, QUOTA, group="a")
    gang_state(driver, FAILED, FULL, group="b")
    assert len(conditions(driver.wait(5))) == 1
    both = [SchedulingStateChanged(APP, PodUid(f"{APP}/{group}"), SCHEDULED) for group in "ba"]
    assert driver.receive(SchedulingStates(tuple(both))).commands == []
    assert conditions(driver.updated(keys.APP_RUNNING)) == {}


def test_members_of_a_gang_for_which_pods_are_preempted_are_not_unschedulable() -> None:
    """They have no node of their own yet that could be nominated, and an autoscaler must add none."""
    driver = looking()
    gang_state(driver, FAILED, FULL)
    assert {reason for reason, _ in conditions(driver.wait(5)).values()} == {"Unschedulable"}
    out = gang_state(driver, SchedulingState.RESERVED, "waiting for preempted pods to terminate")
    found = conditions(out)
    assert {reason for reason, _ in found.values()} == {"SchedulingSkipped"}
    assert found["w0"][1].endswith("waiting for preempted pods to terminate")


def test_a_gang_that_is_half_bound_after_a_restart_reports_the_reason_on_the_others() -> None:
    driver = Driver()
    driver.fact(namespace_seen(a_namespace()))
    driver.fact(node_seen(a_node("n1")))
    for name, node in (("w0", "n1"), ("w1", None)):
        pod = a_direct_member(name)
        pod["spec"]["nodeName"] = node
        driver.see(pod)
    whole(recovery.begin(driver.ledger, 0.0))
    driver.accepted()
    whole(recovery.report_nodes(driver.ledger, 0.0))
    whole(recovery.submit_asks(driver.ledger, 0.0))
    recovery.open_nodes(driver.ledger, 0.0)
    gang_state(driver, FAILED, FULL)
    note = f"gang job is waiting for its reservation: {FULL}"
    assert conditions(driver.wait(2.5)) == {"w1": ("Unschedulable", note)}
    gang_state(driver, SCHEDULED)
    assert {task.shortage for task in driver.ledger.tasks.values()} == {None}


def test_a_state_of_an_unknown_group_or_application_is_ignored() -> None:
    driver = looking()
    gang_state(driver, FAILED, FULL, group="other")
    elsewhere = SchedulingStateChanged(AppId("dev/x"), PodUid("x/g"), FAILED, FULL)
    driver.receive(SchedulingStates((elsewhere,)))
    assert {reason for reason, _ in conditions(driver.wait(2.5)).values()} == {"SchedulingSkipped"}


def test_a_gang_that_does_not_fit_the_empty_nodes_is_reported_immediately_then_on_every_member() -> None:
    driver = looking()
    note = "the gang would not fit even in an empty cluster: 1 of 2 members of task group g would not fit"
    out = driver.receive(CoreEvents((CoreEvent(EventKind.APP, APP, "g", note),)))
    assert conditions(out) == {"w0": ("Unschedulable", note)}
    gang_state(driver, FAILED, FULL)
    short = "gang job is waiting for its reservation (it does not fit even on empty nodes); see pod w0"
    assert conditions(driver.wait(2.5)) == {"w1": ("Unschedulable", short)}


def test_members_of_a_fully_reserved_gang_no_longer_wait_for_the_gang() -> None:
    driver = looking()
    gang_state(driver, FAILED, FULL)
    driver.wait(2.5)
    driver.updated(keys.APP_RUNNING)
    assert {task.shortage for task in driver.ledger.tasks.values()} == {None}
    assert driver.wait(3600).commands == []


def test_a_soft_gang_that_timed_out_keeps_the_requests_of_its_members() -> None:
    driver = looking()
    gang_state(driver, FAILED, FULL)
    out = driver.updated(keys.APP_RESUMING, "waited too long")
    assert [type(order) for order in orders(out)] == [MarkResumed]
    assert not [item for item in out.requests if isinstance(item, AskReleased)]
    assert driver.ledger.applications[APP].state is AppState.RUNNING
    [order] = orders(driver.allocated("uid-w0"))
    assert isinstance(order, BindPod)
    assert conditions(driver.wait(3)) == {}, "what the gang lacked is not what its members lack"


def test_a_hard_gang_that_timed_out_fails_its_members_with_the_reason() -> None:
    driver = looking("gangPlacement=Direct gangSchedulingStyle=Hard")
    out = driver.updated(keys.APP_FAILING, "waited too long")
    failed = [order for order in orders(out) if isinstance(order, FailPod)]
    assert [(order.pod.name, order.reason) for order in failed] == [
        ("w0", "ResourceReservationTimeout"),
        ("w1", "ResourceReservationTimeout"),
    ]
    assert all("waited too long" in order.message for order in failed)


def test_the_next_member_reports_for_the_gang_when_the_first_is_deleted() -> None:
    driver = looking()
    out = driver.gone("w0")
    assert [item.key for item in out.requests if isinstance(item, AskReleased)] == ["uid-w0"]
    gang_state(driver, FAILED, FULL)
    assert set(conditions(driver.wait(2.5))) == {"w1"}
    [event] = [command for command in driver.updated(keys.APP_RUNNING).commands if isinstance(command, PostEvent)]
    assert event.name == "w1"


def test_the_configured_placement_applies_to_gangs_that_start_later() -> None:
    driver = live()
    assert tag(driver.see(a_member())) is None
    driver.fact(PlacementChosen(Placement.DIRECT))
    assert len(creates(driver.accepted())) == 2, "who began with placeholders goes on so"
    other = a_pod("x0", app="other", annotations=gang_annotations(a_group()))
    assert tag(driver.see(other)) == "Direct"
    named = gang_annotations(a_group(), parameters="gangPlacement=Auto")
    assert tag(driver.see(a_pod("y0", app="named", annotations=named))) == "Auto"


@pytest.mark.parametrize(
    "scheduler_name,settings,placement",
    [
        ("muster", Settings(), "Auto"),
        ("yunikorn", Settings(), None),
        ("muster", Settings(provisioning_class=CHECK_CAPACITY), None),
        ("muster", Settings(gang_placement=Placement.RESERVE), None),
        ("yunikorn", Settings(gang_placement=Placement.AUTO), "Auto"),
        ("muster", Settings(gang_placement=Placement.AUTO, provisioning_class=CHECK_CAPACITY), "Auto"),
    ],
)
def test_the_default_placement_depends_on_the_scheduler_name(
    scheduler_name: str, settings: Settings, placement: str | None
) -> None:
    """Reserve has no tag."""
    driver = live(settings=settings)
    pod = a_member()
    pod["spec"]["schedulerName"] = scheduler_name
    assert tag(driver.see(pod)) == placement
    assert len(creates(driver.accepted())) == (0 if placement else 2)


def test_a_removed_setting_gives_the_default_placement() -> None:
    driver = live()
    driver.fact(PlacementChosen(None))
    assert tag(driver.see(a_member())) == "Auto"


def test_a_placement_that_is_chosen_while_no_session_is_live_is_kept() -> None:
    driver = Driver()
    driver.fact(PlacementChosen(Placement.DIRECT))
    whole(recovery.begin(driver.ledger, 0.0))
    assert driver.ledger.settings.gang_placement is Placement.DIRECT


def test_the_removed_placement_counts_as_auto_with_a_warning() -> None:
    driver = live()
    out = driver.see(a_member(parameters="gangPlacement=Atomic"))
    assert tag(out) == "Auto"
    [note] = [command.note for command in out.commands if isinstance(command, PostEvent)]
    assert "Atomic was removed; Auto is used" in note


def test_groups_that_are_too_large_to_send_get_placeholders_and_an_event() -> None:
    driver = live()
    spread = [{"topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"} for _ in range(500)]
    group = a_group("g", 2, topologySpreadConstraints=spread)
    annotations = gang_annotations(group, parameters="gangPlacement=Direct", member_of="g")
    out = driver.see(a_pod("w0", app=APP, annotations=annotations))
    assert tag(out) is None
    [note] = [command.note for command in out.commands if isinstance(command, PostEvent)]
    assert "Reserve is used" in note
    assert len(creates(driver.accepted())) == 2


def test_a_late_placeholder_of_a_gang_without_placeholders_is_deleted() -> None:
    """An earlier operator had requested its creation while the default was another."""
    driver = live()
    driver.see(a_member())
    late = ordered_placeholder(driver)
    again = live()
    again.fact(PlacementChosen(Placement.DIRECT))
    again.see(a_member())
    again.accepted()
    assert [type(order).__name__ for order in orders(again.see(late))] == ["DeletePod"]
    assert not [due for _, _, due, _ in again.ledger.deadlines if due.kind is TimerKind.CREATIONS]


def ordered_placeholder(driver: Driver) -> Raw:
    return pod_of(creates(driver.accepted())[0])
