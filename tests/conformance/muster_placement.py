"""Muster's result: raw objects pass the operator's controller, the interface and the core's state to the core's plan.

No part of the product is replaced. The transport, the clock and the scheduling itself are left out: requests stay
pending, and each is compared independently.
"""

import json
from collections import deque
from collections.abc import Iterable
from typing import Final

from muster_core.config.load import DEFAULT_TEXT, load
from muster_core.model.effects import (
    AllocationResponse,
    ApplicationAccepted,
    ApplicationRejected,
    ApplicationUpdated,
    Effect,
    NodeAccepted,
    NodeRejected,
)
from muster_core.model.events import ClusterObjectsReported, ManagerRegistered, RecoveryBarrierPassed
from muster_core.model.ids import AllocationKey, PartitionId, RmId, partition_id
from muster_core.placement import node_search
from muster_core.placement.plugins import node_properties
from muster_core.placement.plugins.tables import SCORES
from muster_core.runtime.sessions import Decoder
from muster_core.scheduling.scheduler import step
from muster_core.si import allocations as si_allocations
from muster_core.si import applications as si_applications
from muster_core.si import nodes as si_nodes
from muster_core.si import storage
from muster_core.si.allocations import Intake
from muster_core.state.columns import FloatColumn
from muster_core.state.request_classes import AskClass
from muster_core.state.scheduler_state import Partition, SchedulerState
from muster_core.state.snapshot import Snapshot, shape_of
from muster_operator.controller.cluster_events import handle_event
from muster_operator.controller.core_responses import handle_core_response
from muster_operator.controller.recovery import begin, open_nodes, report_nodes, submit_asks
from muster_operator.controller.state import Ledger
from muster_operator.model.core_messages import CoreRequest
from muster_operator.model.settings import Settings
from muster_operator.runtime.loop import DELETED, key_of
from muster_operator.si.codec import Batch, EncodedRequest, Encoder, Response, decoded
from muster_operator.translate.objects import read_deletion, read_object
from muster_si import keys, muster_pb2, si_pb2
from tests.conformance.kube_scheduler import Refusal, Result
from tests.conformance.objects import ClusterState, Raw

_RM: Final = RmId("cluster")
_PARTITION: Final[PartitionId] = partition_id(_RM, "default")
_NOW_S: Final = 1_767_225_600.0
_NOW_NS: Final = int(_NOW_S) * 1_000_000_000
_CONFIGURATION: Final = load(DEFAULT_TEXT, {}).configuration
_SETTINGS: Final = Settings()


#: The combined score of preferred node affinity, taints and images.
NODE_PROPERTIES: Final = "facts"


class Product:
    """An operator and a core that are synchronized with one cluster state."""

    def __init__(self, state: ClusterState) -> None:
        self._ledger = Ledger(_SETTINGS)
        self._encoder = Encoder(_RM, "default")
        self._decoder = Decoder(_RM, ["default"])
        self._unsent: deque[Batch] = deque()
        self._scheduler_state = SchedulerState()
        self._pending = state.pending
        step(self._scheduler_state, ManagerRegistered(_RM, _CONFIGURATION, awaits_barrier=True), _NOW_NS)
        for plural, raw in state.before or state.listed():
            self._see(plural, "ADDED", raw)
        self._recover()
        for event in state.events:
            self._see(event.plural, event.kind, event.raw)

    def results(self, without: str = "") -> list[Result]:
        """Return a result for each pending pod; `without`: a filter that is skipped."""
        partition = self._scheduler_state.partitions[_PARTITION]
        return [_evaluated(partition, self._class_of(partition, pod), without) for pod in self._pending]

    def points(self) -> list[dict[str, dict[str, float]]]:
        """Return the scores of feasible nodes by score name for each pending pod. NODE_PROPERTIES is absent if an
        allowed node is full, because it is normalized over all allowed nodes (ADR 0017).
        """
        partition = self._scheduler_state.partitions[_PARTITION]
        return [_points(partition, self._class_of(partition, pod)) for pod in self._pending]

    def _see(self, plural: str, kind: str, raw: Raw) -> None:
        is_deleted = kind == DELETED
        fact = read_deletion(plural, key_of(plural, raw)) if is_deleted else read_object(plural, raw, _SETTINGS)
        if fact is not None:
            self._deliver(handle_event(self._ledger, fact, _NOW_S).requests)

    def _recover(self) -> None:
        for part in (begin, report_nodes, submit_asks):
            for outcome in part(self._ledger, _NOW_S):
                self._deliver(outcome.requests)
        step(self._scheduler_state, RecoveryBarrierPassed(_RM), _NOW_NS)
        self._deliver(open_nodes(self._ledger, _NOW_S).requests)

    def _deliver(self, requests: Iterable[CoreRequest]) -> None:
        """Deliver requests in the order of the operator: those that follow from a response come last."""
        is_sending = bool(self._unsent)
        self._unsent.extend(self._encoder.batches(requests))
        while self._unsent and not is_sending:
            self._receive(self._encoder.encoded(self._unsent[0]))
            self._unsent.popleft()

    def _receive(self, message: EncodedRequest) -> None:
        intake = self._decoded(message)
        if intake.answers:
            raise ValueError(f"the core does not understand: {intake.answers}")
        for event in intake.events:
            self._answer(step(self._scheduler_state, event, _NOW_NS))

    def _decoded(self, message: EncodedRequest) -> Intake:
        """Encode and decode the message, as the transport does."""
        data = message.SerializeToString()
        match message:
            case si_pb2.ApplicationRequest():
                return self._decoder.applications.read(si_pb2.ApplicationRequest.FromString(data))
            case muster_pb2.FactsRequest():
                taken, rejected = storage.read_cluster_object(muster_pb2.FactsRequest.FromString(data).facts)
                if rejected:
                    raise ValueError(f"the core does not understand: {rejected}")
                return Intake([ClusterObjectsReported(_PARTITION, taken)])
            case si_pb2.NodeRequest():
                return self._decoder.nodes.read(si_pb2.NodeRequest.FromString(data))
            case si_pb2.AllocationRequest():
                received = si_pb2.AllocationRequest.FromString(data)
                self._name_nodes(received)
                return self._decoder.allocations.read(received)

    def _name_nodes(self, request: si_pb2.AllocationRequest) -> None:
        """Add `spec.nodeName` of a pending pod here, because the operator would treat the pod as bound."""
        named = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in self._pending if _is_named(pod)}
        for ask in request.asks:
            if ask.allocationKey in named:
                constraints = json.loads(ask.tags.get(keys.TAG_CONSTRAINTS, "{}"))
                constraints["nodeName"] = named[ask.allocationKey]
                ask.tags[keys.TAG_CONSTRAINTS] = json.dumps(constraints, sort_keys=True, separators=(",", ":"))

    def _answer(self, effects: list[Effect]) -> None:
        """Deliver the core's responses for applications, nodes and allocations to the controller."""
        for effect in effects:
            match effect:
                case ApplicationAccepted() | ApplicationRejected() | ApplicationUpdated():
                    self._handle_response(si_applications.application_response([effect]))
                case NodeAccepted() | NodeRejected():
                    self._handle_response(si_nodes.node_response([effect]))
                case AllocationResponse():
                    self._handle_response(si_allocations.allocation_response(effect))
                case _:
                    pass

    def _handle_response(self, response: Response) -> None:
        self._deliver(handle_core_response(self._ledger, decoded(response), _NOW_S).requests)

    def _class_of(self, partition: Partition, pod: Raw) -> AskClass:
        key = AllocationKey(pod["metadata"]["uid"])
        for application in partition.applications.values():
            if key in application.asks:
                return application.asks[key].kind
        raise ValueError(f"the core does not know of pod {pod['metadata']['name']}")


def _is_named(pod: Raw) -> bool:
    return "nodeName" in pod["spec"]


def _evaluated(partition: Partition, kind: AskClass, without: str) -> Result:
    snapshot, shape = Snapshot(partition.nodes), shape_of(kind)
    at = partition.nodes.rows.at
    reasons: dict[str, list[str]] = {str(node): [] for node in partition.nodes}
    for reason, rows in node_search.refusals(snapshot, shape, {without}):
        for row in rows.nonzero()[0]:
            reasons[str(at(int(row)))].append(reason)
    resolvable = {str(at(int(row))) for row in node_search.resolvable(snapshot, shape).nonzero()[0]}
    nodes = {
        name: Refusal("", tuple(sorted(found)), name in resolvable) if found else None
        for name, found in reasons.items()
    }
    text = "" if None in nodes.values() else node_search.unschedulable_reason(snapshot, shape).text()
    return Result(nodes, text)


def _points(partition: Partition, kind: AskClass) -> dict[str, dict[str, float]]:
    nodes, snapshot, shape = partition.nodes, Snapshot(partition.nodes), shape_of(kind)
    feasible = nodes.rows.ranks() < len(nodes)
    for _, rows in node_search.refusals(snapshot, shape):
        feasible = feasible & ~rows
    found: dict[str, FloatColumn | None] = {}
    for entry in SCORES:
        score = entry.make(snapshot, shape, feasible)
        found[entry.name] = None if score is None else score.points()
    if not (node_properties.allowed(shape.constraints, nodes) & ~feasible).any():
        found[NODE_PROPERTIES] = node_properties.points(shape.constraints, shape.pod_on_node.facts.preferences, nodes)
    at = [int(row) for row in feasible.nonzero()[0]]
    return {
        name: {str(nodes.rows.at(row)): 0.0 if column is None else column.item(row) for row in at}
        for name, column in found.items()
    }
