"""The fields that the webhook sets on a new pod of a managed namespace."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from muster_operator.model.pods import PodRef
from muster_operator.model.settings import Settings
from muster_operator.translate.membership import membership
from tests.unit.operator.webhook.reviews import (
    ALLOW_PREEMPTION,
    ANN,
    APP_ID,
    CONTROLLER,
    KNOWN,
    KUBELET,
    QUEUE,
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
