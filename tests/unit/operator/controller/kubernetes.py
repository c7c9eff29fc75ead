"""A small Kubernetes for tests: raw pods and nodes, commands that change them, and a watch.

It is a peer in a pure simulation, not a mock. It enforces the relevant rules (unique names, UIDs, one binding per pod,
garbage collection of dependents) and records writes.
"""

import copy
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from muster_operator.model import names
from muster_operator.model.cluster_events import ClusterEvent, NamespaceSeen, NodeGone, NodeSeen, PodGone, PodSeen
from muster_operator.model.commands import (
    BindPod,
    Command,
    CommandFailed,
    CommandSucceeded,
    CreatePlaceholder,
    DeletePod,
    FailPod,
    MarkDisrupted,
    MarkResumed,
    PostEvent,
    Result,
    SetCondition,
)
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.pods import Placement
from muster_operator.model.settings import Settings
from muster_operator.translate.nodes import read_namespace, read_node
from muster_operator.translate.placeholders import placeholder_body
from muster_operator.translate.pods import read_pod
from tests.unit.operator.controller.objects import a_namespace, a_node

Raw = dict[str, Any]
#: Most scenarios are about placeholder pods. A scenario of another placement sets it.
SETTINGS = Settings(gang_placement=Placement.RESERVE, system_namespaces=frozenset({"dev"}))


def seen(raw: Raw, settings: Settings = SETTINGS) -> PodSeen:
    """Return the event of a raw pod."""
    pod = read_pod(raw, settings)
    assert pod is not None
    return PodSeen(pod)


def node_seen(raw: Raw) -> NodeSeen:
    """Return the event of a raw node."""
    node = read_node(raw, SETTINGS)
    assert node is not None
    return NodeSeen(node)


def namespace_seen(raw: Raw) -> NamespaceSeen:
    """Return the event of a raw namespace."""
    namespace = read_namespace(raw)
    assert namespace is not None
    return NamespaceSeen(namespace)


@dataclass
class Kubernetes:  # long: each rule is a method
    """The API server with its garbage collector. ``watch`` holds events that were not read yet."""

    pods: dict[str, Raw] = field(default_factory=dict)
    nodes: dict[str, Raw] = field(default_factory=dict)
    namespaces: list[Raw] = field(default_factory=lambda: [a_namespace()])
    watch: deque[ClusterEvent] = field(default_factory=deque)
    binds: Counter[str] = field(default_factory=Counter)
    writes: Counter[str] = field(default_factory=Counter)
    events: list[PostEvent] = field(default_factory=list)
    refuse_creates: int = 0
    now: str = "2026-01-01T00:02:00Z"
    serial: int = 0

    def add_nodes(self, count: int) -> None:
        """Add nodes n0, n1, ..."""
        for number in range(count):
            self.add_node(a_node(f"n{number}"))

    def add_node(self, raw: Raw) -> None:
        """Add or change a node."""
        self.nodes[raw["metadata"]["name"]] = raw
        self.watch.append(node_seen(copy.deepcopy(raw)))

    def remove_node(self, name: str) -> None:
        """Remove a node. The pod garbage collector deletes its pods."""
        self.lose_node(name)
        for uid, raw in list(self.pods.items()):
            if uid in self.pods and raw["spec"].get("nodeName") == name:
                self.delete(uid)

    def lose_node(self, name: str) -> None:
        """Remove a node, before the pod garbage collector deletes its pods."""
        del self.nodes[name]
        self.watch.append(NodeGone(NodeName(name)))

    def add(self, *raws: Raw) -> None:
        """Add pods."""
        for raw in raws:
            self.pods[raw["metadata"]["uid"]] = raw
            self._tell(raw)

    def change(self, name: str, **status: Any) -> None:
        """Set fields of a pod's status."""
        raw = next(raw for raw in self.pods.values() if raw["metadata"]["name"] == name)
        raw["status"].update(status)
        self._tell(raw)

    def edit(self, uid: str, *, cpu: str = "", labels: dict[str, str] | None = None) -> None:
        """Resize a pod in place, or change its labels."""
        raw = self.pods[uid]
        if cpu:
            raw["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
        raw["metadata"]["labels"].update(labels or {})
        self._tell(raw)

    def delete_by_name(self, name: str) -> None:
        """Delete a pod by name."""
        self.delete(next(uid for uid, raw in self.pods.items() if raw["metadata"]["name"] == name))

    def delete(self, uid: str) -> None:
        """Remove a pod immediately, with its dependents."""
        del self.pods[uid]
        self.watch.append(PodGone(PodUid(uid)))
        for other, raw in list(self.pods.items()):
            if uid in {owner["uid"] for owner in raw["metadata"].get("ownerReferences", [])} and other in self.pods:
                self.delete(other)

    def _tell(self, raw: Raw) -> None:
        self.watch.append(seen(copy.deepcopy(raw)))

    def list_all(self) -> list[ClusterEvent]:
        """Return the events at the start of a new watch."""
        facts: list[ClusterEvent] = []
        facts += [namespace_seen(raw) for raw in self.namespaces]
        facts += [node_seen(copy.deepcopy(raw)) for raw in self.nodes.values()]
        facts += [seen(copy.deepcopy(raw)) for raw in self.pods.values()]
        return facts

    def placeholders(self) -> list[Raw]:
        """Return the existing placeholder pods."""
        key = names.ANNOTATION_PLACEHOLDER
        return [raw for raw in self.pods.values() if key in raw["metadata"].get("annotations", {})]

    def node_of(self, name: str) -> str | None:
        """Return the node of a pod."""
        raw = next(raw for raw in self.pods.values() if raw["metadata"]["name"] == name)
        node = raw["spec"].get("nodeName")
        return str(node) if node else None

    def apply(self, command: Command) -> Result:
        """Execute a command and return its result."""
        self.writes[type(command).__name__] += 1
        match command:
            case CreatePlaceholder():
                return self._create(command)
            case BindPod():
                return self._bind(command)
            case DeletePod(pod=pod):
                if pod.uid in self.pods:
                    self.delete(pod.uid)
            case FailPod(pod=pod, reason=reason, message=message) if pod.uid in self.pods:
                self.change(pod.name, phase="Failed", reason=reason, message=message)
            case SetCondition(pod=pod, reason=reason, message=message, nominated_node=node) if pod.uid in self.pods:
                condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
                self.change(pod.name, conditions=[condition], nominatedNodeName=node or None)
            case MarkResumed(originator=pod, signature=signature) if pod.uid in self.pods:
                annotations = self.pods[pod.uid]["metadata"]["annotations"]
                annotations[names.ANNOTATION_GANG_OUTCOME] = names.GANG_RESUMED
                annotations[names.ANNOTATION_OUTCOME_SIGNATURE] = signature
                self._tell(self.pods[pod.uid])
            case MarkDisrupted(pod=pod, message=message) if pod.uid in self.pods:
                self.change(pod.name, conditions=[{"type": "DisruptionTarget", "status": "True", "message": message}])
            case PostEvent():
                self.events.append(command)
            case _:
                return CommandFailed(command, 404, "NotFound", "not found")
        return CommandSucceeded(command)

    def _create(self, command: CreatePlaceholder) -> Result:
        if self.refuse_creates:
            self.refuse_creates -= 1
            return CommandFailed(command, 403, "Forbidden", "exceeded quota")
        raw = placeholder_body(command.spec, SETTINGS)
        if any(raw["metadata"]["name"] == other["metadata"]["name"] for other in self.pods.values()):
            return CommandFailed(command, 409, "AlreadyExists", "already exists")
        self.serial += 1
        raw["metadata"] |= {
            "uid": f"uid-ph-{self.serial}",
            "creationTimestamp": self.now,
        }
        raw["status"] = {"phase": "Pending"}
        self.add(raw)
        if command.spec.owner.uid not in self.pods:
            self.delete(raw["metadata"]["uid"])  # garbage collector: the owner does not exist
        return CommandSucceeded(command)

    def _bind(self, command: BindPod) -> Result:
        raw = self.pods.get(command.pod.uid)
        if raw is None:
            return CommandFailed(command, 404, "NotFound", "not found")
        if raw["spec"].get("nodeName"):
            return CommandFailed(command, 409, "Conflict", "already assigned")
        raw["spec"]["nodeName"] = command.node
        raw["metadata"].setdefault("annotations", {})[names.ANNOTATION_BINDING_SIGNATURE] = command.signature
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": self.now}
        raw["status"]["conditions"] = [scheduled]
        self.binds[command.pod.uid] += 1
        self._tell(raw)
        if command.node not in self.nodes:
            self.delete(command.pod.uid)  # garbage collector: the node does not exist
        return CommandSucceeded(command)
