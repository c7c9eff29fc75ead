"""Two workloads with the same application ID: a gang starts completely or not at all, and is never filled by both."""

from typing import Any

import pytest

from muster_operator.controller import recovery
from muster_operator.model.commands import FailPod, Outcome, PostEvent
from muster_operator.model.core_messages import ApplicationSubmitted
from muster_operator.model.ids import PodUid
from muster_operator.model.states import AppState
from muster_si import keys
from tests.unit.operator.controller import gang
from tests.unit.operator.controller.driver import APP, Driver, live, requested_keys, submitted, whole
from tests.unit.operator.controller.gang import creates
from tests.unit.operator.controller.index_checks import assert_counted, work_of
from tests.unit.operator.controller.objects import Raw, a_group, a_pod, gang_annotations
from tests.unit.operator.controller.test_recovery import gathered, recovered
from tests.unit.operator.controller.test_runs import NEXT, ended, every_mode, leaving, member, on

NAMES = "012"
QUIET_S, WAIT_S = 0.5, 5.0


def of(job: str, name: str, mode: str = "Direct", **options: Any) -> Raw:
    """A member of a gang of three that this Job created."""
    raw = member(f"{job}{name}", mode, **{"count": 3, "owner": f"uid-of-{job}", **options})
    raw["metadata"]["ownerReferences"][0]["name"] = f"job-{job}"
    return raw


def members(driver: Driver) -> dict[str, set[str]]:
    """The pods of each application, without their prefix."""
    apps = driver.ledger.applications.items()
    return {app: {uid.removeprefix("uid-") for uid in found.members} for app, found in apps}


def warnings(out: Outcome) -> dict[str, str]:
    return {
        one.name: one.note
        for one in out.commands
        if isinstance(one, PostEvent) and one.reason == "TaskGroupsError" and "job-" in one.note
    }


def seen(driver: Driver, *raws: Raw) -> Outcome:
    total = Outcome()
    for raw in raws:
        total.add(driver.see(raw))
    return total


ORDERS = {
    "alternately": ("a0", "b0", "a1", "b1", "a2", "b2"),
    "the second at the end": ("a0", "a1", "a2", "b0", "b1", "b2"),
    "the second between": ("a0", "b0", "b1", "b2", "a1", "a2"),
}


@every_mode
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_the_pods_of_two_jobs_with_the_same_application_id_are_two_gangs(mode: str, order: tuple[str, ...]) -> None:
    driver = live()
    out = seen(driver, *(of(name[0], name[1], mode) for name in order))
    assert members(driver) == {APP: {"a0", "a1", "a2"}, NEXT: {"b0", "b1", "b2"}}
    specs = [item.spec for item in out.requests if isinstance(item, ApplicationSubmitted)]
    assert [(one.app, one.tags[keys.APP_TAG_APPLICATION_ID], one.placeholder_ask["pods"]) for one in specs] == [
        (APP, "job", 3),
        (NEXT, "job", 3),
    ]
    assert warnings(out).keys() == {"b0"}
    assert all(text in warnings(out)["b0"] for text in ("Job/job-a", "Job/job-b", "app-id"))
    for app, job in ((APP, "a"), (NEXT, "b")):
        begun = driver.accepted(app)
        assert len(creates(begun)) == (3 if mode == "Reserve" else 0)
        assert set(requested_keys(begun)) == (set() if mode == "Reserve" else {f"uid-{job}{name}" for name in NAMES})
    assert driver.ledger.newcomers == {}
    assert_counted(driver.ledger)


@every_mode
def test_later_pods_join_the_gang_of_their_job(mode: str) -> None:
    driver = live()
    seen(driver, *(of(job, name, mode) for job in "ab" for name in NAMES))
    driver.accepted(), driver.accepted(NEXT)
    driver.gone("b1")
    driver.gone("a1")
    seen(driver, of("b", "3", mode), of("a", "3", mode))
    assert members(driver) == {APP: {"a0", "a2", "a3"}, NEXT: {"b0", "b2", "b3"}}
    for name in ("a0", "a2", "a3"):
        driver.gone(name)
    assert members(driver) == {NEXT: {"b0", "b2", "b3"}}
    driver.see(of("b", "4", mode))
    assert members(driver) == {NEXT: {"b0", "b2", "b3", "b4"}}


def test_a_retry_after_all_other_pods_of_its_job_have_succeeded_is_a_gang_of_one_next_to_another_job() -> None:
    driver = live()
    seen(driver, *(of(job, name) for job in "ab" for name in NAMES))
    driver.accepted(), driver.accepted(NEXT)
    for name in "01":
        driver.see(ended(of("b", name)))
    driver.see(ended(of("b", "2"), "Failed"))
    out = driver.see(of("b", "3", minute=9))
    out.add(driver.wait(QUIET_S))
    [spec] = [item.spec for item in out.requests if isinstance(item, ApplicationSubmitted)]
    assert spec.placeholder_ask["pods"] == 1
    assert driver.ledger.runs[APP].members.keys() == {"uid-a0", "uid-a1", "uid-a2"}
    assert driver.ledger.is_current(driver.ledger.applications[APP])


@every_mode
def test_the_jobs_of_one_gang_fill_it_together(mode: str) -> None:
    """A JobSet creates Jobs, whose pods are one task group."""
    driver = live()
    out = seen(driver, *(of(job, "0", mode) for job in "abc"))
    driver.accepted()
    assert members(driver) == {APP: {"a0"}}
    out.add(driver.wait(QUIET_S))
    assert members(driver) == {APP: {"a0", "b0", "c0"}}
    assert warnings(out) == {}
    assert (submitted(out), driver.ledger.newcomers) == ([APP], {})
    assert len(driver.ledger.applications[APP].slots) == 0 or mode == "Reserve"


def test_jobs_of_one_pod_each_are_an_elastic_gang() -> None:
    """Those beyond the minimum are scheduled one by one, as in YuniKorn, and their pods say so."""
    driver = live()
    out = seen(driver, *(of(job, "0") for job in "abcd"))
    driver.accepted()
    out.add(driver.wait(QUIET_S))
    out.add(driver.wait(WAIT_S))
    assert members(driver) == {APP: {"a0", "b0", "c0", "d0"}}
    assert warnings(out).keys() == {"d0"}


def test_a_pod_of_another_job_beyond_the_minimum_reports_both_jobs() -> None:
    driver = live()
    seen(driver, *(of("a", name) for name in NAMES))
    driver.accepted()
    assert not seen(driver, of("b", "0")).requests
    assert members(driver) == {APP: {"a0", "a1", "a2"}}
    driver.wait(QUIET_S)
    out = driver.wait(WAIT_S)
    assert requested_keys(out) == ["uid-b0"]
    assert warnings(out).keys() == {"b0"}
    assert all(text in warnings(out)["b0"] for text in ("Job/job-a", "Job/job-b", "app-id", "minMember to 4"))


def test_a_job_whose_pods_are_created_slowly_is_a_gang_of_its_own_if_the_first_gang_is_full() -> None:
    driver = live()
    seen(driver, *(of("a", name) for name in NAMES))
    driver.accepted()
    for name in NAMES:
        driver.see(of("b", name))
        driver.wait(WAIT_S - 1)
    assert members(driver) == {APP: {"a0", "a1", "a2"}, NEXT: {"b0", "b1", "b2"}}


def test_pods_whose_number_never_settles_do_not_wait_without_end() -> None:
    driver = live()
    seen(driver, *(of("a", name) for name in NAMES))
    driver.accepted()
    rounds = 0
    while members(driver) == {APP: {"a0", "a1", "a2"}} and rounds < 100:
        driver.gone(f"b{rounds}")
        rounds += 1
        driver.see(of("b", str(rounds)))
        driver.wait(WAIT_S - 1)
    assert members(driver) == {APP: {"a0", "a1", "a2", f"b{rounds}"}}


def test_pods_without_a_controller_join_the_gang_at_once() -> None:
    driver = live()
    seen(driver, *(of("a", name) for name in NAMES))
    driver.accepted()
    assert requested_keys(driver.see(member("plain", count=3, owner=""))) == ["uid-plain"]


def test_pods_of_another_task_group_join_their_gang_at_once() -> None:
    """The workers of an MPI job have another controller than its launcher."""
    driver = live()
    groups = (a_group("launcher", 1), a_group("worker", 2))
    for name, group, owner in (("l", "launcher", "x"), ("w0", "worker", "y"), ("w1", "worker", "y")):
        raw = a_pod(name, app=APP, annotations=gang_annotations(*groups, member_of=group))
        raw["metadata"]["ownerReferences"] = [{"kind": "Job", "name": owner, "uid": owner, "controller": True}]
        driver.see(raw)
    assert members(driver) == {APP: {"l", "w0", "w1"}}


def test_executors_join_the_gang_of_their_driver() -> None:
    driver = live()
    seen(driver, *(of(job, name) for job in "ab" for name in NAMES))
    driver.accepted(), driver.accepted(NEXT)
    executor = of("b", "executor", owner="uid-b0")
    driver.see(executor)
    assert members(driver)[NEXT] == {"b0", "b1", "b2", "bexecutor"}


def test_a_job_that_replaces_a_deleted_one_before_its_pods_are_deleted_is_a_new_gang() -> None:
    driver = live()
    seen(driver, *(of("a", name) for name in NAMES))
    driver.accepted()
    seen(driver, *(of("b", name) for name in "01"))
    for name in NAMES:
        driver.gone(f"a{name}")
    seen(driver, of("b", "2"))
    driver.wait(QUIET_S)
    assert list(members(driver).values()) == [{"b0", "b1", "b2"}]


def test_pods_that_are_deleted_while_they_are_held_back_do_not_count() -> None:
    driver = live()
    seen(driver, *(of("a", name) for name in NAMES), of("b", "0"), of("b", "1"))
    driver.accepted()
    driver.gone("b0")
    driver.see(leaving(of("b", "1"), 1))
    driver.see(of("b", "2"))
    driver.wait(QUIET_S)
    driver.wait(WAIT_S)
    assert members(driver) == {APP: {"a0", "a1", "a2", "b2"}}


def test_a_pod_that_gets_a_node_while_it_is_held_back_joins() -> None:
    driver = live()
    seen(driver, *(of("a", name) for name in NAMES), of("b", "0"))
    driver.accepted()
    driver.see(on(of("b", "0")))
    assert members(driver) == {APP: {"a0", "a1", "a2", "b0"}}
    driver.wait(QUIET_S)
    driver.wait(WAIT_S)
    assert driver.ledger.newcomers == {}


# -- restarts ----------------------------------------------------------------------------------------------------------


@every_mode
@pytest.mark.parametrize("is_bound", [True, False])
def test_after_a_restart_the_pods_of_two_jobs_are_two_gangs(mode: str, *, is_bound: bool) -> None:
    first = [on(of("a", name, mode)) if is_bound else of("a", name, mode) for name in NAMES]
    driver = gathered(*first, *(of("b", name, mode, minute=1) for name in NAMES))
    _, asks, _ = recovered(driver)
    assert members(driver) == {NEXT: {"b0", "b1", "b2"}, APP: {"a0", "a1", "a2"}}
    second = driver.ledger.applications[NEXT]
    assert (second.state, second.gang is not None and second.gang.size) == (AppState.RESERVING, 3)
    assert len(creates(asks)) == (3 * (1 if is_bound else 2) if mode == "Reserve" else 0)
    driver.see(of("b", "3", mode))
    assert members(driver)[NEXT] == {"b0", "b1", "b2", "b3"}


@every_mode
@pytest.mark.parametrize("is_bound", [True, False])
def test_after_a_restart_a_waiting_gang_next_to_another_one_is_reported(mode: str, *, is_bound: bool) -> None:
    """Its pods may have been created while no operator ran."""
    first = [on(of("a", name, mode)) for name in NAMES]
    second = [of("b", name, mode, minute=1) for name in NAMES]
    driver = gathered(*first, *((on(pod) if is_bound else pod) for pod in second))
    found = warnings(whole(recovery.begin(driver.ledger, 0.0)))
    assert found.keys() == (set() if is_bound else {"b0"})
    assert all(text in note for note in found.values() for text in ("Job/job-a", "Job/job-b", "another gang"))


def test_runs_keep_their_ids_in_the_next_session() -> None:
    driver = live()
    seen(driver, *(of(job, name) for job in "ab" for name in NAMES))
    driver.accepted(), driver.accepted(NEXT)
    assert set(submitted(whole(recovery.begin(driver.ledger, 0.0)))) == {APP, NEXT}
    assert members(driver) == {NEXT: {"b0", "b1", "b2"}, APP: {"a0", "a1", "a2"}}


def test_after_a_restart_placeholders_belong_to_the_gang_of_their_owner() -> None:
    driver = live()
    seen(driver, *(of(job, name, "Reserve") for job in "ab" for name in NAMES))
    own = {app: [gang.pod_of(one) for one in creates(driver.accepted(app))] for app in (APP, NEXT)}
    for raws in own.values():
        seen(driver, *raws)
    whole(recovery.begin(driver.ledger, 0.0))
    for app, raws in own.items():
        assert driver.ledger.applications[app].placeholders.keys() == {raw["metadata"]["uid"] for raw in raws}


@pytest.mark.parametrize("done", [1, 3])
def test_after_a_restart_members_of_another_job_that_have_succeeded_do_not_count(done: int) -> None:
    first = [ended(of("a", name)) if index < done else on(of("a", name)) for index, name in enumerate(NAMES)]
    driver = gathered(*first, *(of("b", name) for name in NAMES))
    recovered(driver)
    run = next(app for app in driver.ledger.applications.values() if PodUid("uid-b0") in app.members)
    assert run.gang is not None
    assert run.gang.size == 3


@every_mode
@pytest.mark.parametrize("is_gone", [True, False], ids=["deleted", "failed"])
def test_a_gang_that_lacks_a_member_during_a_recovery_stays_a_gang_next_to_another_one(
    mode: str, *, is_gone: bool
) -> None:
    driver = live()
    seen(driver, *(on(of("a", name, mode)) for name in NAMES), *(of("b", name, mode, minute=1) for name in NAMES))
    driver.accepted(NEXT)
    if is_gone:
        driver.gone("b1")
    else:
        seen(driver, *(on(of("b", name, mode, minute=1)) for name in NAMES))
        driver.see(ended(of("b", "1", mode, minute=1), "Failed"))
    recovered(driver)
    assert members(driver) == {APP: {"a0", "a1", "a2"}, NEXT: {"b0", "b2"}}
    driver.see(of("b", "3", mode, minute=2))
    assert members(driver)[NEXT] == {"b0", "b2", "b3"}
    failed = driver.updated(keys.APP_FAILING, "ResourceReservationTimeout", app=APP)
    assert not [one for one in failed.commands if isinstance(one, FailPod) and one.pod.name.startswith("b")]
    assert_counted(driver.ledger)


def test_a_recovery_that_was_interrupted_keeps_the_gangs_of_both_jobs() -> None:
    driver = live()
    seen(driver, *(on(of("a", name)) for name in NAMES), *(of("b", name, minute=1) for name in NAMES))
    driver.accepted(NEXT)
    driver.gone("b1")
    next(iter(recovery.begin(driver.ledger, 0.0)))
    recovery.pause(driver.ledger)
    driver.ledger.runs.clear()  # the interrupted recovery had not reached the applications
    recovered(driver)
    assert members(driver) == {APP: {"a0", "a1", "a2"}, NEXT: {"b0", "b2"}}
    assert driver.ledger.earlier_runs == {}


@every_mode
@pytest.mark.parametrize("is_new", [True, False], ids=["new process", "same process"])
def test_pods_that_are_held_back_stay_held_back_across_a_recovery(mode: str, *, is_new: bool) -> None:
    raws = (of("a", "0", mode), of("b", "0", mode, minute=1), of("b", "1", mode, minute=1))
    if is_new:
        driver = gathered(*raws)
    else:
        driver = live()
        seen(driver, *raws)
        driver.accepted()
    _, asks, _ = recovered(driver)
    assert members(driver) == {APP: {"a0"}}
    assert not {"uid-b0", "uid-b1"} & set(requested_keys(asks))
    driver.see(of("b", "2", mode, minute=1))
    assert sorted(map(sorted, members(driver).values())) == [["a0"], ["b0", "b1", "b2"]]
    assert driver.ledger.newcomers == {}


@every_mode
def test_in_a_new_process_a_waiting_gang_that_lacks_a_member_waits_for_its_replacement(mode: str) -> None:
    waiting = (of("b", name, mode, minute=1) for name in "02")
    driver = gathered(*(on(of("a", name, mode)) for name in NAMES), *waiting)
    recovered(driver)
    driver.wait(WAIT_S - 1)
    assert members(driver) == {APP: {"a0", "a1", "a2"}}
    driver.see(of("b", "3", mode, minute=2))
    assert sorted(map(sorted, members(driver).values())) == [["a0", "a1", "a2"], ["b0", "b2", "b3"]]


@every_mode
def test_in_a_new_process_held_back_pods_without_a_replacement_join_as_in_a_live_session(mode: str) -> None:
    first, second = [on(of("a", name, mode)) for name in NAMES], [of("b", name, mode, minute=1) for name in "02"]
    after_restart, running = gathered(*first, *second), live()
    recovered(after_restart)
    seen(running, *(of("a", name, mode) for name in NAMES))
    running.accepted()
    seen(running, *first, *second)
    found = []
    for driver in (after_restart, running):
        out = driver.wait(QUIET_S)
        out.add(driver.wait(WAIT_S))
        assert members(driver) == {APP: {"a0", "a1", "a2", "b0", "b2"}}
        if mode != "Reserve":  # the placeholders of the gang come first
            assert sorted(requested_keys(out)) == ["uid-b0", "uid-b2"]
        found.append(warnings(out))
    assert found[0].keys() == {"b0", "b2"}
    assert found[0] == found[1]


def test_in_a_new_process_a_gang_with_placeholders_that_lacks_a_member_stays_a_gang_and_says_why_it_waits() -> None:
    driver = live()
    seen(driver, *(of(job, name, "Reserve") for job in "ab" for name in NAMES))
    raws = [gang.pod_of(one) for app in (APP, NEXT) for one in creates(driver.accepted(app))]
    driver = gathered(*(of(job, name, "Reserve") for job, name in ("a0", "a1", "a2", "b0", "b2")), *raws)
    found = warnings(whole(recovery.begin(driver.ledger, 0.0)))
    assert sorted(map(sorted, members(driver).values())) == [["a0", "a1", "a2"], ["b0", "b2"]]
    assert found.keys() == {"b0"}
    assert all(text in found["b0"] for text in ("Job/job-a", "Job/job-b", "another gang", "waits"))


def test_a_recovery_does_not_separate_a_rollout_from_its_gang() -> None:
    driver = live()
    seen(driver, *(on(of("a", name)) for name in NAMES))
    driver.accepted(), driver.updated(keys.APP_RUNNING)
    for index, name in enumerate(NAMES):
        driver.see(of("b", name, minute=1))
        driver.wait(WAIT_S)
        driver.see(on(of("b", name, minute=1)))
        if index < 2:
            driver.gone(f"a{name}")
    assert members(driver) == {APP: {"a2", "b0", "b1", "b2"}}
    recovered(driver)
    assert members(driver) == {APP: {"a2", "b0", "b1", "b2"}}


@pytest.mark.parametrize("is_new", [True, False], ids=["new process", "same process"])
def test_executors_stay_in_the_gang_of_their_driver_across_a_recovery(*, is_new: bool) -> None:
    raws = [on(of(job, name)) for job in "ab" for name in NAMES]
    raws.append(on(of("b", "executor", owner="uid-b0")))
    if is_new:
        driver = gathered(*raws)
    else:
        driver = live()
        seen(driver, *(of(job, name) for job in "ab" for name in NAMES), *raws)
        driver.accepted(), driver.accepted(NEXT)
    recovered(driver)
    assert members(driver)[NEXT] == {"b0", "b1", "b2", "bexecutor"}


# -- cost --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ended_pods", [0, 1])
def test_the_timer_of_a_held_back_pod_costs_the_same_in_a_large_gang(ended_pods: int) -> None:
    def work(size: int) -> int:
        driver = live()
        seen(driver, of("a", "0"), *(ended(of(f"e{index}-", "0")) for index in range(size * ended_pods)))
        driver.accepted()
        seen(driver, *(of(f"c{index}-", "0") for index in range(size)))
        driver.wait(QUIET_S)
        driver.wait(WAIT_S)
        assert len(members(driver)[APP]) == size + 1
        driver.ledger.deadlines.clear()  # those of the other pods
        driver.see(of("z", "0"))

        def run() -> None:
            driver.wait(QUIET_S)
            driver.wait(WAIT_S)

        count = work_of(run)
        assert "z0" in members(driver)[APP]
        return count

    assert work(400) < work(40) * 1.5
