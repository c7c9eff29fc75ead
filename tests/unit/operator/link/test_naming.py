"""What a log line says of an input that the agent failed on: its kind and its object's name, never the object."""

from __future__ import annotations

import orjson
import pytest

from muster_operator.link.api.decoding import decoded_pod
from muster_operator.link.inbox import Ended, Input, Listed, Said, Seen, Unreadable
from muster_operator.link.naming import named_input
from muster_operator.link.si.core import Session
from muster_operator.model.facts import ClaimGone, NamespaceSeen, NodeSeen, ObjectSeen, PodGone, PodSeen
from muster_operator.model.ids import PodUid
from muster_operator.model.objects import ClusterObject, ObjectKind
from muster_operator.model.results import CommandUnanswered
from muster_operator.model.settings import Settings
from muster_operator.translate.namespaces import read_namespace
from muster_operator.translate.nodes import read_node
from muster_operator.translate.pods import read_pod
from muster_operator.translate.sketch import Sketch
from muster_si import si_pb2
from tests.unit.operator.link.api.commands import a_create
from tests.unit.operator.objects import Raw, a_namespace, a_node, a_pod

SECRET = "what-only-its-user-may-read"


def a_secret_pod() -> Raw:
    return a_pod("p", containers=[{"name": SECRET, "env": [{"name": "TOKEN", "value": SECRET}]}], queue=SECRET)


def pod_seen() -> Seen:
    pod = read_pod(a_secret_pod(), Settings())
    assert pod is not None
    return Seen(PodSeen(pod))


def sketch() -> Sketch:
    found = decoded_pod(orjson.dumps(a_secret_pod()))
    assert isinstance(found, Sketch)
    return found


def node_seen() -> Seen:
    node = read_node(a_node("n1", labels={"x": SECRET}), Settings())
    assert node is not None
    return Seen(NodeSeen(node))


def namespace_seen() -> Seen:
    namespace = read_namespace(a_namespace("dev", parentqueue=SECRET))
    assert namespace is not None
    return Seen(NamespaceSeen(namespace))


def said() -> Said:
    session: Session = object.__new__(Session)
    return Said(session, si_pb2.NodeResponse(accepted=[si_pb2.AcceptedNode(nodeID=SECRET)]))


@pytest.mark.parametrize(
    "item, says",
    [
        (None, {"input": "Reminder"}),
        (pod_seen(), {"input": "PodSeen", "object": "dev/p"}),
        (Seen(PodGone(PodUid("uid-p"))), {"input": "PodGone", "object": "uid-p"}),
        (node_seen(), {"input": "NodeSeen", "object": "n1"}),
        (namespace_seen(), {"input": "NamespaceSeen", "object": "dev"}),
        (Seen(ClaimGone("dev/claim")), {"input": "ClaimGone", "object": "dev/claim"}),
        (
            Seen(ObjectSeen(ClusterObject(ObjectKind.STORAGE_CLASS, "fast", {"x": SECRET}))),
            {"input": "ObjectSeen", "object": "fast"},
        ),
        (Unreadable("pods", a_secret_pod(), ValueError(SECRET)), {"input": "pods", "object": "dev/p"}),
        (Unreadable("pods", sketch(), ValueError(SECRET)), {"input": "pods", "object": "dev/p"}),
        (Listed("pods"), {"input": "Listed"}),
        (said(), {"input": "NodeResponse"}),
        (
            Ended(CommandUnanswered(a_create())),
            {"input": "CommandUnanswered", "command": "CreatePlaceholder", "object": "ns/tg-1"},
        ),
    ],
)
def test_an_input_is_named_by_its_kind_and_object(item: Input | None, says: dict[str, str]) -> None:
    assert named_input(item) == says
