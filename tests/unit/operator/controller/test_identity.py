"""An application is a namespace and an ID: pods of other namespaces neither join, end nor take over an application."""

from muster_operator.controller import recovery
from muster_operator.controller.state import Ledger
from muster_operator.model.commands import DeletePod, FailPod, MarkResumed, Outcome, SetCondition
from muster_operator.model.core_messages import ApplicationSubmitted
from muster_operator.model.ids import AppId
from muster_si import keys
from tests.unit.operator.controller.driver import SHARED, SHARING, Driver, live, orders, whole
from tests.unit.operator.controller.kubernetes import namespace_seen, seen
from tests.unit.operator.controller.objects import QUEUE, Raw, a_group, a_namespace, a_pod, gang_annotations
from tests.unit.operator.model.signing import KEYS

AUTOGEN = "yunikorn-dev-autogen"
HARD = "gangSchedulingStyle=Hard"
RESUMED = {"internal.yunikorn.apache.org/gang-outcome": "resumed"}


def in_other(raw: Raw, queue: str = "") -> Raw:
    """The same pod in the namespace ``other``."""
    raw["metadata"]["namespace"] = "other"
    if queue:
        raw["metadata"]["labels"][QUEUE] = queue
    return raw


def of_both() -> Driver:
    driver = live()
    driver.fact(namespace_seen(a_namespace("other")))
    return driver


def submitted(out: Outcome) -> list[str]:
    return [item.spec.app for item in out.requests if isinstance(item, ApplicationSubmitted)]


def test_pods_of_two_namespaces_with_the_same_id_form_two_applications() -> None:
    driver = of_both()
    assert submitted(driver.see(a_pod("w0", app="job"))) == ["dev/job"]
    assert submitted(driver.see(in_other(a_pod("x0", app="job"), "root.x"))) == ["other/job"]
    assert [app.queue for app in driver.ledger.applications.values()] == ["", "root.x"]


def test_another_namespace_cannot_take_over_the_application_of_pods_without_an_id() -> None:
    driver = of_both()
    driver.see(in_other(a_pod("evil", app=AUTOGEN), "root.x"))
    assert submitted(driver.see(a_pod("victim"))) == [f"dev/{AUTOGEN}"]
    assert driver.ledger.applications[AppId(f"dev/{AUTOGEN}")].queue == ""


def test_a_failing_application_does_not_fail_pods_of_another_namespace() -> None:
    driver = of_both()
    evil = AppId(f"other/{AUTOGEN}")
    driver.see(in_other(a_pod("evil", app=AUTOGEN, annotations=gang_annotations(a_group(), parameters=HARD))))
    driver.accepted(evil)
    driver.see(a_pod("victim"))
    ended = driver.updated(keys.APP_FAILING, app=evil)
    recent_names = [c for c in orders(ended) if isinstance(c, FailPod | DeletePod | SetCondition | MarkResumed)]
    assert {command.pod.namespace for command in recent_names if isinstance(command, FailPod)} == {"other"}
    assert not any("victim" in str(command) for command in recent_names)


def test_a_pod_of_another_namespace_cannot_take_over_an_application_at_a_restart() -> None:
    ledger = Ledger(keys=KEYS)
    driver = Driver(ledger)
    driver.fact(namespace_seen(a_namespace()))
    driver.fact(namespace_seen(a_namespace("other")))
    gang = gang_annotations(a_group())
    driver.fact(seen(a_pod("driver", app="job", annotations=gang)))
    driver.fact(seen(in_other(a_pod("a-evil", app="job", annotations=RESUMED), "root.x")))
    whole(recovery.begin(ledger, 1.0))
    app = ledger.applications[AppId("dev/job")]
    assert (app.originator.ref.name, app.queue, app.gang is not None) == ("driver", "", True)


def test_namespaces_of_a_sharing_group_share_an_application_and_others_do_not() -> None:
    driver = live(settings=SHARING)
    for name in ("other", "third"):
        driver.fact(namespace_seen(a_namespace(name)))
    assert submitted(driver.see(a_pod("w0", app="job"))) == [SHARED]
    assert submitted(driver.see(in_other(a_pod("w1", app="job")))) == []
    third = a_pod("w2", app="job")
    third["metadata"]["namespace"] = "third"
    assert submitted(driver.see(third)) == ["third/job"]
    assert sorted(driver.ledger.applications[SHARED].members) == ["uid-w0", "uid-w1"]


def test_the_core_receives_the_plain_id() -> None:
    submission, _ = live().see(a_pod("w0", app="job")).requests
    assert isinstance(submission, ApplicationSubmitted)
    assert (submission.spec.app, submission.spec.tags[keys.APP_TAG_APPLICATION_ID]) == ("dev/job", "job")


def test_an_id_with_a_slash_is_split_only_at_the_first_slash() -> None:
    raw = a_pod("w0")
    raw["metadata"]["annotations"]["yunikorn.apache.org/app-id"] = "team/job"
    driver = live()
    driver.see(raw)
    [app] = driver.ledger.applications.values()
    assert (app.id, app.name) == ("dev/team/job", "team/job")
