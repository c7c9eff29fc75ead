"""Pods of a PodGroup: when they are requested, and the condition of the group."""

import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from muster_operator.controller import pod_groups, recovery
from muster_operator.controller.sweep import on_timer as sweep
from muster_operator.model.cluster_events import PodGroupGone, PodGroupSeen
from muster_operator.model.commands import BindPod, Outcome, PostEvent, Repeat, SetCondition, SetGroupCondition
from muster_operator.model.core_messages import (
    ApplicationSubmitted,
    SchedulingState,
    SchedulingStateChanged,
    SchedulingStates,
)
from muster_operator.model.ids import AppId, PodUid
from muster_operator.model.pod_groups import GroupCondition
from muster_operator.translate.membership import read_group
from muster_si import keys
from tests.unit.operator.controller.driver import Driver, done, live, orders, requested_keys, whole
from tests.unit.operator.controller.kubernetes import SETTINGS
from tests.unit.operator.controller.objects import QUEUE, Raw, a_container, a_group, a_pod, gang_annotations

TRAIN = AppId("dev/train")
TOO_FEW = 'waiting for minCount pods from a gang to appear in scheduling queue: PodGroup "train" needs 2'
MISSING = 'waiting for pods\'s pod group "train" to appear in scheduling queue'


def a_pod_group(name: str = "train", minimum: int = 2, uid: str = "", **spec: Any) -> PodGroupSeen:
    policy = {"gang": {"minCount": minimum}} if minimum else {"basic": {}}
    marks = {key: spec.pop(key, {}) for key in ("labels", "annotations")}
    raw = {
        "metadata": {"namespace": "dev", "name": name, "uid": uid or f"uid-{name}", **marks},
        "spec": {"schedulingPolicy": policy, "priority": 0, **spec},
    }
    group = read_group(raw)
    assert group is not None
    return PodGroupSeen(group)


def member(name: str, group: str = "train", **fields: Any) -> Raw:
    return a_pod(name, schedulingGroup={"podGroupName": group}, **fields)


def submitted(out: Outcome) -> list[AppId]:
    return [item.spec.app for item in out.requests if isinstance(item, ApplicationSubmitted)]


def group_conditions(out: Outcome) -> list[tuple[str, str, str]]:
    found = [command for command in out.commands if isinstance(command, SetGroupCondition)]
    return [(one.name, one.condition.reason, one.condition.message) for one in found]


def started() -> Driver:
    """A group of two whose members are requested."""
    driver = live()
    driver.fact(a_pod_group())
    driver.see(member("w0"))
    driver.see(member("w1"))
    driver.accepted(TRAIN)
    return driver


def test_the_members_are_requested_together_when_enough_of_them_exist() -> None:
    driver = live()
    driver.fact(a_pod_group())
    assert submitted(driver.see(member("w0"))) == []
    out = driver.see(member("w1"))
    assert submitted(out) == [TRAIN]
    assert driver.ledger.applications[TRAIN].gang is not None
    assert sorted(requested_keys(driver.accepted(TRAIN))) == ["uid-w0", "uid-w1"]
    assert requested_keys(driver.see(member("w2"))) == ["uid-w2"]


@pytest.mark.parametrize("first", ["group", "pods"])
def test_pods_wait_for_their_group_in_any_order(first: str) -> None:
    driver = live()
    if first == "group":
        driver.fact(a_pod_group())
    driver.see(member("w0"))
    out = driver.see(member("w1"))
    if first == "pods":
        assert submitted(out) == []
        out = driver.fact(a_pod_group())
    assert submitted(out) == [TRAIN]


def test_a_group_that_waits_reports_it_once_after_the_delay() -> None:
    driver = live()
    driver.fact(a_pod_group())
    assert orders(driver.see(member("w0"))) == []
    out = driver.wait(driver.ledger.settings.condition_delay_s)
    assert group_conditions(out) == [("train", "Unschedulable", TOO_FEW)]
    assert [one.message for one in out.commands if isinstance(one, SetCondition)] == [TOO_FEW]
    assert group_conditions(driver.wait(600)) == []


def test_a_pod_without_its_group_gets_the_reason() -> None:
    driver = live()
    driver.see(member("w0"))
    out = driver.wait(driver.ledger.settings.condition_delay_s)
    assert [one.message for one in out.commands if isinstance(one, SetCondition)] == [MISSING]


def test_a_group_of_another_namespace_is_not_found() -> None:
    driver = live()
    driver.fact(PodGroupSeen(a_pod_group().group))
    other = member("w0")
    other["metadata"]["namespace"] = "other"
    driver.see(other)
    assert submitted(driver.see(member("w1"))) == []
    assert driver.ledger.applications == {}


def test_a_group_that_is_deleted_takes_its_requests_back() -> None:
    driver = started()
    out = driver.fact(PodGroupGone("dev/train"))
    assert driver.ledger.applications == {}
    assert driver.ledger.tasks == {}
    assert out.requests
    assert submitted(driver.fact(a_pod_group(uid="other"))) == []
    assert len(submitted(driver.wait(1))) == 1


def test_a_gang_that_lost_a_member_before_it_started_waits_again() -> None:
    driver = started()
    driver.gone("w1")
    assert driver.ledger.applications == {}
    assert submitted(driver.see(member("w2"))) == []
    assert len(submitted(driver.wait(1))) == 1


def test_another_minimum_restarts_a_gang_that_has_not_started() -> None:
    driver = started()
    driver.fact(a_pod_group(minimum=3))
    assert driver.ledger.applications == {}
    driver.fact(a_pod_group(minimum=1))
    driver.wait(1)
    [app] = driver.ledger.applications.values()
    assert app.gang is not None
    assert app.gang.size == 1


def test_the_group_is_scheduled_when_enough_members_are_bound_and_stays_it() -> None:
    driver = started()
    driver.updated(keys.APP_RUNNING, app=TRAIN)
    found = []
    for name in ("w0", "w1"):
        [order] = [one for one in orders(driver.allocated(f"uid-{name}", app=TRAIN)) if isinstance(one, BindPod)]
        found += group_conditions(driver.result(done(order)))
    assert found == [("train", "Scheduled", "")]
    driver.gone("w0")
    assert group_conditions(driver.wait(600)) == []


def test_the_reason_of_the_gang_is_the_condition_of_the_group() -> None:
    driver = started()
    driver.wait(600)
    why = SchedulingStateChanged(TRAIN, PodUid(f"{TRAIN}/train"), SchedulingState.FAILED, "0/1 nodes", "")
    out = driver.receive(SchedulingStates((why,)))
    conditions = group_conditions(Outcome(commands=[*out.commands, *driver.wait(600).commands]))
    assert conditions
    assert all("0/1 nodes" in message and reason == "Unschedulable" for _, reason, message in conditions)


@pytest.mark.parametrize(
    "pod, message",
    [
        ({"priority": 5}, "the same priority as the pod group's priority, got 5 and 0"),
        ({"schedulerName": "yunikorn"}, 'the same .spec.schedulerName set, got: "muster" and "yunikorn"'),
    ],
)
def test_pods_that_do_not_agree_keep_the_whole_group_waiting(pod: Raw, message: str) -> None:
    driver = live()
    driver.fact(a_pod_group())
    driver.see(member("w0"))
    other = member("w1", **{key: value for key, value in pod.items() if key != "schedulerName"})
    other["spec"] |= pod
    assert submitted(driver.see(other)) == []
    [(_, reason, text)] = group_conditions(driver.wait(driver.ledger.settings.condition_delay_s))
    assert reason == "SchedulerError"
    assert message in text
    driver.gone("w1")
    assert len(submitted(driver.see(member("w2")))) == 1


def test_the_keys_of_the_group_take_precedence_and_contradictions_are_reported() -> None:
    driver = live()
    driver.fact(a_pod_group(labels={"queue": "root.a", "applicationId": "job"}))
    annotations = gang_annotations(a_group("g", 5))
    pods = [member(name, app="other", annotations=annotations) for name in ("w0", "w1")]
    for pod in pods:
        pod["metadata"]["labels"][QUEUE] = "root.b"
    driver.see(pods[0])
    out = driver.see(pods[1])
    [spec] = [item.spec for item in out.requests if isinstance(item, ApplicationSubmitted)]
    assert (spec.app, spec.queue) == ("dev/job", "root.a")
    texts = " ".join(one.note for one in out.commands if isinstance(one, PostEvent))
    for part in ("queue=root.b is ignored", "app-id=other is ignored", "task-groups is ignored"):
        assert part in texts


def test_two_groups_with_one_application_id_are_gangs_of_their_own() -> None:
    driver = live()
    for group in ("a", "b"):
        driver.fact(a_pod_group(group, labels={"applicationId": "job"}))
    ids = [submitted(driver.see(member(f"{group}{n}", group))) for group in ("a", "b") for n in (0, 1)]
    assert [len(found) for found in ids] == [0, 1, 0, 1]
    assert {app.common_id for app in driver.ledger.applications.values()} == {"dev/job"}
    assert len(driver.ledger.applications) == 2


def test_a_basic_group_is_no_gang() -> None:
    driver = live()
    driver.fact(a_pod_group(minimum=0))
    assert submitted(driver.see(member("w0"))) == [TRAIN]
    assert driver.ledger.applications[TRAIN].gang is None


def test_a_restart_recovers_the_groups_and_their_members() -> None:
    driver = started()
    driver.fact(a_pod_group("later"))
    driver.see(member("l0", "later"))
    out = whole(recovery.begin(driver.ledger, driver.now))
    assert submitted(out) == [TRAIN]
    assert set(driver.ledger.tasks) == {"uid-w0", "uid-w1"}


def swept(driver: Driver) -> list[tuple[str, str, str]]:
    """The conditions of groups that a sweep writes again."""
    out = Outcome()
    sweep(driver.ledger, out, driver.now)
    return group_conditions(Outcome(commands=[one.command for one in out.commands if isinstance(one, Repeat)]))


def test_a_condition_that_was_lost_is_written_again_by_the_second_sweep() -> None:
    driver = live()
    driver.fact(a_pod_group())
    driver.see(member("w0"))
    driver.wait(driver.ledger.settings.condition_delay_s)
    assert swept(driver) == []
    assert swept(driver) == [("train", "Unschedulable", TOO_FEW)]
    reported = GroupCondition(is_scheduled=False, reason="Unschedulable", message=TOO_FEW)
    driver.fact(PodGroupSeen(replace(a_pod_group().group, condition=reported)))
    assert swept(driver) == []


def test_a_condition_of_another_generation_is_not_written_twice() -> None:
    driver = live()
    driver.fact(a_pod_group())
    driver.see(member("w0"))
    driver.wait(driver.ledger.settings.condition_delay_s)
    driver.fact(PodGroupSeen(replace(a_pod_group().group, generation=2)))
    driver.see(member("w0"))
    assert group_conditions(driver.wait(600)) == []


@pytest.mark.parametrize(
    "held, told",
    [
        ({"schedulingGates": [{"name": "quota"}]}, ["w0"]),
        ({"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}, ["w0", "w1"]),
    ],
)
def test_a_pod_that_cannot_be_requested_is_no_member_yet(held: Raw, told: list[str]) -> None:
    driver = live(settings=replace(SETTINGS, device_claims=True))
    driver.fact(a_pod_group())
    driver.see(member("w0"))
    assert submitted(driver.see(member("w1", **held))) == []
    out = driver.wait(driver.ledger.settings.condition_delay_s)
    assert [one.pod.name for one in out.commands if isinstance(one, SetCondition)] == told
    assert group_conditions(out) == [("train", "Unschedulable", TOO_FEW)]
    assert submitted(driver.see(member("w1"))) == [TRAIN]


def test_pods_with_the_container_of_placeholders_are_members() -> None:
    driver = live()
    driver.fact(a_pod_group())
    driver.see(member("w0", containers=[a_container("pause", cpu="1")]))
    assert submitted(driver.see(member("w1", containers=[a_container("pause", cpu="1")]))) == [TRAIN]


def test_a_refused_pod_is_no_member() -> None:
    driver = live()
    driver.fact(a_pod_group())
    driver.see(member("w0"))
    assert submitted(driver.see(member("w1", annotations={"yunikorn.apache.org/queue": "q" * 1025}))) == []


def test_requests_that_are_taken_back_again_and_again_are_sent_at_most_every_ten_seconds() -> None:
    driver = started()
    pauses = []
    for _ in range(6):
        driver.gone("w1")
        assert driver.ledger.applications == {}
        assert submitted(driver.see(member("w1"))) == []
        pause = 0.0
        while not submitted(driver.wait(0.5)):
            pause += 0.5
        pauses.append(pause + 0.5)
    assert pauses == [1, 2, 4, 8, 10, 10]


def test_a_group_waits_where_gangs_are_disabled() -> None:
    driver = live()
    driver.ledger.settings = replace(driver.ledger.settings, disable_gang=True)
    driver.fact(a_pod_group())
    driver.see(member("w0"))
    assert submitted(driver.see(member("w1"))) == []
    [(_, reason, text)] = group_conditions(driver.wait(driver.ledger.settings.condition_delay_s))
    assert (reason, "service.disableGangScheduling" in text) == ("SchedulerError", True)


def test_a_pod_cannot_give_up_the_gang_of_its_group() -> None:
    driver = live()
    driver.fact(a_pod_group())
    mark = {"internal.yunikorn.apache.org/gang-outcome": "resumed"}
    for name in ("w0", "w1"):
        driver.see(member(name, annotations=mark))
    assert driver.ledger.applications[TRAIN].gang is not None


def test_the_gang_counts_with_the_least_that_a_member_requests() -> None:
    driver = live()
    driver.fact(a_pod_group(minimum=3))
    for name, cpu in (("leader", "8"), ("w0", "1"), ("w1", "2")):
        driver.see(member(name, containers=[a_container(cpu=cpu, memory="1Gi")]))
    gang = driver.ledger.applications[TRAIN].gang
    assert gang is not None
    assert gang.placeholder_ask["vcore"] == 3000


def test_a_group_that_was_bound_before_a_restart_gets_its_condition() -> None:
    driver = live()
    driver.fact(a_pod_group())
    for name in ("w0", "w1"):
        driver.see(member(name, nodeName="n1"))
    recovery.begin(driver.ledger, driver.now)
    assert group_conditions(recovery.open_nodes(driver.ledger, driver.now)) == [("train", "Scheduled", "")]


def test_one_retried_pod_starts_after_the_others_have_succeeded() -> None:
    driver = live()
    driver.fact(a_pod_group())
    driver.see({**member("w0", nodeName="n1"), "status": {"phase": "Succeeded"}})
    assert submitted(driver.see(member("w1b"))) == [TRAIN]
    assert requested_keys(driver.accepted(TRAIN)) == ["uid-w1b"]


LONG = {"yunikorn.apache.org/app-id": "x" * 250_000, "yunikorn.apache.org/queue": "root." + "q" * 250_000}


def test_values_that_are_too_long_are_not_copied_into_the_pods() -> None:
    driver = live()
    driver.fact(a_pod_group(annotations=LONG))
    count = 50
    pods = [member(f"w{n}") for n in range(count)]
    tracemalloc.start()
    try:
        for pod in pods:
            driver.see(pod)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used / count < 32_000
    [(_, reason, text)] = group_conditions(driver.wait(driver.ledger.settings.condition_delay_s))
    assert (reason, "app-id has more than 63 characters" in text) == ("SchedulerError", True)


def test_values_that_are_too_long_do_not_reach_the_core_with_a_bound_member() -> None:
    driver = live()
    driver.fact(a_pod_group(annotations=LONG))
    out = driver.see(member("w0", nodeName="n1"))
    [spec] = [item.spec for item in out.requests if isinstance(item, ApplicationSubmitted)]
    assert (spec.app, spec.queue) == (TRAIN, "")


def test_the_members_of_a_group_share_one_application_id() -> None:
    driver = live()
    driver.fact(a_pod_group(labels={"applicationId": "job"}))
    for name in ("w0", "w1"):
        driver.see(member(name))
    first, second = (driver.ledger.pods[PodUid(f"uid-{name}")].membership.app for name in ("w0", "w1"))
    assert first is second


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_pods_with_different_application_ids_are_one_gang(order: tuple[str, str]) -> None:
    driver = live()
    driver.fact(a_pod_group())
    pods = [member(f"w{number}", app=app) for number, app in enumerate(order)]
    driver.see(pods[0])
    out = driver.see(pods[1])
    assert submitted(out) == [TRAIN]
    texts = [one.note for one in out.commands if isinstance(one, PostEvent)]
    for app in order:
        assert [text for text in texts if f"app-id={app} is ignored" in text and "train" in text]
    assert sorted(requested_keys(driver.accepted(TRAIN))) == ["uid-w0", "uid-w1"]
    assert submitted(whole(recovery.begin(driver.ledger, driver.now))) == [TRAIN]


def test_missing_members_of_a_group_are_reported_with_its_own_field() -> None:
    driver = live()
    driver.fact(a_pod_group())
    driver.see({**member("w0", nodeName="n1"), "status": {"phase": "Succeeded"}})  # of an earlier run
    driver.see(member("w1"))
    driver.accepted(TRAIN)
    out = driver.wait(60)
    specs = [item.spec for item in out.requests if isinstance(item, ApplicationSubmitted)]
    [why] = [spec.tags[keys.APP_TAG_MEMBERS_MISSING] for spec in specs if keys.APP_TAG_MEMBERS_MISSING in spec.tags]
    assert why == (
        'waiting for 2 members of PodGroup "train": 1 exists, and no other one was created for 60 s. '
        "Create the others, or lower the minimum"
    )


def a_queue(number: int, minimum: int) -> PodGroupSeen:
    return a_pod_group(minimum=minimum, labels={"queue": f"root.q{number}"})


@contextmanager
def compared() -> Iterator[list[str]]:
    """The names of the pods that are compared with their group meanwhile."""
    found: list[str] = []

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is pod_groups.settled.__code__:
            found.append(frame.f_locals["pod"].ref.name)

    sys.setprofile(count)
    try:
        yield found
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("state", ["requested", "waiting", "bound"])
def test_writes_to_a_group_compare_its_pods_once_in_each_pause(state: str) -> None:
    count = 50
    driver = live()
    minimum = count + 1 if state == "waiting" else count
    driver.fact(a_queue(0, minimum))
    for number in range(count):
        driver.see(member(f"w{number}", **({"nodeName": "n1"} if state == "bound" else {})))
    with compared() as found:
        for number in range(1, 100):
            driver.fact(a_queue(number, minimum))
        assert len(found) == (0 if state == "waiting" else count)
        driver.wait(1)
    assert len(found) == (0 if state == "waiting" else 2 * count)
    assert {pod.membership.queue for pod in driver.ledger.pods.values()} == {
        "root.q0" if state == "waiting" else "root.q99"
    }


def test_pods_that_come_and_go_compare_the_others_once_in_each_pause() -> None:
    count = 50
    driver = live()
    driver.fact(a_pod_group(minimum=count))
    for number in range(count):
        driver.see(member(f"w{number}"))
    with compared() as found:
        for _ in range(20):
            driver.gone("w0")
            driver.see(member("w0"))
        assert found.count("w1") == 1
        assert len(submitted(driver.wait(1))) == 1
    assert found.count("w1") == 2


def test_a_group_that_comes_and_goes_does_not_compare_pods_that_wait() -> None:
    driver = live()
    driver.fact(a_pod_group(minimum=3))
    for name in ("w0", "w1"):
        driver.see(member(name))
    with compared() as found:
        for _ in range(20):
            driver.fact(PodGroupGone("dev/train"))
            driver.fact(a_pod_group(minimum=3))
    assert found == []
    assert len(submitted(driver.see(member("w2")))) == 1


def test_an_ignored_label_is_reported_once_and_not_after_each_write() -> None:
    driver = live()
    driver.fact(a_queue(0, 2))
    for name in ("w0", "w1"):
        raw = member(name)
        raw["metadata"]["labels"][QUEUE] = "root.b"
        driver.see(raw)
    posted: list[str] = []
    for number in range(1, 30):
        for out in (driver.fact(a_queue(number % 2, 2)), driver.wait(11)):
            posted += [one.note for one in out.commands if isinstance(one, PostEvent) and "is ignored" in one.note]
    assert len(posted) == 2  # the text with the other queue, for each pod
    for number in range(2, 30):
        for out in (driver.fact(a_queue(number, 2)), driver.wait(11)):
            posted += [one.note for one in out.commands if isinstance(one, PostEvent) and "is ignored" in one.note]
    assert len(posted) == 6


def bound_pair() -> Driver:
    driver = started()
    driver.updated(keys.APP_RUNNING, app=TRAIN)
    for name in ("w0", "w1"):
        [order] = [one for one in orders(driver.allocated(f"uid-{name}", app=TRAIN)) if isinstance(one, BindPod)]
        driver.result(done(order))
        driver.see(member(name, nodeName="n1"))
    return driver


@pytest.mark.parametrize(
    "changed",
    [a_pod_group(labels={"applicationId": "other"}), a_pod_group(uid="created-again")],
    ids=["another application ID", "created again"],
)
def test_members_that_come_later_join_those_that_run_whatever_the_group_says_now(changed: PodGroupSeen) -> None:
    driver = bound_pair()
    driver.fact(changed)
    driver.wait(pod_groups.MAX_PAUSE_S)
    out = driver.see(member("w2"))
    requests = [*requested_keys(out), *requested_keys(driver.wait(pod_groups.MAX_PAUSE_S))]
    assert requests == ["uid-w2"]
    assert list(driver.ledger.applications) == [TRAIN]


def test_the_condition_of_the_preferred_version_is_read_after_an_upgrade() -> None:
    conditions = [
        {"type": "PodGroupScheduled", "status": "False", "reason": "Unschedulable"},
        {"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled"},
    ]
    group = read_group(
        {"metadata": {"namespace": "dev", "name": "train", "uid": "u"}, "status": {"conditions": conditions}}
    )
    assert group is not None
    assert group.condition == GroupCondition(is_scheduled=True, reason="Scheduled")
