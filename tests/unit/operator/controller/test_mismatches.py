"""Pods that name another queue, user or namespace than their application: each is reported once."""

from __future__ import annotations

from muster_operator.model import limits
from muster_operator.model.commands import Outcome, PostEvent
from muster_operator.model.core_messages import ApplicationAccepted, ApplicationResponse
from muster_operator.model.ids import AppId
from muster_si import keys
from tests.unit.operator.controller.driver import APP, SHARED, SHARING, Driver, live
from tests.unit.operator.controller.kubernetes import namespace_seen
from tests.unit.operator.controller.objects import QUEUE, Raw, a_namespace, a_pod

USER = "yunikorn.apache.org/user.info"
GROUP = "yunikorn.apache.org/task-group-name"


def a_member(name: str, queue: str = "root.a", user: str = "ann") -> Raw:
    raw = a_pod(name, app=APP, annotations={USER: f'{{"user": "{user}"}}'} if user else {})
    raw["metadata"]["labels"][QUEUE] = queue
    return raw


def reported_mismatches(out: Outcome) -> list[tuple[str, str]]:
    return [(command.name, command.note) for command in out.commands if isinstance(command, PostEvent)]


def begun() -> Driver:
    """An application of ann in queue root.a, which runs."""
    driver = live()
    assert reported_mismatches(driver.see(a_member("w0"))) == []
    driver.accepted()
    return driver


def test_pods_that_match_their_application_get_no_event() -> None:
    driver = begun()
    assert reported_mismatches(driver.see(a_member("w1"))) == []
    assert reported_mismatches(driver.see(a_member("w2", queue="", user=""))) == []


def test_a_different_queue_is_reported_on_the_first_pod_that_names_it() -> None:
    driver = begun()
    [(pod, note)] = reported_mismatches(driver.see(a_member("w1", queue="root.b")))
    assert pod == "w1"
    assert note == (
        'queue "root.b" ignored: application "job" has been in queue "root.a" since its first pod. '
        "Use a different application ID to put this pod in another queue"
    )
    assert reported_mismatches(driver.see(a_member("w2", queue="root.b"))) == []
    assert len(reported_mismatches(driver.see(a_member("w3", queue="root.c")))) == 1


def test_a_queue_that_placement_rules_ignore_is_reported_once_per_namespace_and_selected_queue() -> None:
    driver = live()
    reported = []
    for number, queue in enumerate(("root.b", "root.b", "root.c", "root.b", "root.c")):
        app = AppId(f"dev/app{number}")
        driver.see(a_pod(f"p{number}", app=f"app{number}"))
        driver.receive(ApplicationResponse(accepted=(ApplicationAccepted(app),)))
        reported += reported_mismatches(driver.updated(keys.APP_ACCEPTED, f"queue root.a is ignored: {queue}", app))
    texts = ("queue root.a is ignored: root.b", "queue root.a is ignored: root.c")
    assert reported == [("p0", texts[0]), ("p2", texts[1])]
    for number in range(limits.IGNORED_QUEUES):
        driver.updated(keys.APP_ACCEPTED, str(number), AppId("dev/app0"))
    assert [text for _, text in driver.ledger.ignored_queues] == [str(n) for n in range(limits.IGNORED_QUEUES)]


def test_a_different_user_is_reported_and_the_application_keeps_the_first_user() -> None:
    driver = begun()
    [(_, note)] = reported_mismatches(driver.see(a_member("w1", user="bob")))
    assert note.startswith('user "bob" ignored: application "job" belongs to user "ann". Use a different')
    driver.gone("w0")
    assert reported_mismatches(driver.see(a_member("w2", user="ann"))) == []


def test_pods_that_a_service_account_creates_for_an_application_are_no_mismatch() -> None:
    """Executors of Spark are created by the driver's account, the driver by a user or by the operator's account."""
    driver = begun()
    assert reported_mismatches(driver.see(a_member("exec-1", user="system:serviceaccount:dev:spark"))) == []
    operated = live()
    assert (
        reported_mismatches(operated.see(a_member("driver", user="system:serviceaccount:spark-operator:controller")))
        == []
    )
    operated.accepted()
    assert reported_mismatches(operated.see(a_member("exec-1", user="system:serviceaccount:dev:spark"))) == []


def test_other_groups_of_the_same_user_are_no_mismatch() -> None:
    driver = begun()
    raw = a_member("w1")
    raw["metadata"]["annotations"][USER] = '{"user": "ann", "groups": ["analysts"]}'
    assert reported_mismatches(driver.see(raw)) == []


def test_an_id_that_another_namespace_of_the_sharing_group_uses_is_reported() -> None:
    driver = live(settings=SHARING)
    driver.see(a_member("w0"))
    driver.accepted(SHARED)
    driver.fact(namespace_seen(a_namespace("other")))
    raw = a_member("w1")
    raw["metadata"]["namespace"] = "other"
    [(_, note)] = reported_mismatches(driver.see(raw))
    assert note.startswith('namespace "other": application "job" started in namespace "dev"')


def test_the_number_of_mismatch_reports_per_application_is_limited() -> None:
    driver = begun()
    assert sum(len(reported_mismatches(driver.see(a_member(f"x{n}", queue=f"root.q{n}")))) for n in range(100)) == 16


def test_a_user_annotation_without_a_user_is_reported_once_per_application() -> None:
    driver = live()
    [(_, note)] = reported_mismatches(driver.see(a_pod("w0", app=APP, annotations={USER: '{"username": "ann"}'})))
    assert note.startswith(f'annotation {USER} is ignored, "user" is missing or empty')
    assert reported_mismatches(driver.see(a_pod("w1", app=APP, annotations={USER: "{"}))) == []


def test_a_pod_that_names_a_task_group_and_creates_the_application_without_any_is_not_called_another_pod() -> None:
    [(_, note)] = reported_mismatches(live().see(a_pod("w0", app=APP, annotations={GROUP: "g"})))
    assert note.startswith(
        f"{GROUP}: application job was created by this pod without task groups, which is scheduled without a gang. Set "
    )


def test_a_value_that_is_no_boolean_is_reported_once_per_application() -> None:
    driver, written = live(), {"yunikorn.apache.org/allow-preemption": "no"}
    [(_, note)] = reported_mismatches(driver.see(a_pod("w0", app=APP, annotations=written)))
    assert note.endswith('allow-preemption: "no" has no effect; write "true" or "false"')
    assert reported_mismatches(driver.see(a_pod("w1", app=APP, annotations=written))) == []


def test_a_misspelt_annotation_is_reported_once_per_application() -> None:
    driver = live()
    written = {"yunikorn.apache.org/taskGroups": "[]"}
    out = driver.see(a_pod("w0", app=APP, annotations=written))
    [(_, note)] = reported_mismatches(out)
    assert [one.reason for one in out.commands if isinstance(one, PostEvent)] == ["UnknownAnnotation"]
    assert note == (
        "annotation yunikorn.apache.org/taskGroups has no effect; did you mean yunikorn.apache.org/task-groups?"
    )
    assert reported_mismatches(driver.see(a_pod("w1", app=APP, annotations=written))) == []
