"""Gangs that pods declare by labels and annotations: whole or waiting, also when pods contradict each other."""

import json
from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest

from muster_operator.controller import recovery
from muster_operator.controller.pod_groups import MAX_PAUSE_S
from muster_operator.model.cluster_events import PodGroupGone, PodGroupSeen
from muster_operator.model.commands import BindPod, Outcome, PostEvent, SetCondition, SetGroupCondition
from muster_operator.model.core_messages import ApplicationSubmitted
from muster_operator.model.ids import AppId, PodUid
from muster_operator.model.states import AppState, TaskState
from muster_operator.translate.membership import read_labelled_group
from muster_si import keys
from tests.unit.operator.controller.driver import Driver, done, live, orders, requested_keys, submitted, whole
from tests.unit.operator.controller.objects import APP_ID, QUEUE, Raw, a_pod
from tests.unit.operator.controller.test_pod_groups import a_pod_group
from tests.unit.operator.controller.test_pod_groups import member as pod_of_an_object

TRAIN = AppId("dev/train")
Member = Callable[..., Raw]


def koordinator(name: str, size: str = "2", gang: str = "train", **fields: Any) -> Raw:
    prefix = "gang.scheduling.koordinator.sh/"
    return a_pod(name, annotations={f"{prefix}name": gang, f"{prefix}min-available": size}, **fields)


def kueue(name: str, size: str = "2", gang: str = "train", **fields: Any) -> Raw:
    pod = a_pod(name, annotations={"yunikorn.apache.org/gang-size": size}, **fields)
    pod["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] = gang
    return pod


def of_a_job(name: str, size: str = "2", gang: str = "train", **fields: Any) -> Raw:
    pod = a_pod(name, annotations={"yunikorn.apache.org/gang-size": size}, **fields)
    pod["metadata"]["ownerReferences"] = [{"kind": "Job", "name": gang, "uid": f"uid-{gang}", "controller": True}]
    return pod


MEMBERS = pytest.mark.parametrize("member", [koordinator, kueue, of_a_job])


def messages(out: Outcome) -> set[str]:
    return {one.message for one in out.commands if isinstance(one, SetCondition)}


def told(driver: Driver) -> str:
    """The condition of the pods that wait."""
    [found] = messages(driver.wait(driver.ledger.settings.condition_delay_s))
    return found


@MEMBERS
def test_the_members_are_requested_together_when_enough_of_them_exist(member: Member) -> None:
    driver = live()
    assert submitted(driver.see(member("w0"))) == []
    assert told(driver).startswith('waiting for more pods: gang "train" (')
    assert submitted(driver.see(member("w1"))) == [TRAIN]
    gang = driver.ledger.applications[TRAIN].gang
    assert gang is not None
    assert (gang.size, gang.placement) == (2, "Direct")
    assert sorted(requested_keys(driver.accepted(TRAIN))) == ["uid-w0", "uid-w1"]
    assert requested_keys(driver.see(member("w2"))) == ["uid-w2"]
    driver.gone("w2")
    assert not [one for one in driver.wait(600).commands if isinstance(one, SetGroupCondition)]


@MEMBERS
def test_contradictory_sizes_keep_all_members_waiting_until_they_agree(member: Member) -> None:
    driver = live()
    driver.see(member("w0", "2"))
    assert submitted(driver.see(member("w1", "3"))) == []
    why = told(driver)
    assert 'its pods have "2" and "3" as ' in why
    for _ in range(3):  # the same events again change nothing
        driver.see(member("w0", "2"))
        driver.see(member("w1", "3"))
        assert messages(driver.wait(driver.ledger.settings.condition_delay_s)) <= {why}
    assert submitted(driver.see(member("w1", "2"))) == [TRAIN]


@MEMBERS
def test_a_contradiction_takes_back_what_was_requested_and_spares_what_runs(member: Member) -> None:
    driver = started(member)
    driver.see(member("w1", "3"))
    assert driver.ledger.applications == {}
    driver.see(member("w1", "2"))
    assert submitted(driver.wait(1))


def started(member: Member) -> Driver:
    driver = live()
    driver.see(member("w0"))
    driver.see(member("w1"))
    driver.accepted(TRAIN)
    return driver


def running(*pods: Raw, app: AppId = TRAIN) -> Driver:
    """These members of a gang have a node. A PodGroup of their number exists, which some of them name."""
    driver = live()
    driver.fact(a_pod_group("train", len(pods)))
    driver.fact(labelled_group(len(pods)))
    for pod in pods:
        driver.see(pod)
    driver.accepted(app)
    driver.updated(keys.APP_RUNNING, app=app)
    for pod in pods:
        found = orders(driver.allocated(pod["metadata"]["uid"], app=app))
        [order] = [one for one in found if isinstance(one, BindPod)]
        driver.result(done(order))
        driver.see(on_a_node(pod), phase="Running")
    return driver


def on_a_node(pod: Raw) -> Raw:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"}
    return {**pod, "spec": {**pod["spec"], "nodeName": "n1"}, "status": {"conditions": [scheduled]}}


def of_an_object(name: str, _size: str = "3", **fields: Any) -> Raw:
    return pod_of_an_object(name, **fields)


def labelled(name: str, _size: str = "3", gang: str = "train", **fields: Any) -> Raw:
    """A member of a PodGroup of scheduler-plugins."""
    pod = a_pod(name, **fields)
    pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = gang
    return pod


def labelled_group(minimum: int) -> PodGroupSeen:
    raw = {"metadata": {"namespace": "dev", "name": "train", "uid": "uid-train"}, "spec": {"minMember": minimum}}
    group = read_labelled_group(raw)
    assert group is not None
    return PodGroupSeen(group)


@pytest.mark.parametrize("member", [koordinator, kueue, of_a_job, of_an_object, labelled])
@pytest.mark.parametrize("last", ["Running", "Succeeded"])
@pytest.mark.parametrize("then", ["no restart", "restart"])
def test_a_replacement_joins_a_gang_that_can_never_have_its_size_again(member: Member, last: str, then: str) -> None:
    """Of three members one fails for good, another one is replaced, and the last one runs or ends."""
    pods = [member(f"w{number}", "3") for number in range(3)]
    driver = running(*pods)
    for pod in pods[:2]:
        driver.see(on_a_node(pod), phase="Failed")
    assert requested_keys(driver.see(member("w1b", "3"))) == ["uid-w1b"]
    driver.see(on_a_node(pods[2]), phase=last)
    driver.wait(MAX_PAUSE_S)
    assert driver.ledger.tasks[PodUid("uid-w1b")].state is TaskState.SCHEDULING
    if then == "restart":
        whole(recovery.begin(driver.ledger, driver.now))
        driver.accepted(TRAIN)
        whole(recovery.report_nodes(driver.ledger, driver.now))
        assert requested_keys(whole(recovery.submit_asks(driver.ledger, driver.now))) == ["uid-w1b"]
        assert driver.ledger.applications[TRAIN].state is AppState.RUNNING


@MEMBERS
def test_when_all_members_have_failed_the_next_ones_are_a_whole_gang_again(member: Member) -> None:
    pods = [member("w0"), member("w1")]
    driver = running(*pods)
    for pod in pods:
        driver.see(on_a_node(pod), phase="Failed")
    assert requested_keys(driver.see(member("w0b"))) == []
    assert "Pods that failed or cannot be scheduled yet do not count" in told(driver)
    assert len(submitted(driver.see(member("w1b")))) + len(submitted(driver.wait(MAX_PAUSE_S))) == 1


@MEMBERS
def test_a_late_member_that_contradicts_waits_alone(member: Member) -> None:
    driver = running(member("w0"), member("w1"))
    assert requested_keys(driver.see(member("late", "9"))) == []
    assert set(driver.ledger.tasks) == {"uid-w0", "uid-w1"}
    out = whole(recovery.begin(driver.ledger, driver.now))
    assert submitted(out) == [TRAIN]
    gang = driver.ledger.applications[TRAIN].gang
    assert gang is not None
    assert gang.size == 2
    whole(recovery.report_nodes(driver.ledger, driver.now))
    recovery.open_nodes(driver.ledger, driver.now)
    driver.see(member("late", "2"))
    driver.wait(1)
    assert set(driver.ledger.tasks) == {"uid-w0", "uid-w1", "uid-late"}


@MEMBERS
@pytest.mark.parametrize("key, value", [(APP_ID, "other"), (QUEUE, "root.other")])
def test_members_with_different_applications_or_queues_wait(member: Member, key: str, value: str) -> None:
    driver = live()
    driver.see(member("w0"))
    other = member("w1")
    other["metadata"]["labels"][key] = value
    assert submitted(driver.see(other)) == []
    assert f"as {key}; write the same value" in told(driver)


@MEMBERS
@pytest.mark.parametrize("generated", ["yunikorn-dev-autogen", "dev-uniqueautogen"])
def test_a_generated_application_id_contradicts_no_other_one(member: Member, generated: str) -> None:
    """A webhook that did not know the gang has written it on the first member only, which runs."""
    driver = live()
    driver.see(member("w0", app=generated, nodeName="n1"), phase="Running")
    assert submitted(driver.see(member("w1", app="train"))) == []
    assert driver.ledger.tasks.keys() == {"uid-w0", "uid-w1"}
    assert driver.ledger.applications.keys() == {TRAIN}


@pytest.mark.parametrize("app", ["", "yunikorn-dev-autogen", "dev-uniqueautogen"])
def test_pods_without_controller_and_application_id_are_no_gang(app: str) -> None:
    driver = live()
    size = {"yunikorn.apache.org/gang-size": "3"}
    texts = [
        one.note for one in driver.see(a_pod("w0", app=app, annotations=size)).commands if isinstance(one, PostEvent)
    ]
    assert [text for text in texts if "gang-size has no effect without a controller" in text]
    driver.see(a_pod("w1", app=app, annotations={"yunikorn.apache.org/gang-size": "x"}))
    assert driver.ledger.tasks.keys() == {"uid-w0", "uid-w1"}
    assert driver.ledger.group_members == {}


@MEMBERS
def test_contradictory_members_are_reported_alike_in_any_order(member: Member) -> None:
    """Of those that have a node, one decides the queue, the same after each restart."""
    pods = [member("a", "3", nodeName="n1"), member("b", "2", nodeName="n1"), member("c", "4")]
    for pod, queue in zip(pods, ("root.one", "root.two", "root.one"), strict=True):
        pod["metadata"]["labels"][QUEUE] = queue
    found = set()
    for order in permutations(pods):
        driver = live()
        for pod in order:
            driver.see(pod)
        [group] = driver.ledger.pod_groups.values()
        found.add((group.min_count, group.queue, group.problem))
    [(size, queue, problem)] = found
    assert (size, queue) == (3, "root.one")
    assert '"2" and "4" as ' in problem


@MEMBERS
def test_a_value_that_changes_all_the_time_rewrites_the_conditions_more_and_more_rarely(member: Member) -> None:
    count, rounds, written = 10, 100, 0
    driver = live()
    pods = [member(f"w{number}", "600") for number in range(count)]
    for pod in pods:
        driver.see(pod)
    for number in range(rounds):
        pods[0] = member("w0", str(700 + number))
        driver.see(pods[0])
        for one in driver.wait(driver.ledger.settings.condition_delay_s).commands:
            if isinstance(one, SetCondition):
                written += 1
                waits = {"type": "PodScheduled", "status": "False", "reason": one.reason, "message": one.message}
                [pod] = [pod for pod in pods if pod["metadata"]["name"] == one.pod.name]
                pod["status"]["conditions"] = [waits]
                driver.see(pod)
    assert count <= written <= 10 * count


def test_one_controller_with_two_names_is_a_contradiction() -> None:
    driver = live()
    driver.see(of_a_job("w0", app="job"))
    other = of_a_job("w1", app="job")
    other["metadata"]["ownerReferences"][0]["name"] = "forged"
    assert submitted(driver.see(other)) == []
    assert '"forged" and "train" as name of their controller' in told(driver)


@MEMBERS
def test_an_invalid_size_keeps_the_gang_waiting(member: Member) -> None:
    driver = live()
    driver.see(member("w0"))
    assert submitted(driver.see(member("w1", str(2**31)))) == []
    assert '"2147483648" is not a number of pods; write a whole number from 1 to 10,000' in told(driver)


@MEMBERS
@pytest.mark.parametrize("size, why", [("3", "waiting for more pods"), ("many", '"many" is not a number of pods')])
def test_each_reason_why_a_gang_waits_is_one_event_on_its_first_pod(member: Member, size: str, why: str) -> None:
    driver = live()
    driver.see(member("w0", size))
    driver.see(member("w1", size))
    [event] = [one for one in driver.wait(600).commands if isinstance(one, PostEvent)]
    assert (event.name, event.reason, why in event.note) == ("w0", "FailedScheduling", True)


@MEMBERS
def test_a_member_that_is_deleted_before_the_start_is_awaited_again(member: Member) -> None:
    driver = started(member)
    driver.gone("w1")
    assert driver.ledger.applications == {}
    driver.see(member("w2"))
    assert len(submitted(driver.wait(1))) == 1


@MEMBERS
def test_a_waiting_pod_moves_to_the_gang_that_it_names_now(member: Member) -> None:
    driver = started(member)
    moved = of_an_application(member("w1", gang="other"))
    driver.see(moved)
    assert driver.ledger.tasks == {}
    assert submitted(driver.see({**moved, "metadata": {**moved["metadata"], "name": "o1", "uid": "uid-o1"}}))
    assert set(driver.ledger.tasks) == {"uid-w1", "uid-o1"}


@MEMBERS
def test_a_waiting_pod_moves_between_complete_gangs_of_one_application(member: Member) -> None:
    driver = live()
    for name, gang in (("w0", "train"), ("w1", "train"), ("w2", "train"), ("o0", "other"), ("o1", "other")):
        driver.see(of_an_application(member(name, gang=gang)))
    assert driver.ledger.tasks[PodUid("uid-w2")].app == driver.ledger.tasks[PodUid("uid-w0")].app
    driver.see(of_an_application(member("w2", gang="other")))
    assert driver.ledger.tasks[PodUid("uid-w2")].app == driver.ledger.tasks[PodUid("uid-o0")].app


def of_an_application(pod: Raw) -> Raw:
    pod["metadata"]["labels"][APP_ID] = "train"
    return pod


@MEMBERS
def test_a_pod_that_leaves_its_gang_is_scheduled_alone(member: Member) -> None:
    driver = live()
    driver.see(member("w0"))
    assert len(submitted(driver.see(a_pod("w0", app="alone")))) == 1
    assert not any((driver.ledger.group_members, driver.ledger.pod_groups, driver.ledger.group_of))


@MEMBERS
def test_nothing_is_left_of_a_gang_that_is_gone(member: Member) -> None:
    driver = started(member)
    for name in ("w0", "w1"):
        driver.gone(name)
    assert not any((driver.ledger.group_members, driver.ledger.pod_groups, driver.ledger.group_of))


@MEMBERS
def test_a_restart_recovers_the_gangs_from_their_pods(member: Member) -> None:
    driver = started(member)
    driver.see(member("l0", gang="later"))
    assert submitted(whole(recovery.begin(driver.ledger, driver.now))) == [TRAIN]
    assert set(driver.ledger.tasks) == {"uid-w0", "uid-w1"}


@MEMBERS
def test_one_retried_pod_starts_after_the_others_have_succeeded(member: Member) -> None:
    driver = live()
    driver.see({**member("w0", nodeName="n1"), "status": {"phase": "Succeeded"}})
    assert submitted(driver.see(member("w1b"))) == [TRAIN]
    assert requested_keys(driver.accepted(TRAIN)) == ["uid-w1b"]


def test_gangs_of_one_name_are_separate_in_each_dialect_and_from_an_object() -> None:
    driver = live()
    driver.fact(a_pod_group("train", 2))
    driver.fact(labelled_group(2))
    members: list[Member] = [koordinator, kueue, of_a_job, pod_of_an_object, labelled]
    pods = [member(f"{number}{index}") for index in (0, 1) for number, member in enumerate(members)]
    found = [submitted(driver.see(pod)) for pod in pods]
    assert [len(apps) for apps in found] == [0] * 5 + [1] * 5
    assert {app.common_id for app in driver.ledger.applications.values()} == {TRAIN}


def test_pods_of_a_labelled_group_wait_for_it_and_for_its_minimum_and_it_gets_no_condition() -> None:
    driver = live()
    for name in ("w0", "w1"):
        assert submitted(driver.see(labelled(name))) == []
    assert 'pod group "scheduling.x-k8s.io/pod-group=train" to appear' in told(driver)
    driver.fact(labelled_group(3))
    assert "needs 3 (spec.minMember)" in told(driver)
    out = [driver.fact(labelled_group(2)), driver.accepted(TRAIN), driver.wait(600)]
    assert submitted(out[0]) == [TRAIN]
    assert submitted(driver.fact(PodGroupGone("dev/scheduling.x-k8s.io/pod-group=train"))) == []
    assert driver.ledger.tasks == {}
    assert not [one for part in out for one in part.commands if isinstance(one, SetGroupCondition)]
    driver.fact(labelled_group(0))  # no gang
    driver.wait(MAX_PAUSE_S)
    assert set(driver.ledger.tasks) == {"uid-w0", "uid-w1"}


def test_the_ignored_dialect_is_an_event_with_both_keys() -> None:
    driver = live()
    pods = [of_a_job("w0"), of_a_job("w1")]
    for pod in pods:
        pod["metadata"]["annotations"] |= koordinator("w0")["metadata"]["annotations"]
    driver.see(pods[0])
    texts = [one.note for one in driver.see(pods[1]).commands if isinstance(one, PostEvent)]
    ignored = "gang.scheduling.koordinator.sh/name is ignored, because yunikorn.apache.org/gang-size takes precedence"
    assert [text for text in texts if ignored in text]


def test_thousands_of_different_sizes_in_one_gang_cost_a_constant_amount_each() -> None:
    driver = live()
    for number in range(2_000):
        driver.see(kueue(f"w{number}", str(1 + number)))
    [members] = driver.ledger.group_members.values()
    assert len(members.declarations) == 2_000
    assert driver.ledger.tasks == {}
    assert not [one for one in driver.wait(1).requests if isinstance(one, ApplicationSubmitted)]


def together(name: str, gang: str, size: str, gangs: str = "left right", **fields: Any) -> Raw:
    """A member of a gang of Koordinator that starts together with others."""
    pod = koordinator(name, size, gang, **fields)
    names = json.dumps([f"dev/{one}" for one in gangs.split()])
    pod["metadata"]["annotations"] |= {"gang.scheduling.koordinator.sh/groups": names} if gangs else {}
    return pod


LEFT = AppId("dev/left")
ALL_OF_BOTH = [("l0", "left", "1"), ("r0", "right", "2"), ("r1", "right", "2")]


@pytest.mark.parametrize("order", list(permutations(ALL_OF_BOTH)))
def test_gangs_that_start_together_are_one_gang_with_the_minimum_of_each(order: list[tuple[str, str, str]]) -> None:
    driver = live()
    for pod in order[:-1]:
        assert submitted(driver.see(together(*pod))) == []
    assert submitted(driver.see(together(*order[-1]))) == [LEFT]
    gang = driver.ledger.applications[LEFT].gang
    assert gang is not None
    assert [(group.name, group.min_member) for group in gang.groups] == [("left", 1), ("right", 2)]
    assert gang.placement == "Direct"
    driver.accepted(LEFT)
    assert {task.pod.membership.task_group for task in driver.ledger.applications[LEFT].members.values()} == {
        "left",
        "right",
    }
    assert submitted(whole(recovery.begin(driver.ledger, driver.now))) == [LEFT]
    whole(recovery.report_nodes(driver.ledger, driver.now))
    recovery.open_nodes(driver.ledger, driver.now)
    for name, *_ in ALL_OF_BOTH:
        driver.gone(name)
    left = (driver.ledger.group_members, driver.ledger.pod_groups, driver.ledger.groups_of_gang)
    assert not any((*left, driver.ledger.contested_groups))


@pytest.mark.parametrize(
    "pods, why",
    [
        ([("r0", "right", "1")], 'gang "left" has none, and starts together with gang "right" (gang.scheduling.'),
        ([("r0", "right", "2"), ("l0", "left", "1")], 'gang "right" of gangs "left", "right" needs 2 ('),
        (
            [*ALL_OF_BOTH, ("l1", "left", "2")],
            'its pods have "1" and "2" as gang.scheduling.koordinator.sh/min-available',
        ),
        ([("r0", "right", "6000"), ("l0", "left", "6000")], "need 12,000 pods together, more than 10,000"),
        ([("r0", "right", "many"), ("l0", "left", "1")], '"many" is not a number of pods'),
        (
            [*ALL_OF_BOTH, ("r2", "right", "2", "right third")],
            'gang "dev/right" is one of dev/left, dev/right, and of dev/right, dev/third (gang.scheduling.',
        ),
        (
            [*ALL_OF_BOTH[:2], ("r1", "right", "1", "")],
            'gang "dev/right" is one of dev/left, dev/right, and of dev/right (',
        ),
    ],
)
def test_gangs_that_cannot_start_together_wait_with_the_reason(pods: list[tuple[str, ...]], why: str) -> None:
    for order in permutations(pods):
        driver = live()
        for pod in order:
            driver.see(together(*pod))
        assert driver.ledger.tasks == {}
        found = messages(driver.wait(driver.ledger.settings.condition_delay_s))
        assert found
        assert all(why in text for text in found)


def test_gangs_whose_groups_agree_again_start_and_what_runs_is_spared() -> None:
    driver = live()
    driver.see(together("old", "right", "1", "right", nodeName="n1"), phase="Running")
    for pod in ALL_OF_BOTH:
        driver.see(together(*pod))
    assert set(driver.ledger.tasks) == {"uid-old"}
    for name in ("r2", "r3"):  # more contradictions, which end first
        driver.see(together(name, "right", "1", f"right {name}"))
        driver.gone(name)
    assert set(driver.ledger.tasks) == {"uid-old"}
    driver.gone("old")
    driver.wait(MAX_PAUSE_S)
    assert set(driver.ledger.tasks) == {"uid-l0", "uid-r0", "uid-r1"}


@pytest.mark.parametrize("then", ["no restart", "restart"])
def test_pods_of_a_gang_that_is_gone_join_the_gang_that_runs(then: str) -> None:
    driver = running(*(together(*pod) for pod in ALL_OF_BOTH), app=LEFT)
    for name in ("r0", "r1"):
        driver.gone(name)
    driver.wait(MAX_PAUSE_S)
    if then == "restart":
        whole(recovery.begin(driver.ledger, driver.now))
        driver.accepted(LEFT)
        whole(recovery.report_nodes(driver.ledger, driver.now))
        recovery.open_nodes(driver.ledger, driver.now)
    driver.see(together("r2", "right", "2"))
    driver.wait(MAX_PAUSE_S)
    assert {uid: task.state for uid, task in driver.ledger.tasks.items()} == {
        "uid-l0": TaskState.BOUND,
        "uid-r2": TaskState.SCHEDULING,
    }
    assert driver.ledger.applications.keys() == {LEFT}


def test_a_gang_of_another_namespace_is_no_contradiction() -> None:
    driver = live()
    other = koordinator("o0", "1", "right")
    other["metadata"]["namespace"] = "prod"
    driver.see(other)
    for pod in ALL_OF_BOTH:
        driver.see(together(*pod))
    assert set(driver.ledger.tasks) == {"uid-o0", "uid-l0", "uid-r0", "uid-r1"}


def test_pods_that_contradict_each_other_in_a_hundred_gangs_cost_a_constant_amount_each() -> None:
    driver = live()
    gangs = " ".join(f"g{number:02}" for number in range(100))
    for number in range(300):
        driver.see(together(f"w{number}", "g00", "1", gangs if number % 2 else f"{gangs[:-3]} other{number}"))
    assert driver.ledger.tasks == {}
    assert len(driver.ledger.groups_of_gang["dev/g00"]) == 151
