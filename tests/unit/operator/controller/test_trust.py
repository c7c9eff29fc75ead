"""What users cannot write: placeholders and outcomes count only with Muster's signature."""

import copy
from collections.abc import Callable

import pytest

from muster_operator.controller import recovery
from muster_operator.controller.state import Ledger
from muster_operator.model import names
from muster_operator.model.cluster_events import KeysSeen
from muster_operator.model.commands import CreatePlaceholder, DeletePod
from muster_operator.model.core_messages import ApplicationRemoved, NodeCreated
from muster_operator.model.ids import PodUid
from muster_operator.model.signing import SigningKeys
from muster_operator.model.states import AppState
from muster_si import keys
from tests.unit.operator.controller.driver import APP, Driver, events, live, orders, requested_keys, whole
from tests.unit.operator.controller.kubernetes import SETTINGS, node_seen
from tests.unit.operator.controller.objects import APP_ID, TASK_GROUP_NAME, Raw, a_container, a_node, a_pod
from tests.unit.operator.controller.test_recovery import a_member, gathered, older, placeholder, recovered
from tests.unit.operator.model.signing import KEYS, OTHER_KEYS, sign_outcome, sign_placeholder

ORDINAL, REQUESTS = names.ANNOTATION_PLACEHOLDER_ORDINAL, names.ANNOTATION_PLACEHOLDER_REQUESTS


def change_requests(raw: Raw) -> None:
    raw["spec"]["containers"] = [a_container("pause", cpu="2", memory="1Gi")]
    raw["metadata"]["annotations"][REQUESTS] = '{"cpu": "2", "memory": "1Gi"}'


FORGERIES: dict[str, Callable[[Raw], object]] = {
    "name": lambda raw: raw["metadata"].update(name="ph9"),
    "namespace": lambda raw: raw["metadata"].update(namespace="other"),
    "owner": lambda raw: raw["metadata"]["ownerReferences"][0].update(uid="uid-w1"),
    "application": lambda raw: raw["metadata"]["labels"].update({APP_ID: "another"}),
    "group": lambda raw: raw["metadata"]["annotations"].update({TASK_GROUP_NAME: "h"}),
    "ordinal": lambda raw: raw["metadata"]["annotations"].update({ORDINAL: "1"}),
    "requests": change_requests,
    "no signature": lambda raw: raw["metadata"]["annotations"].pop(names.ANNOTATION_PLACEHOLDER_SIGNATURE),
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_a_pod_with_a_copied_signature_is_not_a_placeholder(forge: Callable[[Raw], object]) -> None:
    """With the mark, the owner, the field manager and a signature of another pod, a pod is not scheduled."""
    forged = placeholder("ph0")
    forged["metadata"]["managedFields"] = [{"manager": "muster-placeholder"}]
    forge(forged)
    driver = gathered(a_member("w0"), forged)
    out = whole(recovery.begin(driver.ledger, 0.0))
    assert not [command for command in out.commands if isinstance(command, DeletePod)]
    pod = driver.ledger.pods[forged["metadata"]["uid"]]
    assert not pod.membership.placeholder
    assert "Muster did not sign this pod" in pod.membership.refusal
    assert pod.ref.uid not in driver.ledger.tasks


def test_a_forged_placeholder_does_not_choose_the_originator() -> None:
    forged = placeholder("ph0")
    forged["metadata"]["ownerReferences"][0]["uid"] = "uid-evil"
    driver = gathered(older(a_member("w0"), 30), a_member("evil"), forged)
    recovered(driver)
    assert driver.ledger.applications[APP].originator.ref.name == "w0"


@pytest.mark.parametrize("signer", [None, OTHER_KEYS])
def test_an_annotation_written_by_a_user_does_not_choose_the_originator(signer: SigningKeys | None) -> None:
    evil = a_member("evil")
    if signer is None:
        evil["metadata"]["annotations"][names.ANNOTATION_GANG_OUTCOME] = names.GANG_RESUMED
    else:
        sign_outcome(evil, signer)
    driver = gathered(older(a_member("w0"), 30), evil)
    recovered(driver)
    app = driver.ledger.applications[APP]
    assert (app.originator.ref.name, app.gang is None) == ("w0", False)


def unknown(name: str, **spec: object) -> Raw:
    """A placeholder that was signed with a key that is not known."""
    return sign_placeholder(placeholder(name, **spec), OTHER_KEYS)


def test_a_placeholder_of_an_unknown_key_uses_quota_and_is_neither_adopted_nor_deleted() -> None:
    driver = gathered(a_member("w0"), unknown("ph0", nodeName="n1"), unknown("ph1"))
    begun = whole(recovery.begin(driver.ledger, 0.0))
    reported = [event for event in events(begun) if event[1] == "TaskRejected"]
    assert [name for name, *_ in reported] == ["ph0", "ph1"]
    nodes, asks, _ = recovered(driver)
    created = nodes.requests[0]
    assert isinstance(created, NodeCreated)
    [reported_pods] = [one.ask for one in created.existing]
    assert (reported_pods.key, reported_pods.app, reported_pods.placeholder, reported_pods.task_group) == (
        "uid-ph0",
        APP,
        False,
        "",
    )
    assert reported_pods.tags[keys.TAG_UNVERIFIED] == "true"
    assert driver.ledger.applications[APP].state is AppState.RESERVING
    assert requested_keys(asks) == []
    assert [type(command) for command in orders(asks)] == [CreatePlaceholder, CreatePlaceholder]
    assert driver.ledger.unverified == {"uid-ph0", "uid-ph1"}
    assert driver.gone("ph0").requests
    assert driver.ledger.unverified == {"uid-ph1"}


def unsigned(name: str, **spec: object) -> Raw:
    """A placeholder of a version that did not sign."""
    raw = placeholder(name, **spec)
    for key in (names.ANNOTATION_PLACEHOLDER_SIGNATURE, ORDINAL, REQUESTS):
        raw["metadata"]["annotations"].pop(key)
    return raw


def test_unsigned_placeholders_send_no_request_and_use_quota_if_bound() -> None:
    driver = gathered(a_member("w0"), a_member("w1"), unsigned("a0", nodeName="n1"), unsigned("ph1"))
    nodes, asks, _ = recovered(driver)
    reported = [
        (one.ask.key, one.ask.app) for item in nodes.requests if isinstance(item, NodeCreated) for one in item.existing
    ]
    assert reported == [("uid-a0", APP)]
    assert driver.ledger.applications[APP].originator.ref.name == "w0"
    assert requested_keys(asks) == []
    assert driver.ledger.applications[APP].state is AppState.RESERVING
    assert [type(command) for command in orders(asks)] == [CreatePlaceholder, CreatePlaceholder]
    assert not requested_keys(driver.see(unsigned("ph2")))
    assert "uid-ph2" not in driver.ledger.tasks


def stripped(name: str, **spec: object) -> Raw:
    """A placeholder from which its user took all annotations and the owner reference; its name and spec stay."""
    raw = placeholder(name, **spec)
    raw["metadata"] |= {"name": f"tg-job-g-{name}", "annotations": {}, "ownerReferences": []}
    return raw


def test_a_bound_placeholder_without_annotations_uses_quota_and_does_not_start_its_gang() -> None:
    driver = gathered(a_member("w0"), a_member("w1"), stripped("a0", nodeName="n1"), stripped("ph1"))
    nodes, asks, _ = recovered(driver)
    reported = [one.ask for item in nodes.requests if isinstance(item, NodeCreated) for one in item.existing]
    assert [(ask.key, ask.app, ask.tags[keys.TAG_UNVERIFIED]) for ask in reported] == [("uid-a0", APP, "true")]
    assert driver.ledger.applications[APP].state is AppState.RESERVING
    assert requested_keys(asks) == []
    assert "Muster did not sign" in driver.ledger.pods[PodUid("uid-ph1")].membership.refusal


@pytest.mark.parametrize("make", [unknown, unsigned, stripped])
def test_a_bound_pod_without_a_valid_signature_does_not_become_the_originator(make: Callable[..., Raw]) -> None:
    driver = gathered(a_member("w0"), older(make("ph0", nodeName="n1"), 30), a_member("w1"))
    recovered(driver)
    driver.gone("w0")
    assert driver.ledger.applications[APP].originator.ref.name == "w1"
    out = driver.gone("w1")
    assert [item for item in out.requests if isinstance(item, ApplicationRemoved)]
    app = driver.ledger.runs[APP]
    assert (app.gang, list(app.members)) == (None, ["uid-ph0"])
    assert [command for command in orders(out) if isinstance(command, CreatePlaceholder)] == []


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_of_an_unknown_key_uses_no_quota(phase: str) -> None:
    raw = unknown("ph0", nodeName="n1")
    raw["status"] = {"phase": phase}
    nodes, _, _ = recovered(gathered(a_member("w0"), raw))
    assert [item.existing for item in nodes.requests if isinstance(item, NodeCreated)] == [()]


def test_placeholders_of_an_unknown_key_are_verified_when_the_key_becomes_known() -> None:
    """Its gang no longer waits for it: it is deleted, and its resources are released."""
    driver = live()
    driver.fact(node_seen(a_node("n1")))
    driver.see(a_pod("w0", app=APP))
    driver.accepted()
    assert not orders(driver.see(unknown("ph0", nodeName="n1")))
    out = driver.fact(KeysSeen(SigningKeys("muster", [b"n" * 32, b"a key that no Muster of a test has"])))
    assert [command.pod.name for command in out.commands if isinstance(command, DeletePod)] == ["ph0"]
    assert driver.ledger.unverified == set()


def test_placeholders_of_the_previous_key_are_adopted() -> None:
    driver = gathered(a_member("w0"), placeholder("ph0", nodeName="n1"), placeholder("ph1"))
    driver.fact(KeysSeen(SigningKeys("muster", [b"n" * 32, b"a key that signs in all the tests"])))
    _, asks, _ = recovered(driver)
    assert requested_keys(asks) == ["uid-ph1"]
    assert orders(asks) == []


def test_placeholders_are_created_only_when_keys_exist() -> None:
    driver = live()
    driver.ledger.keys = None
    driver.see(a_member("w0"))
    out = driver.accepted()
    assert orders(out) == []
    assert ("w0", "PlaceholderCreateFailed", "PlaceholderCreateFailed") in events(out)
    created = [one for one in driver.fact(KeysSeen(KEYS)).commands if isinstance(one, CreatePlaceholder)]
    assert len(created) == 2
    assert all(one.spec.signature for one in created)


def test_keys_received_after_the_pods_are_used_in_the_recovery() -> None:
    """A new leader reads the Secret while the pods are read already."""
    driver = Driver(Ledger(SETTINGS))
    for raw in (a_member("w0"), placeholder("ph0", nodeName="n1"), placeholder("ph1")):
        assert not driver.see(copy.deepcopy(raw))
    driver.fact(node_seen(a_node("n1")))
    assert driver.ledger.unverified == {"uid-ph0", "uid-ph1"}
    driver.fact(KeysSeen(KEYS))
    _, asks, _ = recovered(driver)
    assert (requested_keys(asks), orders(asks), driver.ledger.unverified) == (["uid-ph1"], [], set())
