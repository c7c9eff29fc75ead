"""The log line and metric of a failure have the kind of the item and the name of its object, never the object."""

import pytest

from muster_operator.controller.isolation import isolate, subject_of
from muster_operator.controller.state import Deadline, TimerKind
from muster_operator.model.cluster_events import ClaimGone, NamespaceSeen, NodeSeen, ObjectSeen, PodGone, PodSeen
from muster_operator.model.commands import CommandUnanswered, Outcome
from muster_operator.model.core_messages import Allocated, ApplicationUpdated, CoreEvent, EventKind
from muster_operator.model.ids import AllocationId, AppId, NodeName, PodUid
from muster_operator.model.settings import Settings
from muster_operator.model.storage import ClusterObject, ObjectKind
from muster_operator.runtime.inputs import object_name
from muster_operator.translate.nodes import read_namespace, read_node
from muster_operator.translate.pods import read_pod
from tests.unit.operator.controller.driver import APP, live, waiting
from tests.unit.operator.controller.objects import Raw, a_namespace, a_node, a_pod
from tests.unit.operator.kube.commands import a_bind, a_create

SECRET = "what-only-its-user-may-read"


def a_secret_pod() -> Raw:
    return a_pod("p", containers=[{"name": SECRET, "env": [{"name": "TOKEN", "value": SECRET}]}], queue=SECRET)


def pod_seen() -> PodSeen:
    pod = read_pod(a_secret_pod(), Settings())
    assert pod is not None
    return PodSeen(pod)


def node_seen() -> NodeSeen:
    node = read_node(a_node("n1", labels={"x": SECRET}), Settings())
    assert node is not None
    return NodeSeen(node)


def namespace_seen() -> NamespaceSeen:
    namespace = read_namespace(a_namespace("dev", parentqueue=SECRET))
    assert namespace is not None
    return NamespaceSeen(namespace)


@pytest.mark.parametrize(
    "item, subject",
    [
        (pod_seen(), "uid-p"),
        (pod_seen().pod, "uid-p"),
        (PodGone(PodUid("uid-p")), "uid-p"),
        (node_seen(), "n1"),
        (namespace_seen(), "dev"),
        (ClaimGone("dev/claim"), "dev/claim"),
        (ObjectSeen(ClusterObject(ObjectKind.STORAGE_CLASS, "fast", {"x": SECRET})), "fast"),
        (CommandUnanswered(a_create()), APP),
        (CommandUnanswered(a_bind()), "uid-p"),
        (Allocated(APP, PodUid("uid-p"), NodeName("n1"), AllocationId("x")), "uid-p"),
        (ApplicationUpdated(APP, "Running", SECRET), APP),
        (CoreEvent(EventKind.NODE, "n1", "", SECRET), "n1"),
        (Deadline(1.0, TimerKind.GANG, APP), APP),
        ((NodeName("n1"), SECRET), "n1"),
        (3, ""),
    ],
)
def test_an_item_is_about_its_pod_application_or_object(item: object, subject: str) -> None:
    if subject == APP and isinstance(item, CommandUnanswered):
        subject = a_create().spec.app
    assert subject_of(item) == subject


def test_a_failure_names_the_pod_or_application_and_nothing_else_of_it() -> None:
    driver, out = live(), Outcome()
    waiting(driver, "w0")

    def failing(*_: object) -> None:
        raise ValueError(SECRET)

    for item in (driver.ledger.tasks[PodUid("uid-w0")], driver.ledger.applications[APP], AppId("dev/gone")):
        assert not isolate(failing, driver.ledger, out, item, 0.0)
    assert [(one.kind, one.name) for one in out.failures] == [
        ("Task", "dev/w0"),
        ("Application", APP),
        ("str", "dev/gone"),
    ]
    assert SECRET not in str(out.commands)


def test_an_unreadable_object_is_named_by_its_namespace_and_name() -> None:
    assert object_name(a_secret_pod()) == "dev/p"
