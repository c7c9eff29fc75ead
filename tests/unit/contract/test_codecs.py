"""Facts of Kubernetes objects arrive unchanged in the core, and its responses in the operator.

The messages pass both codecs: operator -> bytes -> core -> bytes -> operator.
"""

import pytest

from muster_core.model.constraints import Constraints, Requirement, Taint, Term, Toleration
from muster_core.model.effects import AllocationResponse, NewAllocation, Release
from muster_core.model.events import AllocationReleased, AskAdded, NodeAdded
from muster_core.model.ids import AllocationId, ApplicationId, NodeId, RmId, Termination
from muster_core.model.resources import Resources
from muster_core.runtime.sessions import Decoder
from muster_core.si import allocations as si_allocations
from muster_operator.model import core_messages
from muster_operator.model.core_messages import AllocationResponse as CoreResponsesAllocationResponse
from muster_operator.model.core_messages import AllocationSpec, AskSpec, TerminationType
from muster_operator.model.ids import AllocationId as OperatorAllocationId
from muster_operator.model.ids import AppId, NodeName, PodUid
from muster_operator.model.pods import Pod
from muster_operator.model.settings import Settings
from muster_operator.si.codec import Encoder, decoded
from muster_operator.translate.nodes import read_node
from muster_operator.translate.pods import read_pod
from muster_si import si_pb2

RM = "cluster"

DAEMON_SET = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}
POD = {
    "metadata": {
        "name": "p1",
        "namespace": "kube-system",
        "uid": "uid-1",
        "creationTimestamp": "2024-01-01T00:00:00Z",
        "labels": {"app": "web"},
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}
        ],
    },
    "spec": {
        "schedulerName": "muster",
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [
            {"operator": "Exists"},
            {"key": "spot", "value": "yes", "effect": "NoExecute", "tolerationSeconds": 30},
        ],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [{"key": "gpu", "operator": "Exists"}],
                            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
                        }
                    ]
                }
            }
        },
        "containers": [
            {"name": "c", "resources": {"requests": {"cpu": "250m", "memory": "1Gi", "example.com/x": "2"}}}
        ],
    },
    "status": {"phase": "Pending"},
}
NODE = {
    "metadata": {"name": "n1", "uid": "u1", "labels": {"kubernetes.io/hostname": "n1", "disk": "ssd"}},
    "spec": {"taints": [{"key": "spot", "effect": "NoSchedule"}, {"key": "a", "value": "b", "effect": "NoExecute"}]},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
}


def a_decoder() -> Decoder:
    return Decoder(RmId(RM), ["default"])


def on_the_wire(*items: core_messages.CoreRequest) -> list[bytes]:
    encoder = Encoder(RM, "default")
    return [encoder.encoded(batch).SerializeToString() for batch in encoder.batches(items)]


def the_ask() -> AskSpec:
    pod = read_pod(POD, Settings())
    assert isinstance(pod, Pod)
    return AskSpec(
        key=PodUid("uid-1"),
        app=AppId("app-1"),
        resources=pod.resources,
        priority=7,
        tags=pod.tags,
        task_group="g",
        placeholder=True,
        allow_preempt_self=False,
    )


def the_core_receives(ask: AskSpec) -> AskAdded:
    [data] = on_the_wire(core_messages.AskSubmitted(ask))
    intake = a_decoder().allocations.read(si_pb2.AllocationRequest.FromString(data))
    assert intake.answers == []
    [event] = intake.events
    assert isinstance(event, AskAdded)
    return event


def test_a_pod_arrives_with_its_amounts_and_constraints() -> None:
    spec = the_core_receives(the_ask()).spec
    assert (spec.partition, spec.application, spec.key, spec.group) == ("[cluster]default", "app-1", "uid-1", "g")
    assert spec.resources == Resources({"vcore": 250, "memory": 2**30, "pods": 1, "example.com/x": 2})
    assert spec.constraints == Constraints(
        node_selector=(("disk", "ssd"),),
        affinity=(
            Term(
                expressions=(Requirement("gpu", "Exists"),),
                fields=(Requirement("metadata.name", "In", ("n1",)),),
            ),
        ),
        tolerations=(Toleration(operator="Exists"), Toleration("spot", "Equal", "yes", "NoExecute")),
        node_name="n1",
    )
    assert (spec.priority, spec.placeholder, spec.namespace, spec.max_allocations) == (7, True, "kube-system", 1)
    assert (spec.allow_preempt_self, spec.allow_preempt_other) == (False, True)
    assert spec.created_ns == 1_704_067_200 * 10**9


def test_a_node_arrives_with_its_labels_taints_and_pods() -> None:
    node = read_node(NODE, Settings())
    assert node is not None
    existing = AllocationSpec(the_ask(), NodeName("n1"))
    [data] = on_the_wire(core_messages.NodeCreated(node, drained=True, existing=(existing,)))
    intake = a_decoder().nodes.read(si_pb2.NodeRequest.FromString(data))
    assert intake.answers == []
    [event] = intake.events
    assert isinstance(event, NodeAdded)
    assert event.draining
    assert dict(event.spec.labels) == {"kubernetes.io/hostname": "n1", "disk": "ssd"}
    assert set(event.spec.taints) == {Taint("spot", "", "NoSchedule"), Taint("a", "b", "NoExecute")}
    assert event.spec.capacity == Resources({"vcore": 4000, "memory": 8 * 2**30, "pods": 110})
    assert [(item.key, item.node, item.placeholder) for item in event.existing] == [("uid-1", "n1", True)]


def test_a_release_confirmation_keeps_its_termination_type() -> None:
    replaced = TerminationType.PLACEHOLDER_REPLACED
    sent = core_messages.AllocationReleased(AppId("app-1"), PodUid("uid-1"), replaced, OperatorAllocationId("uid-1-0"))
    [data] = on_the_wire(sent)
    [event] = a_decoder().allocations.read(si_pb2.AllocationRequest.FromString(data)).events
    assert isinstance(event, AllocationReleased)
    assert (event.key, event.id, event.termination) == ("uid-1", "uid-1-0", Termination.PLACEHOLDER_REPLACED)


@pytest.mark.parametrize("at_once", [False, True])
def test_a_release_states_whether_the_placeholder_is_deleted_at_once(*, at_once: bool) -> None:
    spec, first = the_core_receives(the_ask()).spec, AllocationId("uid-1-0")
    replaced = Termination.PLACEHOLDER_REPLACED
    release = Release(spec.partition, ApplicationId("app-1"), spec.key, first, replaced, "uid-2", at_once)
    data = si_allocations.allocation_response(AllocationResponse(RmId(RM), released=(release,))).SerializeToString()
    response = decoded(si_pb2.AllocationResponse.FromString(data))
    assert isinstance(response, CoreResponsesAllocationResponse)
    assert [(one.at_once, one.message) for one in response.released] == [(at_once, "uid-2")]


def test_an_allocation_and_a_release_are_received() -> None:
    spec = the_core_receives(the_ask()).spec
    first = AllocationId("uid-1-0")
    release = Release(spec.partition, ApplicationId("app-1"), spec.key, first, Termination.TIMEOUT, "late")
    answer = AllocationResponse(RmId(RM), new=(NewAllocation(spec, first, NodeId("n1")),), released=(release,))
    data = si_allocations.allocation_response(answer).SerializeToString()
    response = decoded(si_pb2.AllocationResponse.FromString(data))
    assert isinstance(response, CoreResponsesAllocationResponse)
    [new], [gone] = response.allocated, response.released
    assert (new.app, new.key, new.node, new.allocation_id) == ("app-1", "uid-1", "n1", "uid-1-0")
    assert (gone.key, gone.termination, gone.message) == ("uid-1", TerminationType.TIMEOUT, "late")
