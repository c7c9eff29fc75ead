"""The fields that the webhook sets on a new pod of a managed namespace."""

import copy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from muster_operator.model.names import ANNOTATION_BINDING_SIGNATURE as BINDING
from muster_operator.model.names import INTERNAL_PREFIX
from muster_operator.model.pods import PodRef
from muster_operator.model.settings import Settings
from muster_operator.translate.membership import membership
from muster_operator.webhook.certificates import RETIRE, SETTLE, CertificateRotation, Leaf
from muster_operator.webhook.context import AdmissionAnswer, Operation, Review, Submitter
from muster_operator.webhook.decisions import decide
from tests.unit.operator.webhook.reviews import (
    ALLOW_PREEMPTION,
    ANN,
    APP_ID,
    CONTROLLER,
    KNOWN,
    KUBELET,
    PLACEHOLDER,
    QUEUE,
    SETTINGS,
    USER_INFO,
    WORKLOADS,
    a_description,
    a_pod,
    a_thing,
    creating,
    settings,
    updating,
)

Raw = dict[str, Any]
LEGACY, OLD_QUEUE, SPARK = "applicationId", "queue", "spark-app-selector"
AUTOGEN = "yunikorn-dev-autogen"


def labels_of(pod: Raw | None) -> Raw:
    assert pod is not None
    found: Raw = pod["metadata"]["labels"]
    return found


def annotations_of(pod: Raw | None) -> Raw:
    assert pod is not None
    found: Raw = pod["metadata"]["annotations"]
    return found


@pytest.mark.parametrize("stated", [{}, {"schedulerName": "default-scheduler"}, {"schedulerName": "volcano"}])
def test_the_scheduler_name_is_set_for_any_pod(stated: dict[str, str]) -> None:
    made = creating(a_pod(**stated)).object
    assert made is not None
    assert made["spec"]["schedulerName"] == "muster"


@pytest.mark.parametrize("name", ["muster", "yunikorn"])
def test_a_pod_with_a_managed_scheduler_name_keeps_it(name: str) -> None:
    made = creating(a_pod(schedulerName=name)).object
    assert made is not None
    assert made["spec"]["schedulerName"] == name


def test_a_scheduler_name_that_is_not_served_is_replaced() -> None:
    beside = replace(KNOWN, scheduler_names=frozenset({"muster"}))
    made = creating(a_pod(schedulerName="yunikorn"), known=beside).object
    assert made is not None
    assert made["spec"]["schedulerName"] == "muster"


@pytest.mark.parametrize("owner", ["", "DaemonSet", "ReplicaSet"])
@pytest.mark.parametrize("node", ["", "n1"])
def test_daemon_set_pods_get_the_scheduler_name_and_pods_with_a_node_only_metadata(owner: str, node: str) -> None:
    placed = {"nodeName": node} if node else {}
    made = creating(a_pod(owner=owner, **placed), CONTROLLER).object
    assert made is not None
    assert made["spec"].get("schedulerName") == (None if node else "muster")
    assert made["metadata"]["labels"][APP_ID] == AUTOGEN
    assert made["metadata"]["annotations"][ALLOW_PREEMPTION] == "true"


def test_a_mirror_pod_is_left_unchanged_only_if_a_kubelet_creates_it() -> None:
    mirror = a_pod(annotations={"kubernetes.io/config.mirror": "0123"}, nodeName="n1")
    assert creating(mirror, KUBELET).object is None
    assert annotations_of(creating(mirror, ANN).object)[USER_INFO]


@pytest.mark.parametrize(
    "labels, annotations, added",
    [
        ({}, {}, {APP_ID: AUTOGEN, LEGACY: AUTOGEN}),
        ({APP_ID: "a"}, {}, {LEGACY: "a"}),
        ({APP_ID: "a", LEGACY: "b"}, {}, {}),
        ({}, {APP_ID: "a"}, {}),
        ({LEGACY: "a"}, {}, {}),
        ({SPARK: "a"}, {}, {}),
        ({APP_ID: ""}, {}, {APP_ID: AUTOGEN, LEGACY: AUTOGEN}),
        ({LEGACY: "a", QUEUE: "root.q"}, {}, {OLD_QUEUE: "root.q"}),
        ({LEGACY: "a", QUEUE: "root.q", OLD_QUEUE: "root.p"}, {}, {}),
        ({LEGACY: "a"}, {QUEUE: "root.q"}, {}),
        ({LEGACY: "a", "mine": "stays"}, {}, {}),
    ],
)
def test_missing_id_and_queue_labels_are_added_and_existing_ones_kept(
    labels: dict[str, str], annotations: dict[str, str], added: dict[str, str]
) -> None:
    pod = a_pod(labels=labels, annotations=annotations)
    assert labels_of(creating(pod).object) == {**labels, **added}


@pytest.mark.parametrize("namespace", ["dev", "n" * 63, "n" * 53 + "-x", "n" * 25 + "-" + "x" * 30])
@pytest.mark.parametrize("unique", ["true", "false"])
def test_the_generated_id_equals_the_one_without_admission(namespace: str, unique: str) -> None:
    made = creating(a_pod(), namespace=namespace, how=settings(generateUniqueAppId=unique)).object
    written = labels_of(made)[APP_ID]
    assert len(written) <= 63
    assert "-" not in {written[0], written[-1]}, "no label may end so"
    ref, how = PodRef(namespace, "p", "8a1b" * 9), Settings(unique_app_ids=unique == "true")  # type: ignore[arg-type]  # a plain text is a UID here
    assert made is not None
    assert membership(made["metadata"], ref, how).app == membership({}, ref, how).app


@pytest.mark.parametrize("group", ["train", "g" * 64])
def test_the_id_of_a_pod_of_a_pod_group_is_that_group(group: str) -> None:
    made = creating(a_pod(schedulingGroup={"podGroupName": group})).object
    ref = PodRef("dev", "p", "u")  # type: ignore[arg-type]  # a plain text is a UID here
    assert made is not None
    own = membership({}, ref, Settings(), made["spec"]).app
    assert own == f"dev/{labels_of(made)[APP_ID]}"
    assert own == "dev/train" or group != "train"


@pytest.mark.parametrize("class_says, written", [(True, "true"), (False, "false"), (None, "true")])
@pytest.mark.parametrize("pod_says", ["", "perhaps", "true", "false"])
def test_the_preemption_annotation_defaults_to_the_priority_class(
    pod_says: str, *, class_says: bool | None, written: str
) -> None:
    known = replace(KNOWN, may_be_preempted={} if class_says is None else {"batch": class_says})
    pod = a_pod(annotations={ALLOW_PREEMPTION: pod_says} if pod_says else {}, priorityClassName="batch")
    expected = pod_says if pod_says in {"true", "false"} else written
    assert annotations_of(creating(pod, known=known).object)[ALLOW_PREEMPTION] == expected


def test_without_labelling_only_scheduler_name_and_user_are_written() -> None:
    made = creating(a_pod(labels={APP_ID: "a"}), how=settings(noLabelNamespaces="^dev$")).object
    assert labels_of(made) == {APP_ID: "a"}
    assert annotations_of(made).keys() == {USER_INFO}


def test_pods_in_unmanaged_namespaces_get_no_labels() -> None:
    assert creating(a_pod(), how=settings(bypassNamespaces="dev")).object is None
    named = creating(a_pod(schedulerName="yunikorn"), how=settings(bypassNamespaces="dev")).object
    assert labels_of(named) == {}, "who names us himself is known by his owner and nothing else"


def test_a_stored_pod_is_never_written_to() -> None:
    assert updating(a_pod(), a_pod(labels={"new": "label"})).object is None


@pytest.mark.parametrize("kind", WORKLOADS)
def test_a_template_gets_only_a_user_annotation(kind: str) -> None:
    made = creating(a_thing(kind, a_description())).object
    assert made is not None
    expected = a_thing(
        kind, a_description(annotations={USER_INFO: '{"user":"ann","groups":["dev","system:authenticated"]}'})
    )
    assert made == expected


def test_the_submitted_object_is_not_modified() -> None:
    for kind in ("Pod", *WORKLOADS):
        thing = a_thing(kind, a_description())
        before = copy.deepcopy(thing)
        assert creating(thing).object is not None
        assert thing == before


# -- The placeholder annotation is reserved for Muster, in every notation.

KINDS = ("Pod", *WORKLOADS)
US = Submitter(KNOWN.account, ("system:serviceaccounts",))


def with_annotation(kind: str, value: str = "true", **spec: Any) -> dict[str, Any]:
    return a_thing(kind, a_description(annotations={PLACEHOLDER: value}, **spec))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("submitter", [ANN, CONTROLLER])
@pytest.mark.parametrize("value", ["true", "1", "false", ""])
def test_the_placeholder_annotation_is_rejected_on_creation(kind: str, submitter: Submitter, value: str) -> None:
    refusal = creating(with_annotation(kind, value), submitter).refusal
    assert refusal.endswith(f"metadata.annotations[{PLACEHOLDER}] is written by Muster only: remove it")


@pytest.mark.parametrize("kind", KINDS)
def test_the_placeholder_annotation_is_rejected_on_update(kind: str) -> None:
    assert not updating(a_thing(kind, a_description()), with_annotation(kind)).is_allowed
    assert not updating(with_annotation(kind, "false"), with_annotation(kind, "true")).is_allowed


@pytest.mark.parametrize("entries", [{"bypassAuth": "true"}, {"externalUsers": "ann"}])
def test_no_setting_allows_users_to_create_placeholders(entries: dict[str, str]) -> None:
    assert not creating(with_annotation("Pod"), how=settings(**entries)).is_allowed


def test_placeholders_of_the_operator_are_allowed_unchanged() -> None:
    answer = creating(with_annotation("Pod", schedulerName="muster"), US)
    assert (answer.is_allowed, answer.object) == (True, None)


def test_an_equally_named_account_of_another_namespace_is_not_trusted() -> None:
    other = Submitter("system:serviceaccount:dev:muster-operator")
    assert not creating(with_annotation("Pod"), other).is_allowed


@pytest.mark.parametrize("kind", KINDS)
def test_objects_that_already_have_the_annotation_can_be_updated(kind: str) -> None:
    assert updating(with_annotation(kind), with_annotation(kind, schedulerName="muster")).is_allowed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("submitter", [ANN, CONTROLLER])
def test_the_annotation_can_be_removed_from_a_template_but_not_from_a_stored_pod(
    kind: str, submitter: Submitter
) -> None:
    answer = updating(with_annotation(kind), a_thing(kind, a_description()), submitter)
    assert ("do not remove it" in answer.refusal, answer.is_allowed) == (kind == "Pod", kind != "Pod")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["gang-outcome", "binding-signature", "anything-new", ""])
def test_every_annotation_of_the_internal_prefix_is_written_by_muster_only(kind: str, name: str) -> None:
    key = INTERNAL_PREFIX + name
    written = a_thing(kind, a_description(annotations={key: "resumed"}))
    for submitter in (ANN, CONTROLLER):
        assert key in creating(written, submitter).refusal
        assert key in updating(a_thing(kind, a_description()), written, submitter).refusal
    assert updating(written, written).is_allowed


def test_placeholders_of_another_scheduler_are_allowed() -> None:
    """A YuniKorn next to Muster creates placeholders with the same annotation."""
    nowhere = settings(processNamespaces="^ours$")
    beside = replace(KNOWN, scheduler_names=frozenset({"muster"}))
    assert creating(with_annotation("Pod", schedulerName="yunikorn"), known=beside, how=nowhere).is_allowed
    assert not creating(with_annotation("Pod", schedulerName="muster"), known=beside, how=nowhere).is_allowed


# -- A binding can set neither the user of a pod nor the placeholder annotation.


def binding(written: dict[str, str], submitter: Submitter = CONTROLLER, namespace: str = "dev") -> AdmissionAnswer:
    thing = {"kind": "Binding", "metadata": {"name": "pod", "annotations": written}, "target": {"name": "node"}}
    return decide(Review(Operation.CREATE, "Binding", namespace, "pod", submitter, thing), KNOWN, SETTINGS)


@pytest.mark.parametrize(
    "written", [{USER_INFO: '{"user":"boss"}'}, {USER_INFO: ""}, {PLACEHOLDER: "true"}, {BINDING: ""}]
)
def test_reserved_annotations_on_a_binding_are_rejected_in_managed_namespaces(written: dict[str, str]) -> None:
    answer = binding(written)
    assert next(iter(written)) in answer.refusal
    assert not answer.is_allowed
    assert binding(written, namespace="kube-system").is_allowed


def test_a_binding_with_other_annotations_is_allowed_unchanged() -> None:
    assert binding({"gpu": "0"}) == AdmissionAnswer()
    assert binding({}) == AdmissionAnswer()


def test_a_binding_of_muster_can_carry_its_signature() -> None:
    assert binding({BINDING: "v1:0:0"}, Submitter(KNOWN.account)) == AdmissionAnswer()


# -- A server never shows a certificate that an API server does not trust yet, or no longer trusts.

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
OLD, NEW, OTHER = b"old", b"new", b"other"


def a_leaf(*authorities: bytes) -> Leaf:
    return Leaf(b"chain", b"key", authorities, NOW + timedelta(days=30))


def serving(leaf: Leaf, existing: tuple[bytes, ...] = ()) -> CertificateRotation:
    """A replica that serves with it, registered."""
    trust = CertificateRotation()
    trust.want(leaf)
    assert trust.to_serve(NOW) is leaf
    trust.record_registered([existing or leaf.authorities] * 2, NOW)
    return trust


def test_the_first_certificate_is_served_immediately_and_then_registered() -> None:
    trust, leaf = CertificateRotation(), a_leaf(NEW)
    assert trust.to_serve(NOW) is None
    trust.want(leaf)
    assert trust.to_serve(NOW) is leaf
    assert trust.authorities_to_register([(), ()], NOW) == (NEW,)


def test_a_new_authority_is_registered_before_its_certificate_is_served() -> None:
    trust, leaf = serving(a_leaf(OLD)), a_leaf(NEW)
    trust.want(leaf)
    assert trust.to_serve(NOW) is None
    assert trust.authorities_to_register([(OLD,), (OLD,)], NOW) == (NEW, OLD)
    trust.record_registered([(NEW, OLD), (OLD,)], NOW + SECOND)  # one registration of two could be written
    assert trust.to_serve(NOW + SETTLE + SECOND) is None
    trust.record_registered([(NEW, OLD)] * 2, NOW + 2 * SECOND)
    assert trust.to_serve(NOW + SETTLE) is None
    assert trust.to_serve(NOW + SETTLE + 2 * SECOND) is leaf
    assert trust.to_serve(NOW + SETTLE + 3 * SECOND) is None


def test_a_renewed_certificate_of_the_same_authorities_is_served_immediately() -> None:
    trust, renewed = serving(a_leaf(OLD)), a_leaf(OLD)
    later = NOW + timedelta(days=20)
    trust.record_registered([(OLD,)] * 2, later)
    trust.want(renewed)
    assert trust.to_serve(later) is renewed


def test_an_old_authority_stays_registered_until_the_retirement_delay_has_passed() -> None:
    trust = serving(a_leaf(NEW), (NEW, OLD))
    assert trust.authorities_to_register([(NEW, OLD)] * 2, NOW) == (NEW, OLD)
    assert trust.authorities_to_register([(NEW, OLD)] * 2, NOW + RETIRE - SECOND) == (NEW, OLD)
    assert trust.authorities_to_register([(NEW, OLD)] * 2, NOW + RETIRE) == (NEW,)


def test_a_deleted_registration_keeps_all_trusted_authorities() -> None:
    trust = serving(a_leaf(NEW))
    assert trust.authorities_to_register([(NEW, OLD), ()], NOW) == (NEW, OLD)


def test_an_authority_that_was_unregistered_must_settle_again() -> None:
    trust, leaf = serving(a_leaf(OLD)), a_leaf(NEW)
    trust.want(leaf)
    trust.record_registered([(NEW, OLD)] * 2, NOW)
    trust.record_registered([(OLD,)] * 2, NOW + SECOND)
    trust.record_registered([(NEW, OLD)] * 2, NOW + 2 * SECOND)
    assert trust.to_serve(NOW + SETTLE + SECOND) is None
    assert trust.to_serve(NOW + SETTLE + 2 * SECOND) is leaf


def test_authorities_registered_by_others_are_left_unchanged() -> None:
    trust = serving(a_leaf())
    assert trust.authorities_to_register([(OTHER,)] * 2, NOW) == ()
    replaced = a_leaf()
    trust.want(replaced)
    assert trust.to_serve(NOW) is replaced
