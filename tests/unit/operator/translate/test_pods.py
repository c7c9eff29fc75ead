"""A raw pod becomes the specification that the controller uses."""

import json
from typing import Any

import pytest

from muster_operator.model.errors import BadInputError
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.pods import Condition, ForeignPod, PlaceholderClaim, Pod, PodPhase, UserInfo
from muster_operator.model.settings import Settings
from muster_operator.translate.pods import pod_resources, read_pod
from muster_si import keys
from tests.unit.operator.controller.objects import APP_ID, CREATED_S, QUEUE, Raw, a_container, a_pod

LEGACY, SPARK = "applicationId", "spark-app-selector"


def own(raw: Raw, settings: Settings | None = None) -> Pod:
    pod = read_pod(raw, settings or Settings())
    assert isinstance(pod, Pod)
    return pod


def labelled(labels: dict[str, str], annotations: dict[str, str] | None = None) -> Pod:
    raw = a_pod(annotations=annotations)
    raw["metadata"]["labels"] = labels
    return own(raw)


def test_a_pod_without_name_or_uid_is_ignored() -> None:
    assert read_pod({}, Settings()) is None
    assert read_pod({"metadata": {"name": "x"}}, Settings()) is None


@pytest.mark.parametrize("name", ["muster", "yunikorn"])
def test_pods_with_either_scheduler_name_are_managed(name: str) -> None:
    assert own(a_pod(schedulerName=name)).scheduler_name == name


def test_other_scheduler_names_are_foreign() -> None:
    pod = read_pod(a_pod(schedulerName="default-scheduler", nodeName="n1"), Settings())
    assert isinstance(pod, ForeignPod)
    assert (pod.node, pod.kind, dict(pod.resources)) == ("n1", "default", {"vcore": 1000, "memory": 2**30, "pods": 1})


def test_a_mirror_pod_is_static() -> None:
    raw = a_pod(schedulerName="default-scheduler")
    raw["metadata"]["ownerReferences"] = [{"kind": "Node", "name": "n1"}]
    pod = read_pod(raw, Settings())
    assert isinstance(pod, ForeignPod)
    assert pod.kind == "static"


def test_a_foreign_pod_with_unreadable_requests_still_counts_as_one_pod() -> None:
    pod = read_pod(a_pod(schedulerName="x", containers=[a_container(cpu="?")]), Settings())
    assert pod is not None
    assert dict(pod.resources) == {"pods": 1}


@pytest.mark.parametrize(
    "labels, annotations, app",
    [
        ({APP_ID: "a", LEGACY: "c", SPARK: "d"}, {APP_ID: "b"}, "a"),
        ({LEGACY: "c", SPARK: "d"}, {APP_ID: "b"}, "b"),
        ({LEGACY: "c", SPARK: "d"}, {}, "c"),
        ({SPARK: "d"}, {}, "d"),
        ({APP_ID: ""}, {}, "yunikorn-dev-autogen"),
        ({APP_ID: "run-uniqueautogen"}, {}, "run-uid-pod"),
    ],
)
def test_the_application_id_is_read_from_labels_and_annotations_in_order(
    labels: dict[str, str], annotations: dict[str, str], app: str
) -> None:
    assert labelled(labels, annotations).membership.app == f"dev/{app}"


def test_ignored_labels_and_annotations_are_listed_as_conflicts() -> None:
    member = labelled({APP_ID: "a", LEGACY: "a", SPARK: "d", "queue": "q2"}, {QUEUE: "q1"}).membership
    assert member.queue == "q1"
    assert member.conflicts == (
        f"application id: label {SPARK}=d is ignored, label {APP_ID}=a is used",
        f"queue: label queue=q2 is ignored, annotation {QUEUE}=q1 is used",
    )


def test_a_generated_id_is_cut_to_a_labels_length() -> None:
    raw = a_pod()
    raw["metadata"]["namespace"] = "n" * 63
    assert own(raw).membership.app == "n" * 63 + "/yunikorn-" + "n" * 54
    assert own(raw).membership.refusal == ""


def test_unique_ids_are_made_of_namespace_and_uid() -> None:
    raw = a_pod()
    raw["metadata"] |= {"namespace": "n" * 40, "uid": "u" * 36}
    assert own(raw, Settings(unique_app_ids=True)).membership.app == "n" * 40 + "/" + "n" * 26 + "-" + "u" * 36


def test_a_too_long_application_id_is_rejected_with_the_fix() -> None:
    refusal = labelled({}, {APP_ID: "x" * 64}).membership.refusal
    assert "has 64 characters, more than 63; set a shorter yunikorn.apache.org/app-id" in refusal


@pytest.mark.parametrize(
    "annotation, user",
    [
        ('{"USER": "ann", "Groups": ["dev", "", null]}', UserInfo("ann", ("dev",))),
        ('{"user": "bob", "User": "ann"}', UserInfo("ann")),
        ('{"user": "ann", "groups": ["dev", 7]}', UserInfo("nobody")),
        ('{"user": "ann"}', UserInfo("ann")),
        ('{"username": "ann"}', UserInfo("nobody")),
        ('{"user": ""}', UserInfo("nobody")),
        ("[]", UserInfo("nobody")),
        ("{", UserInfo("nobody")),
        ("", UserInfo("nobody")),
    ],
)
def test_the_user_is_read_or_has_a_default(annotation: str, user: UserInfo) -> None:
    assert labelled({}, {"yunikorn.apache.org/user.info": annotation}).membership.user == user


REQUESTS = "internal.yunikorn.apache.org/placeholder-requests"


def a_placeholder(requests: str = '{"cpu": "1"}', **changes: Any) -> Raw:
    annotations = {"internal.yunikorn.apache.org/placeholder": "true", REQUESTS: requests}
    raw = a_pod("ph", app="job", annotations=annotations, containers=[a_container("pause", cpu="1", memory="1Gi")])
    raw["metadata"] |= {
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "w0", "uid": "uid-w0"}],
        **changes,
    }
    return raw


@pytest.mark.parametrize("requests", ['{"cpu": "1"}', '{"cpu": "1000m", "memory": "1024Mi"}', "{}"])
def test_an_unverified_placeholder_annotation_is_read_but_grants_nothing(requests: str) -> None:
    """A LimitRange may add requests that were not signed."""
    member = own(a_placeholder(requests)).membership
    assert member.claim == PlaceholderClaim(PodUid("uid-w0"), requests)
    assert (member.placeholder, member.owner, member.conflicts) == (False, None, ())


@pytest.mark.parametrize(
    "requests, other", [('{"cpu": "2"}', '{"cpu":"1"}'), ('{"cpu": "1", "gpu": "1"}', '{"cpu":"1","gpu":null}')]
)
def test_requests_that_differ_from_the_signed_ones_are_recorded(requests: str, other: str) -> None:
    claim = own(a_placeholder(requests=requests)).membership.claim
    assert claim is not None
    assert (claim.requests, claim.other_requests) == (requests, other)


@pytest.mark.parametrize(
    "changes",
    [
        {"ownerReferences": []},
        {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "uid": "j"}]},
        {"requests": ""},
        {"requests": "{"},
        {"requests": '{"cpu": {}}'},
        {"requests": "[" * 20_000},
    ],
)
def test_an_incomplete_placeholder_annotation_is_ignored_and_reported(changes: Raw) -> None:
    member = own(a_placeholder(**changes)).membership
    assert (member.claim, member.placeholder, member.owner) == (None, False, None)
    assert "is reserved and ignored here; remove it" in member.conflicts[0]


def test_a_text_too_long_for_a_signature_is_not_kept() -> None:
    names = ("binding-signature", "gang-outcome-signature")
    annotations = {f"internal.yunikorn.apache.org/{name}": "x" * 81 for name in names}
    pod = own(a_pod(annotations=annotations))
    assert (pod.seal, pod.binding) == ("", "")


def test_tags_carry_namespace_name_labels_and_creation() -> None:
    assert labelled({"team": "x"}).tags == {
        keys.TAG_NAMESPACE: "dev",
        keys.TAG_POD_NAME: "pod",
        keys.TAG_CREATION_TIME: str(CREATED_S),
        keys.TAG_POD_LABEL_PREFIX + "team": "x",
    }


def required(*terms: Raw) -> Raw:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def test_the_constraints_tag_is_canonical_json_of_required_constraints_only() -> None:
    term = {"matchExpressions": [{"operator": "In", "key": "zone", "values": ["a"]}], "other": 1}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}
    affinity = required(term)
    affinity["nodeAffinity"] |= preferred
    tolerations = [{"key": "gpu", "operator": "Exists", "tolerationSeconds": 5, "effect": None}]
    pod = own(a_pod(affinity=affinity, tolerations=tolerations, nodeSelector={"b": "2", "a": "1"}))
    text = pod.tags[keys.TAG_CONSTRAINTS]
    assert json.loads(text) == {
        "nodeSelector": {"a": "1", "b": "2"},
        "nodeAffinity": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}],
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
    }
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))


def test_equal_constraints_share_one_string_in_memory() -> None:
    first, second = (own(a_pod(name, nodeSelector={"zone": "a"})).tags[keys.TAG_CONSTRAINTS] for name in "xy")
    assert first is second


DAEMON_SET = {"apiVersion": "apps/v1", "kind": "DaemonSet", "controller": True}


@pytest.mark.parametrize(
    "namespace, owner, is_required",
    [
        ("kube-system", DAEMON_SET, True),
        ("eve", DAEMON_SET, False),
        ("kube-system", {**DAEMON_SET, "controller": False}, False),
        ("kube-system", {"apiVersion": "apps/v1", "kind": "DaemonSet"}, False),
        ("kube-system", {**DAEMON_SET, "apiVersion": "v1"}, False),
        ("kube-system", {**DAEMON_SET, "kind": "ReplicaSet"}, False),
    ],
)
def test_only_a_controller_that_is_a_daemon_set_of_a_system_namespace_gives_a_required_node(
    namespace: str, owner: dict[str, Any], *, is_required: bool
) -> None:
    """Users write owner references, and may create DaemonSets in their namespaces."""
    raw = a_pod(affinity=required({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}))
    raw["metadata"] |= {"namespace": namespace, "ownerReferences": [owner]}
    assert (keys.TAG_REQUIRED_NODE in own(raw).tags) == is_required


def test_a_daemon_set_pod_has_its_required_node_tag() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    raw = a_pod(affinity=required({"matchFields": [field]}))
    raw["metadata"] |= {"namespace": "kube-system"}
    assert keys.TAG_REQUIRED_NODE not in own(raw).tags
    raw["metadata"]["ownerReferences"] = [DAEMON_SET]
    assert own(raw).tags[keys.TAG_REQUIRED_NODE] == "n1"
    for other in ({**field, "operator": "NotIn"}, {**field, "values": ["n1", "n2"]}, {**field, "key": "metadata.uid"}):
        raw["spec"]["affinity"] = required({"matchFields": [other]})
        assert keys.TAG_REQUIRED_NODE not in own(raw).tags
    raw["spec"]["affinity"] = required({"matchFields": [field, {**field, "values": ["n1", "n2"]}]})
    assert own(raw).tags[keys.TAG_REQUIRED_NODE] == "n1"
    zone = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    for term in (zone, {"matchFields": [{**field, "values": ["n2"]}]}):
        raw["spec"]["affinity"] = required({"matchFields": [field]}, term)
        assert keys.TAG_REQUIRED_NODE not in own(raw).tags


def test_preemption_is_read_from_pod_and_spec() -> None:
    key = "yunikorn.apache.org/allow-preemption"
    assert labelled({}, {key: "false"}).allow_preemption is False
    assert labelled({}, {key: "no"}).allow_preemption is None
    pod = own(a_pod(preemptionPolicy="Never", priority=7, priorityClassName="high"))
    assert (pod.preempts_others, pod.priority, pod.priority_class) == (False, 7, "high")


def test_the_scheduled_condition_gives_the_time_or_the_reason() -> None:
    raw = a_pod(nodeName="n1")
    raw["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"}
    ]
    assert own(raw).scheduled_at_ms == (CREATED_S + 1) * 1000
    raw["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    assert own(raw).condition == Condition("Unschedulable", "")
    raw["status"]["nominatedNodeName"] = "n2"
    assert own(raw).condition == Condition("Unschedulable", "", NodeName("n2"))


def test_a_nominated_node_is_not_the_node_of_an_own_pod() -> None:
    """A user with rights on pods/status could write it."""
    raw = a_pod()
    raw["status"]["nominatedNodeName"] = "n2"
    assert own(raw).node is None


def test_gates_phase_and_termination_are_read() -> None:
    raw = a_pod(schedulingGates=[{"name": "wait"}])
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    raw["status"]["phase"] = "Odd"
    pod = own(raw)
    assert (pod.gates, pod.terminating, pod.phase) == (("wait",), True, PodPhase.PENDING)


@pytest.mark.parametrize(
    "status, reason, tag",
    [
        ("True", "PreemptionByScheduler", keys.TERMINATING_PREEMPTED),
        ("False", "PreemptionByScheduler", "true"),
        ("True", "EvictionByEvictionAPI", "true"),
    ],
)
def test_a_preempted_pod_is_distinguished_from_a_deleted_pod(status: str, reason: str, tag: str) -> None:
    raw = a_pod(nodeName="n1")
    raw["status"]["conditions"] = [{"type": "DisruptionTarget", "status": status, "reason": reason}]
    assert keys.TAG_TERMINATING not in own(raw).tags
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert own(raw).tags[keys.TAG_TERMINATING] == tag


@pytest.mark.parametrize(
    "grace_s, tag",
    [(None, None), (30, None), (0, "0"), (1800, "1800"), (2**63 - 1, str(2**63 - 1)), (-5, "0"), ("9", None)],
)
def test_the_core_receives_a_grace_period_that_is_not_the_default(grace_s: object, tag: str | None) -> None:
    raw = a_pod() if grace_s is None else a_pod(terminationGracePeriodSeconds=grace_s)
    assert own(raw).tags.get(keys.TAG_GRACE_PERIOD) == tag


def test_the_core_receives_the_time_when_a_deleted_pod_has_to_be_gone() -> None:
    raw = a_pod(nodeName="n1")
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z"
    assert own(raw).tags[keys.TAG_DELETION_TIME] == "1767225630"
    raw["metadata"]["deletionTimestamp"] = "soon"
    assert keys.TAG_DELETION_TIME not in own(raw).tags


def test_a_request_beyond_64_bits_rejects_the_pod() -> None:
    assert "does not fit 64 bits" in own(a_pod(containers=[a_container(memory="10E")])).membership.refusal


# -- Host ports, images, declared features and preferences, decoded as in kube-scheduler 1.37.


def tag(name: str, **spec: Any) -> Any:
    pod = read_pod(a_pod(**spec), Settings())
    assert isinstance(pod, Pod)
    assert pod.membership.refusal == ""
    return json.loads(pod.tags.get(name, "null"))


def ports(*written: Raw, **container: Any) -> Any:
    return tag(keys.CONTAINER_PORTS, containers=[{"name": "main", "ports": list(written), **container}])


@pytest.mark.parametrize(
    "written, expected",
    [
        ({"hostPort": 80}, [["0.0.0.0", "TCP", 80]]),  # noqa: S104 - what Kubernetes calls every address
        ({"hostPort": 53, "hostIP": "10.0.0.1", "protocol": "UDP"}, [["10.0.0.1", "UDP", 53]]),
        ({"hostPort": 80, "hostIP": "::"}, [["::", "TCP", 80]]),
        ({"containerPort": 80}, None),
        ({"containerPort": 80, "hostPort": 0}, None),
    ],
)
def test_only_host_ports_count_and_a_missing_address_means_all_addresses(written: Raw, expected: Any) -> None:
    assert ports(written) == expected


def test_ports_of_all_containers_are_reported_once_and_in_order() -> None:
    container = {"name": "main", "ports": [{"hostPort": 90}, {"hostPort": 80}]}
    found = tag(keys.CONTAINER_PORTS, containers=[container, {"name": "second", "ports": [{"hostPort": 80}]}])
    assert [port for _, _, port in found] == [80, 90]


@pytest.mark.parametrize("policy, counts", [("Always", True), (None, False), ("OnFailure", False)])
def test_only_restartable_init_containers_keep_their_ports(policy: Any, *, counts: bool) -> None:
    container = {"name": "init", "ports": [{"hostPort": 80}], "restartPolicy": policy}
    assert (tag(keys.CONTAINER_PORTS, initContainers=[container]) is not None) is counts


@pytest.mark.parametrize(
    "written, expected",
    [
        ("app", "app:latest"),
        ("app:1.2", "app:1.2"),
        ("registry:5000/app", "registry:5000/app:latest"),
        ("registry:5000/app:1", "registry:5000/app:1"),
        ("app@sha256:0f", "app@sha256:0f"),
    ],
)
def test_image_names_are_normalized_as_nodes_report_them(written: str, expected: str) -> None:
    assert tag(keys.TAG_PREFERENCES, containers=[{"name": "main", "image": written}]) == {"images": [expected]}


def test_images_are_reported_once_per_container_and_volume_images_separately() -> None:
    found = tag(
        keys.TAG_PREFERENCES,
        containers=[{"name": "a", "image": "b"}, {"name": "b", "image": "a:1"}],
        initContainers=[{"name": "c", "image": "b"}],
        volumes=[{"name": "v", "image": {"reference": "data"}}, {"name": "w", "emptyDir": {}}],
    )
    assert found == {"images": ["a:1", "b:latest", "b:latest"], "volumeImages": ["data:latest"]}


def test_preferred_node_affinity_is_reported_with_its_weights() -> None:
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    written = [{"weight": 80, "preference": term}, {"weight": 1, "preference": {}}, {"weight": 0, "preference": term}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": written}}
    assert tag(keys.TAG_PREFERENCES, affinity=affinity) == {"nodeAffinity": written[:2]}


RULE = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
RESTART_ALL = "RestartAllContainersOnContainerExits"


@pytest.mark.parametrize(
    "spec, features",
    [
        ({"containers": [{"name": "main", "restartPolicyRules": [RULE]}]}, [RESTART_ALL]),
        ({"initContainers": [{"name": "init", "restartPolicyRules": [RULE]}]}, [RESTART_ALL]),
        ({"containers": [{"name": "main", "restartPolicyRules": [{**RULE, "action": "Restart"}]}]}, None),
        ({"hostNetwork": True, "hostUsers": False}, ["UserNamespacesHostNetworkSupport"]),
        ({"hostNetwork": True, "hostUsers": True}, None),
        ({"hostNetwork": True}, None),
        ({"hostUsers": False}, None),
        ({"containers": [{"volumeMounts": [{"bindMountOptions": ["noexec"]}]}]}, ["VolumeBindMountOptions"]),
        ({"initContainers": [{"volumeMounts": [{}, {"bindMountOptions": ["nodev"]}]}]}, ["VolumeBindMountOptions"]),
        ({"ephemeralContainers": [{"volumeMounts": [{"bindMountOptions": ["nodev"]}]}]}, ["VolumeBindMountOptions"]),
        ({"containers": [{"volumeMounts": [{"bindMountOptions": []}, {"mountPath": "/v"}]}]}, None),
    ],
)
def test_required_features_are_inferred_as_in_kube_scheduler(spec: Raw, features: Any) -> None:
    assert (tag(keys.TAG_CONSTRAINTS, **spec) or {}).get("features") == features


@pytest.mark.parametrize("cpu", ["many", "-1", "1e30"])
def test_an_invalid_request_is_rejected(cpu: str) -> None:
    with pytest.raises(BadInputError):
        pod_resources({"containers": [a_container(cpu=cpu)]}, {})
