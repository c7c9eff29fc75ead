"""Runs of an application: pods that are created after all pods of a gang have ended are a new gang."""

from typing import Any

import pytest

from muster_operator.controller import recovery
from muster_operator.model.cluster_events import NamespaceGone
from muster_operator.model.commands import BindPod, DeletePod, Outcome
from muster_operator.model.core_messages import (
    AllocationReleased,
    AllocationReported,
    ApplicationRemoved,
    ApplicationSpec,
    ApplicationSubmitted,
    NodeCreated,
    SchedulingState,
    SchedulingStateChanged,
    SchedulingStates,
)
from muster_operator.model.ids import AppId, PodUid
from muster_operator.model.states import AppState
from muster_si import keys
from tests.unit.operator.controller import gang
from tests.unit.operator.controller.driver import (
    APP,
    SHARED,
    SHARING,
    Driver,
    done,
    live,
    orders,
    requested_keys,
    submitted,
    whole,
)
from tests.unit.operator.controller.gang import creates
from tests.unit.operator.controller.index_checks import assert_counted
from tests.unit.operator.controller.kubernetes import namespace_seen
from tests.unit.operator.controller.objects import Raw, a_namespace, a_pod
from tests.unit.operator.controller.test_recovery import existing, gathered, recovered

NEXT = AppId("dev#1/job")
MODES = ("Auto", "Direct", "Reserve")
every_mode = pytest.mark.parametrize("mode", MODES)
JOB = "uid-of-the-job"
SCHEDULED = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:02Z"}


def member(name: str, mode: str = "Direct", *, minute: int = 0, count: int = 2, owner: str = JOB, **spec: Any) -> Raw:
    raw = gang.a_member(name, count=count, parameters=f"gangPlacement={mode}")
    raw["metadata"]["creationTimestamp"] = f"2026-01-01T00:{minute:02d}:00Z"
    if owner:
        raw["metadata"]["ownerReferences"] = [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": owner, "controller": True}
        ]
    raw["spec"] |= spec
    return raw


def on(raw: Raw, node: str = "n1") -> Raw:
    raw["spec"]["nodeName"] = node
    raw["status"]["conditions"] = [SCHEDULED]
    return raw


def leaving(raw: Raw, minute: int) -> Raw:
    """Return the pod after its deletion was requested, with a grace period of 30 seconds."""
    times = {"deletionTimestamp": f"2026-01-01T00:{minute:02d}:30Z", "deletionGracePeriodSeconds": 30}
    raw["metadata"] |= times
    return raw


def ended(raw: Raw, phase: str = "Succeeded") -> Raw:
    on(raw)["status"]["phase"] = phase
    return raw


def running(mode: str) -> Driver:
    """Return a running gang of two whose members are bound. Its placeholders are gone."""
    driver = live()
    for name in ("w0", "w1"):
        driver.see(member(name, mode))
    for command in creates(driver.accepted()):
        driver.result(done(command))
        raw = gang.pod_of(command)
        driver.see(raw)
        driver.gone_uid(raw["metadata"]["uid"])
    driver.updated(keys.APP_RUNNING)
    for name in ("w0", "w1"):
        app = driver.ledger.applications[APP]
        if app.state is not AppState.RUNNING:
            pytest.fail(f"{mode}: {app.state}")
        for order in orders(driver.allocated(f"uid-{name}")):
            if isinstance(order, BindPod):
                driver.result(done(order))
        driver.see(on(member(name, mode)))
    return driver


def specs(out: Outcome) -> list[ApplicationSpec]:
    return [item.spec for item in out.requests if isinstance(item, ApplicationSubmitted)]


def removed(out: Outcome) -> list[str]:
    return [item.app for item in out.requests if isinstance(item, ApplicationRemoved)]


@every_mode
def test_pods_that_appear_while_all_others_terminate_are_a_new_gang(mode: str) -> None:
    driver = running(mode)
    for name in ("w0", "w1"):
        driver.see(leaving(on(member(name, mode)), 1))
    [spec] = specs(out := driver.see(member("w2", mode, minute=1)))
    assert (spec.app, spec.tags[keys.APP_TAG_APPLICATION_ID]) == (NEXT, "job")
    assert spec.placeholder_ask["pods"] == 2
    assert removed(out) == []  # the old pods still use their nodes
    assert submitted(driver.see(member("w3", mode, minute=1))) == []
    assert driver.ledger.runs[APP].members.keys() == {"uid-w2", "uid-w3"}
    assert driver.gone("w0").requests == [AllocationReleased(APP, PodUid("uid-w0"), allocation_id=held("w0"))]
    last = driver.gone("w1")
    assert last.requests == [
        AllocationReleased(APP, PodUid("uid-w1"), allocation_id=held("w1")),
        ApplicationRemoved(APP),
    ]
    assert list(driver.ledger.applications) == [NEXT]
    assert requested_keys(driver.accepted(NEXT)) == ([] if mode == "Reserve" else ["uid-w2", "uid-w3"])
    assert_counted(driver.ledger)


def held(name: str) -> Any:
    return f"uid-{name}-0"


@every_mode
def test_pods_that_appear_after_the_others_have_ended_are_a_new_gang_at_once(mode: str) -> None:
    """The core completes the earlier run only after a timeout."""
    driver = running(mode)
    for name in ("w0", "w1"):
        driver.see(ended(member(name, mode), "Failed"))
    out = driver.see(member("w2", mode, minute=1))
    assert (removed(out), submitted(out)) == ([APP], [NEXT])
    assert specs(out)[0].placeholder_ask["pods"] == 2
    assert list(driver.ledger.applications) == [NEXT]


@every_mode
def test_a_replacement_joins_its_running_gang(mode: str) -> None:
    driver = running(mode)
    driver.see(leaving(on(member("w0", mode)), 1))
    out = driver.see(member("w2", mode, minute=1))
    assert submitted(out) == []
    assert requested_keys(out) == ["uid-w2"]


def test_pods_without_task_groups_join_the_completing_application() -> None:
    """As in YuniKorn."""
    driver = live()
    driver.see(a_pod("w0", app=APP))
    driver.accepted()
    driver.allocated("uid-w0")
    driver.see(a_pod("w0", app=APP, nodeName="n1"))
    driver.updated(keys.APP_RUNNING)
    driver.gone("w0")
    out = driver.see(a_pod("w1", app=APP))
    assert (submitted(out), requested_keys(out)) == ([], ["uid-w1"])


def test_late_messages_about_the_earlier_run_have_no_effect_on_the_new_one() -> None:
    driver = running("Auto")
    for name in ("w0", "w1"):
        driver.see(leaving(on(member(name, "Auto")), 1))
    driver.see(member("w2", "Auto", minute=1))
    driver.accepted(NEXT)
    run = driver.ledger.runs[APP]
    for state in (SchedulingState.FAILED, SchedulingState.SCHEDULED):
        change = SchedulingStateChanged(APP, PodUid(f"{APP}/g"), state, "late", kind=keys.REASON_TIMED_OUT)
        driver.receive(SchedulingStates((change,)))
    for update in (keys.APP_RUNNING, keys.APP_FAILING, keys.APP_COMPLETED):
        driver.updated(update)
    assert (run.state, run.report.shortages, run.timed_out_groups) == (AppState.RESERVING, {}, set())
    assert driver.ledger.runs[APP] is run


def test_pods_of_a_gang_that_fails_are_replaced_by_a_new_gang() -> None:
    driver, _ = gang.began("w0", "w1", parameters="gangSchedulingStyle=Hard")
    driver.updated(keys.APP_FAILING, "timed out")
    driver.see(ended(gang.a_member("w0"), "Failed"))
    assert submitted(driver.see(gang.a_member("w2", parameters="gangSchedulingStyle=Hard"))) == [NEXT]


@pytest.mark.parametrize("is_seen", ["first", "last"])
def test_pods_of_a_namespace_that_was_created_again_are_a_new_application(is_seen: str) -> None:
    """Its owner may be another one, with other quotas."""
    driver = live()
    driver.fact(namespace_seen(of_uid("a")))
    driver.see(a_pod("w0", app=APP))
    driver.accepted()
    driver.allocated("uid-w0")
    driver.see(a_pod("w0", app=APP, nodeName="n1"))
    terminating = of_uid("a")
    terminating["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    driver.fact(namespace_seen(terminating))
    assert driver.ledger.is_current(driver.ledger.applications[APP])
    if is_seen == "first":
        driver.fact(NamespaceGone("dev"))
        driver.fact(namespace_seen(of_uid("b")))
        out = driver.see(a_pod("w1", app=APP))
    else:
        assert submitted(driver.see(a_pod("w1", app=APP))) == []
        driver.fact(NamespaceGone("dev"))
        out = driver.fact(namespace_seen(of_uid("b", namespace_quota='{"cpu": "1"}')))
        assert keys.APP_TAG_RESOURCE_QUOTA in specs(out)[0].tags
    assert submitted(out) == [NEXT]
    assert submitted(driver.see(a_pod("w2", app=APP))) == []
    assert removed(driver.gone("w0")) == [APP]


def of_uid(uid: str, **annotations: str) -> Raw:
    raw = a_namespace("dev", **annotations)
    raw["metadata"]["uid"] = uid
    return raw


def test_an_application_of_several_namespaces_outlives_one_of_them() -> None:
    driver = live(settings=SHARING)
    driver.fact(namespace_seen(of_uid("a")))
    driver.see(a_pod("w0", app=APP))
    driver.fact(NamespaceGone("dev"))
    other = a_pod("w1", app=APP)
    other["metadata"]["namespace"] = "other"
    driver.see(other)
    assert list(driver.ledger.applications) == [SHARED]


# -- restarts ----------------------------------------------------------------------------------------------------------


@every_mode
def test_after_a_restart_new_pods_next_to_terminating_ones_are_a_new_gang(mode: str) -> None:
    old = [leaving(on(member(name, mode)), 1) for name in ("w0", "w1")]
    driver = gathered(*old, *(member(name, mode, minute=1) for name in ("w2", "w3")))
    nodes, asks, _ = recovered(driver)
    earlier, run = driver.ledger.applications[NEXT], driver.ledger.runs[APP]
    assert (set(earlier.members), earlier.gang) == ({"uid-w0", "uid-w1"}, None)
    assert (run.id, set(run.members), run.state) == (APP, {"uid-w2", "uid-w3"}, AppState.RESERVING)
    assert existing(nodes) == ["uid-w0", "uid-w1"]
    reported = [one.ask.app for item in nodes.requests if isinstance(item, NodeCreated) for one in item.existing]
    assert reported == [NEXT, NEXT]
    assert len(creates(asks)) == (2 if mode == "Reserve" else 0)
    driver.gone("w0")
    assert removed(driver.gone("w1")) == [NEXT]


def test_after_a_restart_a_pod_that_terminates_next_to_its_gang_belongs_to_it() -> None:
    driver = gathered(leaving(on(member("w0")), 2), on(member("w1")), member("w2", minute=2))
    recovered(driver)
    [app] = driver.ledger.applications.values()
    assert (app.id, set(app.members), app.state) == (APP, {"uid-w0", "uid-w1", "uid-w2"}, AppState.RUNNING)


def test_after_a_restart_pods_that_all_terminate_reserve_nothing_and_take_no_new_pod() -> None:
    driver = gathered(leaving(on(member("w0", "Auto")), 1))
    driver.fact(namespace_seen(a_namespace()))
    recovered(driver)
    out = driver.see(member("w1", "Auto", minute=1))
    assert specs(out)[0].placeholder_ask["pods"] == 2
    assert creates(driver.wait(60)) == []


def test_a_run_keeps_its_id_in_the_next_session_so_that_its_kept_slots_stay() -> None:
    driver = running("Direct")
    for name in ("w0", "w1"):
        driver.see(leaving(on(member(name)), 1))
        driver.gone(name)
    driver.see(member("w2", minute=1))
    assert [run.id for run in driver.ledger.runs.values()] == [NEXT]
    assert submitted(whole(recovery.begin(driver.ledger, 0.0))) == [NEXT]


def test_placeholders_of_the_earlier_run_are_deleted_after_a_restart() -> None:
    commands = gang.began("w0")[1]
    left_over = gang.pod_of(commands[0], nodeName="n2")
    old = leaving(on(member("w0", "Reserve")), 1)
    recovery_driver = gathered(old, left_over, member("w1", "Reserve", minute=1))
    out = Outcome()
    for part in (whole(recovery.begin(recovery_driver.ledger, 0.0)), *recovered(recovery_driver)):
        out.add(part)
    assert left_over["metadata"]["name"] in [one.pod.name for one in out.commands if isinstance(one, DeletePod)]


# -- succeeded members -------------------------------------------------------------------------------------------------


def a_retry(mode: str, *others: Raw) -> Driver:
    """Return a session in which these pods have ended and the retry of another member appears."""
    driver = live()
    for raw in others:
        driver.see(raw)
    return driver


@every_mode
def test_succeeded_members_count_for_a_retry(mode: str) -> None:
    done_members = [ended(member(f"w{index}", mode, count=3)) for index in range(2)]
    driver = a_retry(mode, *done_members, ended(member("w2", mode, count=3), "Failed"))
    [spec] = specs(driver.see(member("w3", mode, minute=9, count=3)))
    assert spec.placeholder_ask["pods"] == 1
    assert len(creates(driver.accepted())) == (1 if mode == "Reserve" else 0)
    assert creates(driver.wait(60)) == []


@every_mode
def test_succeeded_members_count_after_a_restart(mode: str) -> None:
    done_members = [ended(member(f"w{index}", mode, count=3)) for index in range(2)]
    driver = gathered(
        *done_members, ended(member("w2", mode, count=3), "Failed"), member("w3", mode, minute=9, count=3)
    )
    [spec] = specs(whole(recovery.begin(driver.ledger, 0.0)))
    assert spec.placeholder_ask["pods"] == 1


@pytest.mark.parametrize("case", ["another controller", "no controller", "deleted", "being deleted", "failed"])
def test_members_of_another_run_and_failed_members_do_not_count(case: str) -> None:
    owner = {"another controller": "uid-of-an-earlier-job", "no controller": ""}.get(case, JOB)
    before = ended(member("w0", owner=owner), "Failed" if case == "failed" else "Succeeded")
    driver = live()
    driver.see(before)
    if case == "deleted":
        driver.gone("w0")
    elif case == "being deleted":
        driver.see(leaving(before, 1))
    retry = member("w1", minute=9, owner="" if case == "no controller" else JOB)
    assert specs(driver.see(retry))[0].placeholder_ask["pods"] == 2


def test_a_succeeded_member_of_another_controller_counts_if_it_ran_at_the_same_time() -> None:
    """A JobSet has a Job for each role."""
    leader = ended(member("leader", count=3, owner="uid-of-the-leader-job"))
    driver = a_retry("Direct", leader, ended(member("w0", count=3)), ended(member("w1", count=3), "Failed"))
    assert specs(driver.see(member("w2", minute=9, count=3)))[0].placeholder_ask["pods"] == 1


def test_a_gang_whose_other_members_have_all_succeeded_starts_without_a_reservation() -> None:
    """A Job with more completions than parallel pods creates further ones."""
    driver = a_retry("Reserve", *(ended(member(f"w{index}", "Reserve")) for index in range(2)))
    out = driver.see(member("w2", "Reserve", minute=9))
    assert (specs(out)[0].placeholder_ask, requested_keys(out)) == ({}, ["uid-w2"])


def test_nothing_is_remembered_of_ended_members_that_are_deleted() -> None:
    driver = a_retry("Direct", ended(member("w0")), ended(member("w1")))
    driver.gone("w0")
    driver.see(leaving(ended(member("w1")), 1))
    assert (driver.ledger.ended, driver.ledger.ended_of) == ({}, {})


def test_reported_pods_of_an_earlier_run_are_not_reported_again() -> None:
    driver = running("Direct")
    driver.see(leaving(on(member("w0")), 1))
    driver.see(leaving(on(member("w1")), 1))
    out = driver.see(member("w2", minute=1))
    assert [item for item in out.requests if isinstance(item, AllocationReported)] == []


def test_a_slot_that_the_earlier_run_kept_for_a_replacement_is_released_when_the_next_run_begins() -> None:
    driver = running("Reserve")
    rejected = on(member("w0", "Reserve"))
    rejected["status"] |= {"phase": "Failed", "reason": "OutOfcpu", "message": "not enough cpu"}
    driver.see(rejected)
    [key] = driver.ledger.places
    driver.see(leaving(on(member("w1", "Reserve")), 1))
    out = driver.see(member("w2", "Reserve", minute=1))
    assert [item.key for item in out.requests if isinstance(item, AllocationReleased)] == [key]
    assert (driver.ledger.places, submitted(out)) == ({}, [NEXT])
