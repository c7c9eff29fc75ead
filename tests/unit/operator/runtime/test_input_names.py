"""The log line of a failed input has its kind and the name of its object, never the object."""

from __future__ import annotations

import orjson
import pytest

from muster_operator.kube.watch import decoded_pod
from muster_operator.model.cluster_events import ClaimGone, NamespaceSeen, NodeSeen, ObjectSeen, PodGone, PodSeen
from muster_operator.model.commands import CommandUnanswered
from muster_operator.model.ids import PodUid
from muster_operator.model.settings import Settings
from muster_operator.model.storage import ClusterObject, ObjectKind
from muster_operator.runtime.inputs import (
    CommandEnded,
    CoreMessage,
    EventReceived,
    Input,
    Listed,
    Unreadable,
    named_input,
)
from muster_operator.si.session import Session
from muster_operator.translate.nodes import read_namespace, read_node
from muster_operator.translate.pod_classes import PartialPod
from muster_operator.translate.pods import read_pod
from muster_si import si_pb2
from tests.unit.operator.controller.objects import Raw, a_namespace, a_node, a_pod
from tests.unit.operator.kube.commands import a_create

SECRET = "what-only-its-user-may-read"


def a_secret_pod() -> Raw:
    return a_pod("p", containers=[{"name": SECRET, "env": [{"name": "TOKEN", "value": SECRET}]}], queue=SECRET)


def pod_seen() -> EventReceived:
    pod = read_pod(a_secret_pod(), Settings())
    assert pod is not None
    return EventReceived(PodSeen(pod))


def incoming() -> PartialPod:
    found = decoded_pod(orjson.dumps(a_secret_pod()))
    assert isinstance(found, PartialPod)
    return found


def node_seen() -> EventReceived:
    node = read_node(a_node("n1", labels={"x": SECRET}), Settings())
    assert node is not None
    return EventReceived(NodeSeen(node))


def namespace_seen() -> EventReceived:
    namespace = read_namespace(a_namespace("dev", parentqueue=SECRET))
    assert namespace is not None
    return EventReceived(NamespaceSeen(namespace))


def core_message() -> CoreMessage:
    session: Session = object.__new__(Session)
    return CoreMessage(session, si_pb2.NodeResponse(accepted=[si_pb2.AcceptedNode(nodeID=SECRET)]))


@pytest.mark.parametrize(
    "item, fields",
    [
        (None, {"input": "Reminder"}),
        (pod_seen(), {"input": "PodSeen", "object": "dev/p"}),
        (EventReceived(PodGone(PodUid("uid-p"))), {"input": "PodGone", "object": "uid-p"}),
        (node_seen(), {"input": "NodeSeen", "object": "n1"}),
        (namespace_seen(), {"input": "NamespaceSeen", "object": "dev"}),
        (EventReceived(ClaimGone("dev/claim")), {"input": "ClaimGone", "object": "dev/claim"}),
        (
            EventReceived(ObjectSeen(ClusterObject(ObjectKind.STORAGE_CLASS, "fast", {"x": SECRET}))),
            {"input": "ObjectSeen", "object": "fast"},
        ),
        (Unreadable("pods", a_secret_pod(), ValueError(SECRET)), {"input": "pods", "object": "dev/p"}),
        (Unreadable("pods", incoming(), ValueError(SECRET)), {"input": "pods", "object": "dev/p"}),
        (Listed("pods"), {"input": "Listed"}),
        (core_message(), {"input": "NodeResponse"}),
        (
            CommandEnded(CommandUnanswered(a_create())),
            {"input": "CommandUnanswered", "command": "CreatePlaceholder", "object": "ns/tg-1"},
        ),
    ],
)
def test_an_input_is_logged_with_its_kind_and_object(item: Input | None, fields: dict[str, str]) -> None:
    assert named_input(item) == fields
