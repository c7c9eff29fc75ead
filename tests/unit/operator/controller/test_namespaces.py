"""Namespaces and pods arrive on separate watches, and a deleted namespace ends its gangs."""

from muster_operator.controller import recovery
from muster_operator.controller.reporting import EVENT_TTL_S
from muster_operator.model import limits
from muster_operator.model.cluster_events import NamespaceGone
from muster_operator.model.commands import CreatePlaceholder, Outcome, PostEvent
from muster_operator.model.core_messages import (
    ApplicationAccepted,
    ApplicationResponse,
    ApplicationSubmitted,
    AskSubmitted,
    ClusterObjectReported,
)
from muster_operator.model.ids import AppId
from muster_operator.model.storage import ClusterObject, ObjectKind
from muster_operator.translate.placeholders import placeholder_body
from muster_si import keys
from tests.unit.operator.controller.driver import (
    APP,
    SHARED,
    SHARING,
    Driver,
    events,
    live,
    orders,
    refused,
    requested_keys,
    waiting,
    whole,
)
from tests.unit.operator.controller.kubernetes import SETTINGS, namespace_seen
from tests.unit.operator.controller.objects import QUEUE, Raw, a_group, a_namespace, a_pod, gang_annotations

TWO_CPUS = '{"cpu": "2"}'
TAG, RENEWAL = "namespace.resourcequota", "muster/namespace-changed"
#: What a pod of the namespace ``new`` belongs to.
NEW = AppId("new/job")


def in_new(name: str = "w0", **annotations: str) -> Raw:
    """A pod of the namespace ``new``."""
    raw = a_pod(name, app=NEW, annotations=annotations)
    raw["metadata"]["namespace"] = "new"
    return raw


def in_other(name: str) -> Raw:
    """A pod of the other namespace of a sharing group."""
    raw = a_pod(name, app=SHARED)
    raw["metadata"]["namespace"] = "other"
    return raw


def tags(out: Outcome) -> list[dict[str, str]]:
    """Of the applications that were submitted."""
    return [dict(item.spec.tags) for item in out.requests if isinstance(item, ApplicationSubmitted)]


def leaving(name: str) -> Raw:
    raw = a_namespace(name)
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return raw


def reserving() -> tuple[Driver, list[CreatePlaceholder]]:
    """A gang of three whose placeholders are being created."""
    driver = live()
    driver.see(a_pod("w0", app=APP, annotations=gang_annotations(a_group())))
    return driver, [order for order in orders(driver.accepted()) if isinstance(order, CreatePlaceholder)]


def test_an_application_waits_for_its_namespace_and_has_its_quota() -> None:
    driver = live()
    assert not driver.see(in_new())
    assert not driver.see(in_new("w1"))
    out = driver.fact(namespace_seen(a_namespace("new", namespace_quota=TWO_CPUS)))
    [found] = tags(out)
    assert TAG in found
    assert requested_keys(driver.accepted(NEW)) == ["uid-w0", "uid-w1"]
    assert not driver.wait(60)


def test_an_application_whose_namespace_does_not_come_is_submitted_after_five_seconds() -> None:
    driver = live()
    driver.see(in_new())
    assert not driver.wait(4.9)
    [found] = tags(driver.wait(0.2))
    assert TAG not in found
    [renewal] = tags(driver.fact(namespace_seen(a_namespace("new", namespace_quota=TWO_CPUS))))
    assert (TAG in renewal, renewal[RENEWAL]) == (True, "true")


def test_a_changed_quota_is_reported_once_for_each_queue_and_user() -> None:
    driver = live()
    for name in ("one", "two", "three"):
        raw = a_pod(name, app=name)
        raw["metadata"]["labels"][QUEUE] = "root.a" if name == "three" else "root.b"
        driver.see(raw)
        driver.accepted(AppId(f"dev/{name}"))
    changed = driver.fact(namespace_seen(a_namespace(namespace_quota=TWO_CPUS)))
    assert [found[RENEWAL] for found in tags(changed)] == ["true", "true"]
    assert not driver.fact(namespace_seen(a_namespace(namespace_quota=TWO_CPUS)))
    [removed, _] = tags(driver.fact(namespace_seen(a_namespace())))
    assert TAG not in removed


def test_an_annotation_that_becomes_invalid_is_reported_and_the_old_quota_stays() -> None:
    driver = live()
    driver.fact(namespace_seen(a_namespace(namespace_quota=TWO_CPUS)))
    waiting(driver)
    bad = namespace_seen(a_namespace(namespace_quota="2 CPUs"))
    out = driver.fact(bad)
    assert events(out) == [("dev", "InvalidAnnotation", "InvalidAnnotation")]
    assert out.requests == []
    assert not driver.fact(bad)


def test_an_application_does_not_start_when_another_namespace_appears() -> None:
    driver = live()
    driver.see(in_new())
    assert not tags(driver.fact(namespace_seen(a_namespace("other"))))


def test_a_pod_of_a_terminating_namespace_waits_for_the_recreated_one() -> None:
    driver = live()
    driver.fact(namespace_seen(leaving("new")))
    assert not driver.see(in_new())
    assert not tags(driver.fact(NamespaceGone("new")))
    [found] = tags(driver.fact(namespace_seen(a_namespace("new", namespace_quota=TWO_CPUS))))
    assert TAG in found


def test_pods_that_are_deleted_before_their_namespace_appears_leave_no_state() -> None:
    driver = live()
    driver.see(in_new())
    assert not driver.gone("w0")
    assert driver.ledger.applications == {}
    assert not driver.wait(60)


def test_bad_quotas_are_ignored_and_reported_once_within_the_event_lifetime() -> None:
    driver = live()
    driver.fact(namespace_seen(a_namespace("new", namespace_quota='{"memory": "much"}', namespace_guaranteed="[")))
    out = driver.see(in_new())
    assert events(out) == [("w0", "InvalidAnnotation", "InvalidAnnotation")]
    assert TAG not in tags(out)[0]
    other = in_new("o0")
    other["metadata"]["labels"] = {"applicationId": "other"}
    assert events(driver.see(other)) == []
    assert events(driver.see(in_new("w1"))) == []


def test_a_gang_of_a_terminating_namespace_is_neither_reported_nor_given_up() -> None:
    driver, creates = reserving()
    error = "pods is forbidden: unable to create new content in namespace dev because it is being terminated"
    for create in creates:
        assert not driver.result(refused(create, 403, error))
    driver.fact(namespace_seen(leaving("dev")))
    assert not driver.wait(600)
    driver.gone("w0")
    assert driver.ledger.applications == {}


def test_a_placeholder_that_is_deleted_with_its_namespace_is_not_created_again() -> None:
    driver, creates = reserving()
    raw = placeholder_body(creates[0].spec, SETTINGS)
    raw["metadata"] |= {"uid": "uid-ph", "managedFields": [{"manager": "muster-placeholder", "operation": "Update"}]}
    raw["status"] = {"phase": "Pending"}
    driver.see(raw)
    driver.fact(namespace_seen(leaving("dev")))
    assert orders(driver.gone("ph")) == []


def test_a_state_update_for_an_application_that_was_not_submitted_yet_is_ignored() -> None:
    driver = live()
    driver.see(in_new())
    assert not driver.updated("Running", app=NEW)
    assert not driver.ledger.applications[NEW].core_is_running


def test_a_gang_whose_placeholder_creation_is_forbidden_is_reported_and_given_up() -> None:
    driver, creates = reserving()
    out = driver.result(refused(creates[0], 403, "exceeded quota: pods=10"))
    assert ("w0", "GangScheduling", "PlaceholderCreateFailed") in events(out)


def facts(out: Outcome) -> list[ClusterObject]:
    return [item.fact for item in out.requests if isinstance(item, ClusterObjectReported)]


def test_namespace_labels_are_sent_before_applications_on_changes_and_on_deletion() -> None:
    """Selectors of other pods read them."""
    driver = live()
    driver.see(in_new())
    raw = a_namespace("new")
    raw["metadata"]["labels"] = {"team": "a"}
    appeared = driver.fact(namespace_seen(raw))
    assert [type(item) for item in appeared.requests] == [ClusterObjectReported, ApplicationSubmitted, AskSubmitted]
    labelled = ClusterObject(ObjectKind.NAMESPACE, "new", {"team": "a"})
    assert facts(appeared) == [labelled]
    assert not driver.fact(namespace_seen(raw))
    [first, *_] = whole(recovery.begin(driver.ledger, driver.now)).requests
    assert isinstance(first, ClusterObjectReported)
    driver = live()
    driver.fact(namespace_seen(raw))
    raw["metadata"]["labels"] = {}
    assert facts(driver.fact(namespace_seen(raw))) == [ClusterObject(ObjectKind.NAMESPACE, "new")]
    assert facts(driver.fact(NamespaceGone("new"))) == [ClusterObject(ObjectKind.NAMESPACE, "new", gone=True)]
    assert not driver.fact(NamespaceGone("new"))


def test_a_pod_in_another_namespace_than_its_application_waits_for_its_own_namespace() -> None:
    driver = live(settings=SHARING)
    waiting(driver, app=SHARED)
    assert not requested_keys(driver.see(in_other("w1")))
    assert requested_keys(driver.fact(namespace_seen(a_namespace("other")))) == ["uid-w0", "uid-w1"]
    assert requested_keys(driver.see(in_other("w2"))) == ["uid-w2"]


def test_a_pod_whose_namespace_does_not_appear_is_requested_after_five_seconds() -> None:
    driver = live(settings=SHARING)
    waiting(driver, app=SHARED)
    driver.see(in_other("w1"))
    assert not requested_keys(driver.wait(4.9))
    assert requested_keys(driver.wait(0.2)) == ["uid-w0", "uid-w1"]
    assert not driver.fact(NamespaceGone("other"))


# -- Pods that name another queue, user or namespace than their application: each is reported once.

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
    driver.now += EVENT_TTL_S
    again = driver.updated(keys.APP_ACCEPTED, texts[0], AppId("dev/app4"))
    assert reported_mismatches(again) == [("p4", texts[0])]
    for number in range(limits.REPORTED_IN_NAMESPACES):
        driver.updated(keys.APP_ACCEPTED, str(number), AppId("dev/app0"))
    assert [text for _, text in driver.ledger.reported_in_namespace] == [
        str(n) for n in range(limits.REPORTED_IN_NAMESPACES)
    ]


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
    assert note.startswith(f'annotation {USER} is ignored: "user" is missing or empty')
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
