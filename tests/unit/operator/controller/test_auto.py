"""An Auto gang: absent members get placeholder pods after a quiet period."""

import pytest

from muster_operator.controller import recovery
from muster_operator.controller.state import TimerKind
from muster_operator.model import names
from muster_operator.model.commands import CancelCreations, CreatePlaceholder, DeletePod, Outcome, PostEvent
from muster_operator.model.core_messages import (
    AllocationResponse,
    ApplicationSubmitted,
    AskRejected,
    SchedulingState,
    SchedulingStateChanged,
    SchedulingStates,
    TerminationType,
)
from muster_operator.model.ids import PodUid
from muster_operator.model.states import AppState
from muster_si import keys
from tests.unit.operator.controller import gang
from tests.unit.operator.controller.driver import APP, Driver, done, live, orders, refused, requested_keys, whole
from tests.unit.operator.controller.gang import a_member, creates, pod_of, seen
from tests.unit.operator.controller.index_checks import assert_counted
from tests.unit.operator.controller.kubernetes import SETTINGS, namespace_seen
from tests.unit.operator.controller.objects import Raw, a_group, a_namespace, a_pod, gang_annotations
from tests.unit.operator.controller.test_direct import FULL, conditions, gang_state

AUTO = "gangPlacement=Auto"
QUIET_S, WAIT_S = 0.5, 5.0
BOUND = {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"}]}


def member(name: str = "w0", count: int = 4, group: str = "g") -> Raw:
    return a_member(name, count=count, parameters=AUTO, group=group)


def began(*names: str, count: int = 4) -> Driver:
    """Return a gang whose application was accepted, with these members."""
    driver, commands = gang.began(*names or ("w0",), parameters=AUTO, count=count)
    assert commands == []
    return driver


def with_pods(*names: str) -> tuple[Driver, list[Raw]]:
    """Return a gang of four after the placeholder pods of its absent members were seen."""
    driver = began(*names)
    return driver, seen(driver, creates(driver.wait(QUIET_S)))


def deleted(out: Outcome) -> list[str]:
    return [command.pod.name for command in out.commands if isinstance(command, DeletePod)]


def progress(out: Outcome) -> list[str]:
    return [one.note for one in out.commands if isinstance(one, PostEvent) and one.series]


def timers(driver: Driver) -> int:
    return sum(deadline.kind is TimerKind.MEMBERS for _, _, deadline, _ in driver.ledger.deadlines)


def test_the_core_receives_the_placement_and_the_task_groups() -> None:
    driver = live()
    [submitted] = [item for item in driver.see(member()).requests if isinstance(item, ApplicationSubmitted)]
    assert submitted.spec.tags[keys.APP_TAG_GANG_PLACEMENT] == "Auto"
    assert keys.APP_TAG_MEMBERS in submitted.spec.tags
    assert requested_keys(driver.accepted()) == ["uid-w0"]


def test_absent_members_get_pods_after_the_quiet_period() -> None:
    driver = began()
    assert creates(driver.wait(QUIET_S / 2)) == []
    assert len(creates(driver.wait(QUIET_S))) == 3


def test_a_member_that_appears_starts_the_quiet_period_again() -> None:
    driver = began()
    for name in ("w1", "w2"):
        assert creates(driver.wait(QUIET_S * 0.8)) == []
        driver.see(member(name))
    assert creates(driver.wait(QUIET_S * 0.8)) == []
    assert len(creates(driver.wait(QUIET_S))) == 1


def test_a_gang_has_one_timer() -> None:
    driver = began("w0", "w1", "w2")
    assert timers(driver) == 1
    driver.wait(QUIET_S)
    assert timers(driver) == 0


def test_absent_members_get_pods_at_the_latest_after_the_member_wait() -> None:
    driver = began(count=40)
    found = []
    for number in range(1, 20):
        driver.see(member(f"w{number}", 40))
        found += creates(driver.wait(QUIET_S * 0.8))
    assert found


def test_a_gang_whose_members_are_all_present_creates_no_pod() -> None:
    driver = began("w0", "w1", "w2", "w3")
    assert creates(driver.wait(60)) == []


def test_extra_members_of_one_group_do_not_replace_absent_members_of_another() -> None:
    groups = gang_annotations(a_group("drivers", 1), a_group("workers", 2), parameters=AUTO, member_of="drivers")
    driver = live()
    for number in range(5):
        driver.see(a_pod(f"driver-{number}", app=APP, annotations=groups))
    driver.accepted()
    assert [command.spec.group.name for command in creates(driver.wait(60))] == ["workers", "workers"]


def test_a_deleted_member_gets_a_pod() -> None:
    driver = began("w0", "w1", "w2", "w3")
    driver.wait(60)
    driver.gone("w3")
    assert len(creates(driver.wait(QUIET_S))) == 1


def test_a_member_that_was_bound_gets_no_pod_when_it_is_deleted() -> None:
    driver = began("w0", "w1", "w2", "w3")
    driver.updated(keys.APP_RUNNING)
    for name in ("w0", "w1", "w2", "w3"):
        [order] = orders(driver.allocated(f"uid-{name}"))
        driver.result(done(order))
    driver.gone("w3")
    assert creates(driver.wait(60)) == []
    assert timers(driver) == 0, "no slot is left"


def test_the_application_runs_without_waiting_for_its_pods() -> None:
    driver, pods = with_pods("w0")
    out = driver.updated(keys.APP_RUNNING)
    assert driver.ledger.applications[APP].state is AppState.RUNNING
    assert deleted(out) == []
    assert len(driver.ledger.applications[APP].slots) == len(pods) == 3


def test_pods_are_created_for_a_running_gang_too() -> None:
    driver = began()
    driver.updated(keys.APP_RUNNING)
    assert creates(driver.wait(WAIT_S * 0.9)) == []
    commands = creates(driver.wait(WAIT_S * 0.1))
    assert len(commands) == 3
    assert requested_keys(driver.see(pod_of(commands[0]))) == [f"ph-{commands[0].spec.name}"]


def test_members_of_a_gang_that_has_all_nodes_may_appear_slowly() -> None:
    driver = began()
    driver.updated(keys.APP_RUNNING)
    for name in ("w1", "w2", "w3"):
        assert creates(driver.wait(WAIT_S * 0.8)) == []
        assert timers(driver) == 1
        driver.see(member(name))
    assert creates(driver.wait(60)) == []


def test_a_gang_that_has_all_nodes_waits_for_slow_members_at_most_twelve_times_the_member_wait() -> None:
    driver = began(count=40)
    driver.updated(keys.APP_RUNNING)
    waited_s = 0.0
    for number in range(1, 40):
        driver.see(member(f"w{number}", 40))
        waited_s += WAIT_S * 0.8
        if creates(driver.wait(WAIT_S * 0.8)):
            break
    assert WAIT_S * 11 < waited_s < WAIT_S * 13


def test_a_running_gang_without_enough_nodes_gets_the_pods_of_absent_members_without_a_longer_wait() -> None:
    driver = began()
    driver.updated(keys.APP_RUNNING)
    assert creates(driver.wait(QUIET_S)) == []
    gang_state(driver, SchedulingState.FAILED, FULL)
    driver.see(member("w1"))
    assert len(creates(driver.wait(WAIT_S - QUIET_S))) == 2


def test_a_surplus_pod_of_a_gang_that_has_all_nodes_is_deleted_after_the_quiet_period() -> None:
    driver, _ = with_pods("w0", "w1")
    driver.updated(keys.APP_RUNNING)
    driver.gone("w1")
    driver.wait(QUIET_S)
    for name in ("w1", "w2"):
        driver.see(member(name))
    assert len(deleted(driver.wait(QUIET_S))) == 1


def test_the_last_event_of_a_reserved_gang_says_that_it_is_reserved() -> None:
    driver = began()
    reserved, later = driver.updated(keys.APP_RUNNING), driver.wait(WAIT_S)
    notes = progress(reserved) + progress(later)
    assert creates(later)
    assert notes == ["All 4 members are reserved"]


def test_a_gang_that_waits_for_nodes_reports_the_creation_of_its_placeholders() -> None:
    assert progress(began().wait(QUIET_S)) == ["Creating 3 placeholders for 4 members"]


def test_the_pod_of_a_member_that_appears_is_deleted_while_it_has_no_node() -> None:
    driver, _ = with_pods("w0")
    driver.see(member("w1"))
    assert len(deleted(driver.wait(QUIET_S))) == 1


def test_the_pod_of_a_member_that_appears_is_kept_if_it_has_a_node() -> None:
    driver, pods = with_pods("w0")
    driver.updated(keys.APP_RUNNING)
    for raw in pods:
        [order] = orders(driver.allocated(raw["metadata"]["uid"]))
        driver.result(done(order))
    driver.see(member("w1"))
    assert deleted(driver.wait(60)) == []


def test_a_pod_that_is_seen_after_its_member_is_deleted() -> None:
    driver = began()
    late = [pod_of(command) for command in creates(driver.wait(QUIET_S))]
    for name in ("w1", "w2", "w3"):
        driver.see(member(name))
    driver.wait(QUIET_S)
    assert [deleted(driver.see(raw)) for raw in late] == [[raw["metadata"]["name"]] for raw in late]


def test_queued_creations_are_cancelled_if_all_members_appear() -> None:
    driver = began()
    driver.wait(QUIET_S)
    for name in ("w1", "w2", "w3"):
        driver.see(member(name))
    assert CancelCreations(APP) in driver.wait(QUIET_S).commands
    assert_counted(driver.ledger)
    driver.gone("w3")
    assert len(creates(driver.wait(QUIET_S))) == 1


def test_queued_creations_are_not_cancelled_while_a_member_is_absent() -> None:
    driver = began()
    commands = creates(driver.wait(QUIET_S))
    for name in ("w1", "w2"):
        driver.see(member(name))
    assert CancelCreations(APP) not in driver.wait(QUIET_S).commands
    assert sorted(len(deleted(driver.see(pod_of(command)))) for command in commands) == [0, 1, 1]


def test_a_pod_that_the_core_does_not_need_is_not_created_again() -> None:
    driver, pods = with_pods("w0")
    for raw in pods:
        driver.cancelled(raw["metadata"]["uid"], TerminationType.TIMEOUT)
        driver.gone_uid(PodUid(raw["metadata"]["uid"]))
    assert creates(driver.wait(60)) == []


def test_a_deleted_pod_is_created_again() -> None:
    driver, pods = with_pods("w0")
    driver.gone_uid(PodUid(pods[0]["metadata"]["uid"]))
    assert len(creates(driver.wait(QUIET_S))) == 1


def test_a_pod_whose_request_the_core_rejects_is_deleted_and_created_again_after_the_pause() -> None:
    driver, pods = with_pods("w0")
    for raw in pods:
        rejected = AskRejected(APP, PodUid(raw["metadata"]["uid"]), "no")
        out = driver.receive(AllocationResponse(rejected_asks=(rejected,)))
        assert deleted(out) == [raw["metadata"]["name"]]
        driver.gone_uid(PodUid(raw["metadata"]["uid"]))
    assert creates(driver.wait(59)) == []
    driver.wait(1)
    assert len(creates(driver.wait(QUIET_S))) == 3


def test_if_no_pod_can_be_created_the_gang_continues_without_pods() -> None:
    driver = began()
    commands = creates(driver.wait(QUIET_S))
    out = driver.result(refused(commands[0], message="exceeded quota"))
    notes = [command.note for command in out.commands if isinstance(command, PostEvent)]
    assert any(
        "exceeded quota; the gang continues without placeholder pods for absent members" in note for note in notes
    )
    assert driver.ledger.applications[APP].state is AppState.RESERVING
    driver.see(member("w1"))
    assert creates(driver.wait(50)) == []
    assert creates(driver.wait(10)) == []
    assert len(creates(driver.wait(QUIET_S))) == 2, "they are tried again after a minute"


def test_planned_placeholders_are_created_when_a_member_is_deleted_meanwhile() -> None:
    driver = began("w0", "w1", count=700)
    waiting = creates(driver.wait(QUIET_S))
    assert len(waiting) < 698, "the open creations of a gang are bounded"
    driver.gone("w1")
    waiting += creates(driver.wait(QUIET_S))
    created = 0
    while waiting:
        command = waiting.pop()
        driver.see(pod_of(command))
        waiting += creates(driver.result(done(command)))
        created += 1
    assert created == 699


def test_no_placeholder_is_created_after_the_last_member_was_deleted() -> None:
    driver, pods = with_pods("w0")
    driver.gone("w0")
    for raw in pods:
        driver.gone(raw["metadata"]["name"])
    assert creates(driver.wait(60)) == []


def a_forged_pod(name: str) -> Raw:
    """Return a bound member with the mark of placeholders, and without a signature."""
    forged = member(name)
    forged["metadata"]["annotations"][names.ANNOTATION_PLACEHOLDER] = "true"
    forged["spec"]["nodeName"] = "n1"
    return forged


def test_bound_pods_with_a_forged_mark_do_not_use_slots() -> None:
    driver = began()
    for number in range(3):
        driver.see(a_forged_pod(f"forged-{number}"))
    assert len(creates(driver.wait(60))) == 3


def test_no_more_pods_are_created_for_an_originator_that_is_gone() -> None:
    driver = began(count=1200)
    driver.updated(keys.APP_RUNNING)
    bound(driver, "uid-w0")
    sent = creates(driver.wait(WAIT_S))
    out = driver.gone("w0")
    assert CancelCreations(APP) in out.commands
    assert [creates(driver.result(done(command))) for command in sent] == [[]] * len(sent)
    assert [deleted(driver.see(pod_of(command))) for command in sent[:2]] == [
        [command.spec.name] for command in sent[:2]
    ]


def test_one_timer_checks_all_creations_of_a_gang() -> None:
    driver = began(*(f"w{number}" for number in range(10)), count=10)
    for number in range(5):
        driver.gone(f"w{9 - number}")
        for command in creates(driver.wait(2 * QUIET_S)):
            driver.result(done(command))
    assert sum(deadline.kind is TimerKind.CREATIONS for _, _, deadline, _ in driver.ledger.deadlines) == 1


def test_all_present_members_are_unschedulable_while_the_gang_needs_nodes() -> None:
    driver, _ = with_pods("w0", "w1")
    gang_state(driver, SchedulingState.FAILED, FULL)
    found = conditions(driver.wait(5))
    assert {name: reason for name, (reason, _) in found.items()} == {"w0": "Unschedulable", "w1": "Unschedulable"}


def test_a_timer_of_an_earlier_application_with_the_same_id_has_no_effect() -> None:
    driver = began()
    driver.gone("w0")
    driver.updated(keys.APP_COMPLETED)
    driver.see(member("w1"))
    assert creates(driver.wait(QUIET_S * 2)) == [], "the new application is not accepted yet"


def bound(driver: Driver, uid: str, node: str = "n1") -> None:
    """The core allocates the pod, and the bind succeeds."""
    [order] = orders(driver.allocated(uid, node))
    driver.result(done(order))


def slots_over(driver: Driver) -> Outcome:
    """The core reports that it reserves nothing for absent members any more."""
    key, kind = PodUid(f"{APP}/g"), keys.REASON_TIMED_OUT
    change = SchedulingStateChanged(APP, key, SchedulingState.SCHEDULED, "no reservation", kind)
    return driver.receive(SchedulingStates((change,)))


def test_no_pod_is_created_after_the_slots_of_absent_members_have_timed_out() -> None:
    driver = began()
    driver.updated(keys.APP_RUNNING)
    slots_over(driver)
    assert creates(driver.wait(60)) == []
    driver.see(member("w1"))
    assert creates(driver.wait(60)) == []


def test_planned_creations_end_when_the_slots_of_absent_members_have_timed_out() -> None:
    driver = began(count=700)
    open_creations = creates(driver.wait(QUIET_S))
    driver.updated(keys.APP_RUNNING)
    slots_over(driver)
    assert [creates(driver.result(done(command))) for command in open_creations[:3]] == [[], [], []]


def test_queued_creations_are_cancelled_when_the_slots_of_absent_members_have_timed_out() -> None:
    driver = began()
    sent = creates(driver.wait(QUIET_S))
    driver.updated(keys.APP_RUNNING)
    assert CancelCreations(APP) in slots_over(driver).commands
    assert [deleted(driver.see(pod_of(command))) for command in sent] == [[command.spec.name] for command in sent]


def test_nothing_is_created_in_a_terminating_namespace() -> None:
    driver = began()
    raw = a_namespace()
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:02Z"
    driver.fact(namespace_seen(raw))
    assert creates(driver.wait(60)) == []


def test_planned_creations_end_first_when_members_appear() -> None:
    driver = began(count=700)
    waiting = creates(driver.wait(QUIET_S))
    late = 699 - len(waiting)
    assert late > 0, "the open creations of a gang are bounded"
    for number in range(late):
        driver.see(member(f"late-{number}", 700))
    assert deleted(driver.wait(60)) == []
    assert [creates(driver.result(done(command))) for command in waiting] == [[]] * len(waiting)
    assert [deleted(driver.see(pod_of(command))) for command in waiting] == [[]] * len(waiting)


def with_bound_pods(*names: str) -> tuple[Driver, list[Raw]]:
    """Return a running gang of four. These members and the placeholder pods of the absent members are bound."""
    driver, pods = with_pods(*names)
    driver.updated(keys.APP_RUNNING)
    for bound_uid in (*(f"uid-{name}" for name in names), *(raw["metadata"]["uid"] for raw in pods)):
        bound(driver, bound_uid)
    return driver, pods


def rejected_by_kubelet(driver: Driver, raw: Raw) -> None:
    """The kubelet rejects the bound pod, and the pod is deleted."""
    driver.see(raw | {"spec": raw["spec"] | {"nodeName": "n1"}}, phase="Failed", reason="OutOfcpu", message="no cpu")
    driver.gone_uid(PodUid(raw["metadata"]["uid"]))


def replaced(driver: Driver, key: str, name: str) -> None:
    """A new member gets the node of a kept slot."""
    driver.see(member(name))
    driver.released(key, TerminationType.PLACEHOLDER_REPLACED)
    bound(driver, f"uid-{name}")


def evicted(driver: Driver, raw: Raw) -> Outcome:
    """A placeholder pod is deleted, and its slot is virtual again. Return the outcome of the next 60 seconds."""
    driver.gone_uid(PodUid(raw["metadata"]["uid"]))
    return driver.wait(60)


def test_the_slot_of_a_member_whose_bind_failed_is_kept_and_gets_no_placeholder_pod() -> None:
    driver = began("w0", "w1", "w2", "w3")
    driver.updated(keys.APP_RUNNING)
    for name in ("w0", "w1", "w2"):
        bound(driver, f"uid-{name}")
    [order] = orders(driver.allocated("uid-w3"))
    driver.result(refused(order))
    driver.gone("w3")
    assert creates(driver.wait(60)) == []


def test_a_member_whose_bind_failed_uses_one_slot() -> None:
    driver = began("w0", "w1")
    driver.updated(keys.APP_RUNNING)
    bound(driver, "uid-w0")
    [order] = orders(driver.allocated("uid-w1"))
    driver.result(refused(order))
    driver.released("uid-w1/place", TerminationType.PLACEHOLDER_REPLACED)
    bound(driver, "uid-w1")
    assert len(creates(driver.wait(60))) == 2


def test_a_member_that_replaces_one_rejected_by_its_kubelet_uses_the_same_slot() -> None:
    driver, pods = with_bound_pods("w0", "w1")
    rejected_by_kubelet(driver, member("w1"))
    replaced(driver, "uid-w1/place", "w9")
    assert len(creates(evicted(driver, pods[0]))) == 1


def test_a_slot_that_is_kept_for_the_replacement_of_a_member_gets_no_placeholder_pod() -> None:
    driver, _ = with_bound_pods("w0", "w1")
    rejected_by_kubelet(driver, member("w1"))
    assert creates(driver.wait(60)) == []


def test_a_kept_slot_that_no_member_used_in_time_is_that_of_an_absent_member() -> None:
    driver, _ = with_bound_pods("w0", "w1")
    rejected_by_kubelet(driver, member("w1"))
    assert creates(driver.wait(SETTINGS.keep_slot_s)) == []
    assert len(creates(driver.wait(WAIT_S))) == 1


@pytest.mark.parametrize("why", [TerminationType.TIMEOUT, TerminationType.PREEMPTED_BY_SCHEDULER])
def test_a_kept_slot_that_the_core_releases_gets_no_placeholder_pod(why: TerminationType) -> None:
    driver, _ = with_bound_pods("w0", "w1")
    rejected_by_kubelet(driver, member("w1"))
    driver.released("uid-w1/place", why)
    driver.see(member("w2"))
    driver.gone("w2")
    assert creates(driver.wait(300)) == []


def test_no_pod_is_created_for_the_slot_of_a_rejected_member_after_the_slots_have_timed_out() -> None:
    driver = began("w0", "w1", "w2", "w3")
    driver.updated(keys.APP_RUNNING)
    for name in ("w0", "w1", "w2", "w3"):
        bound(driver, f"uid-{name}")
    slots_over(driver)
    rejected_by_kubelet(driver, member("w1"))
    driver.wait(SETTINGS.keep_slot_s)
    assert creates(driver.wait(60)) == []


def test_a_kept_slot_gets_no_placeholder_pod_in_a_new_session() -> None:
    driver = began("w0", "w1")
    driver.updated(keys.APP_RUNNING)
    bound(driver, "uid-w0")
    bound(driver, "uid-w1")
    driver.see(member("w0") | {"spec": member("w0")["spec"] | {"nodeName": "n1"}}, **BOUND)
    rejected_by_kubelet(driver, member("w1"))
    restart(driver)
    assert len(creates(driver.wait(60))) == 2


def test_a_member_that_takes_the_slot_of_a_rejected_pod_uses_one_slot() -> None:
    driver, pods = with_bound_pods("w0")
    rejected_by_kubelet(driver, pods[0])
    driver.see(member("w1"))
    bound(driver, "uid-w1")
    assert creates(driver.wait(60)) == []
    assert len(creates(evicted(driver, pods[1]))) == 1


def test_a_member_that_takes_a_slot_without_a_pod_takes_that_of_a_rejected_pod() -> None:
    driver, pods = with_bound_pods("w0")
    rejected_by_kubelet(driver, pods[0])
    driver.wait(60)
    driver.see(member("w1"))
    bound(driver, "uid-w1")
    driver.gone_uid(PodUid(pods[1]["metadata"]["uid"]))
    assert len(creates(driver.wait(60))) == 1


def recover(driver: Driver) -> Outcome:
    """A new session begins, and its nodes are not open yet."""
    out = whole([*recovery.begin(driver.ledger, driver.now)])
    out.add(driver.accepted())
    out.add(whole([*recovery.report_nodes(driver.ledger, driver.now)]))
    out.add(whole([*recovery.submit_asks(driver.ledger, driver.now)]))
    return out


def restart(driver: Driver) -> Outcome:
    """A new session begins and is live."""
    out = recover(driver)
    out.add(recovery.open_nodes(driver.ledger, driver.now))
    return out


def test_the_wait_for_members_starts_when_the_session_is_live() -> None:
    driver = began("w0")
    driver.updated(keys.APP_RUNNING)
    bound(driver, "uid-w0")
    driver.see(member("w0") | {"spec": member("w0")["spec"] | {"nodeName": "n1"}}, **BOUND)
    recover(driver)
    driver.updated(keys.APP_RUNNING)
    driver.now += 10 * WAIT_S
    recovery.open_nodes(driver.ledger, driver.now)
    assert creates(driver.wait(WAIT_S * 0.9)) == []
    assert len(creates(driver.wait(WAIT_S * 0.1))) == 3


def test_members_that_appear_during_recovery_restart_the_quiet_period() -> None:
    driver = began("w0")
    recover(driver)
    driver.now += 10 * WAIT_S
    driver.see(member("w1"))
    recovery.open_nodes(driver.ledger, driver.now)
    assert creates(driver.wait(QUIET_S * 0.9)) == []
    assert len(creates(driver.wait(QUIET_S * 0.1))) == 2


def test_slots_of_bound_members_are_not_given_to_existing_pods_after_a_restart() -> None:
    driver, pods = with_pods("w0")
    driver.updated(keys.APP_RUNNING)
    for raw in (member("w0"), member("w1"), *pods):
        driver.see(raw | {"spec": raw["spec"] | {"nodeName": "n1"}}, **BOUND)
    [surplus] = deleted(restart(driver))
    assert len(driver.ledger.applications[APP].slots) == 2, "four slots, two members and three pods"
    driver.released(f"ph-{surplus}", TerminationType.TIMEOUT)
    driver.gone_uid(PodUid(f"ph-{surplus}"))
    kept = next(raw for raw in pods if raw["metadata"]["name"] != surplus)
    assert len(creates(evicted(driver, kept))) == 1, "the surplus pod had no slot"


def test_a_slot_whose_pod_was_rejected_by_its_kubelet_gets_no_other_pod() -> None:
    driver, pods = with_bound_pods("w0")
    rejected_by_kubelet(driver, pods[0])
    assert creates(driver.wait(60)) == []


def changed_by_a_webhook(command: CreatePlaceholder) -> Raw:
    """Return a placeholder pod whose requests an admission webhook has changed."""
    raw = pod_of(command)
    raw["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    return raw


def test_the_pause_grows_while_placeholder_pods_are_created_but_unusable() -> None:
    driver = began("w0")
    for pause in (60, 120, 240):
        commands = creates(driver.wait(QUIET_S))
        assert len(commands) == 3
        for command in commands:
            driver.result(done(command))
            raw = changed_by_a_webhook(command)
            assert deleted(driver.see(raw)) == [raw["metadata"]["name"]]
            driver.gone_uid(PodUid(raw["metadata"]["uid"]))
        assert creates(driver.wait(pause - 1)) == []
        driver.wait(1)


def test_the_pause_after_refused_pods_is_reset_when_one_is_bound() -> None:
    driver = began("w0")
    for pause in (60, 120):
        driver.result(refused(creates(driver.wait(QUIET_S))[0], message="exceeded quota"))
        assert creates(driver.wait(pause - 1)) == []
        driver.wait(1)
    driver.updated(keys.APP_RUNNING)
    for command in creates(driver.wait(WAIT_S)):
        driver.result(done(command))
        raw = pod_of(command)
        driver.see(raw)
        bound(driver, raw["metadata"]["uid"])
        driver.gone_uid(PodUid(raw["metadata"]["uid"]))
    driver.result(refused(creates(driver.wait(WAIT_S))[0], message="exceeded quota"))
    driver.wait(60)
    assert creates(driver.wait(WAIT_S)), "the pause is a minute again"
