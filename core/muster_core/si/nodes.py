"""Nodes: from messages of the Scheduler Interface to events, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Annotated, Final

from msgspec import Meta
from msgspec.json import Decoder

from muster_core.model.constraints import Taint
from muster_core.model.effects import AllocationResponse, NodeAccepted, NodeRecommended, NodeRejected, Rejection
from muster_core.model.events import Event, NodeAction, NodeActionReported, NodeAdded, NodeUpdated
from muster_core.model.ids import NodeId, RmId
from muster_core.model.specs import AllocationSpec, NodeSpec
from muster_core.model.storage import NodeStorage, VolumeHandle
from muster_core.si import values
from muster_core.si.allocations import AllocationDecoder, Intake, rejection, resource
from muster_core.si.documents import TaintDocument, TextList, volume_handles
from muster_core.si.pod_tags import Partitions
from muster_core.si.values import NAME_LIMIT, InvalidField, decoded, memoized, of_tag
from muster_si import keys, muster_pb2, si_pb2

#: A kubelet reports at most 50 images with 5 names each, unless configured otherwise; a name is a host, a path
#: and a digest, 255 + 255 + 72 characters at most. Twice the 150,000 that this makes, rounded.
IMAGES_LIMIT: Final = 262_144

#: Bytes, at most 1 PiB: sums of sizes stay exact in a double.
_Size = Annotated[int, Meta(ge=0, le=2**50)]

#: An int32 in a CSINode.
_Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]

_TAINTS: Final = Decoder(tuple[TaintDocument, ...])
_NAMES: Final = Decoder(frozenset[str])
_LIMITS: Final = Decoder(dict[str, _Count | None])
_ATTACHED: Final = Decoder(dict[str, TextList])
_IMAGES: Final = Decoder(dict[str, _Size])
_NO_IMAGES: Final[Mapping[str, int]] = MappingProxyType({})


def taints(attributes: Mapping[str, str]) -> tuple[Taint, ...]:
    """Decodes `muster/taints`."""
    return of_tag(attributes, keys.NODE_TAINTS, _taints) or ()


def features(attributes: Mapping[str, str]) -> frozenset[str]:
    """Decodes `muster/declared-features`."""
    return of_tag(attributes, keys.NODE_FEATURES, _names) or frozenset()


def is_cordoned(attributes: Mapping[str, str]) -> bool:
    """Decodes `muster/unschedulable`."""
    return attributes.get(keys.NODE_UNSCHEDULABLE) == "true"


def images(attributes: Mapping[str, str]) -> Mapping[str, int]:
    """Decodes `si/local-images`."""
    return of_tag(attributes, keys.LOCAL_IMAGES, _images) or _NO_IMAGES


def storage(attributes: Mapping[str, str]) -> NodeStorage | None:
    """Decodes `muster/volume-limits`, `muster/attached-volumes` and `muster/migrated-plugins`; None = none is set."""
    limits = of_tag(attributes, keys.NODE_VOLUME_LIMITS, _limits)
    attached = of_tag(attributes, keys.NODE_ATTACHED, _attached)
    migrated = of_tag(attributes, keys.NODE_MIGRATED, _names)
    if limits is None and attached is None and migrated is None:
        return None
    return NodeStorage(limits, attached or (), tuple(sorted(migrated or ())))


@memoized
def _taints(text: str) -> tuple[Taint, ...]:
    return tuple(one.read() for one in decoded(text, _TAINTS))


@memoized
def _names(text: str) -> frozenset[str]:
    return decoded(text, _NAMES)


@memoized
def _limits(text: str) -> Mapping[str, int | None]:
    return decoded(text, _LIMITS)


def _attached(text: str) -> tuple[VolumeHandle, ...]:
    return volume_handles(decoded(text, _ATTACHED))


def _images(text: str) -> Mapping[str, int]:
    return decoded(text, _IMAGES, IMAGES_LIMIT)


_NODE_ACTIONS: Final[Mapping[int, NodeAction]] = {
    si_pb2.NodeInfo.DRAIN_NODE: NodeAction.DRAIN,
    si_pb2.NodeInfo.DRAIN_TO_SCHEDULABLE: NodeAction.OPEN,
    si_pb2.NodeInfo.DECOMISSION: NodeAction.DECOMMISSION,
}

NodeAnswer = NodeAccepted | NodeRejected


class NodeDecoder:
    """Decodes node actions of one resource manager. `allocations` decodes the pods on a node."""

    def __init__(self, rm: RmId, partitions: Partitions, allocations: AllocationDecoder) -> None:
        self._rm, self._partitions, self._allocations = rm, partitions, allocations
        #: Partition of each node that is not in the default partition.
        self._partition_of_node: dict[str, str] = {}

    def read(self, request: si_pb2.NodeRequest) -> Intake:
        """Decodes node actions, with the allocations on a new node."""
        intake = Intake()
        for node in request.nodes:
            try:
                intake.events.append(self._node(node, intake))
            except InvalidField as unfit:
                intake.answers.append(NodeRejected(self._rm, NodeId(node.nodeID[:NAME_LIMIT]), str(unfit)))
        return intake

    def _node(self, info: si_pb2.NodeInfo, intake: Intake) -> Event:
        node = NodeId(values.named(info.nodeID, "nodeID"))
        action = _NODE_ACTIONS.get(info.action)
        if action is not None:
            name = info.attributes.get(keys.NODE_PARTITION) or self._partition_of_node.get(node)
            return NodeActionReported(self._partitions.find(name or keys.DEFAULT_PARTITION), node, action)
        if info.action not in (si_pb2.NodeInfo.CREATE, si_pb2.NodeInfo.CREATE_DRAIN, si_pb2.NodeInfo.UPDATE):
            raise InvalidField("action", f"is not known: {int(info.action)}")
        spec = self._node_spec(info, node)
        if info.action == si_pb2.NodeInfo.UPDATE:
            if not info.HasField("schedulableResource"):
                raise InvalidField("schedulableResource", "is missing, and an UPDATE replaces it")
            return NodeUpdated(spec, self._existing(info, intake))
        draining = info.action == si_pb2.NodeInfo.CREATE_DRAIN
        return NodeAdded(spec, draining=draining, existing=self._existing(info, intake))

    def _node_spec(self, info: si_pb2.NodeInfo, node: NodeId) -> NodeSpec:
        attributes = dict(info.attributes)
        name = attributes.get(keys.NODE_PARTITION) or self._partition_of_node.get(node) or keys.DEFAULT_PARTITION
        partition = self._partitions.find(name)
        if name != keys.DEFAULT_PARTITION:
            self._partition_of_node[node] = name
        prefix = keys.NODE_LABEL_PREFIX
        node_images = images(attributes)
        attributes.pop(keys.LOCAL_IMAGES, None)  # by far the longest attribute, and not useful in the REST API
        return NodeSpec(
            partition=partition,
            id=node,
            capacity=self._allocations.counted.read(info.schedulableResource, "schedulableResource"),
            occupied=self._allocations.counted.read(info.occupiedResource, "occupiedResource"),
            labels={key[len(prefix) :]: value for key, value in attributes.items() if key.startswith(prefix)},
            taints=taints(attributes),
            cordoned=is_cordoned(attributes),
            features=features(attributes),
            images=node_images,
            storage=storage(attributes),
            attributes=attributes,
        )

    def _existing(self, info: si_pb2.NodeInfo, intake: Intake) -> tuple[AllocationSpec, ...]:
        """Returns the allocations on a new node. Invalid ones are rejected individually."""
        taken: list[AllocationSpec] = []
        refused: list[Rejection] = []
        for allocation in info.existingAllocations:
            try:
                taken.append(self._allocations.existing(allocation, intake, node=info.nodeID))
            except InvalidField as unfit:
                refused.append(rejection(allocation, unfit))
        if refused:
            intake.answers.append(AllocationResponse(self._rm, rejected_allocations=tuple(refused)))
        return tuple(taken)


def node_response(answers: Iterable[NodeAnswer]) -> si_pb2.NodeResponse:
    """Encodes changes of nodes."""
    response = si_pb2.NodeResponse()
    for item in answers:
        match item:
            case NodeAccepted():
                response.accepted.add(nodeID=item.node)
            case NodeRejected():
                response.rejected.add(nodeID=item.node, reason=item.reason)
    return response


def node_recommendations(found: Iterable[NodeRecommended]) -> muster_pb2.Callback:
    """Encodes NodeRecommendation callbacks."""
    return muster_pb2.Callback(
        nodeRecommendations=muster_pb2.NodeRecommendations(
            recommendations=[
                muster_pb2.NodeRecommendation(
                    nodeID=one.node, recommendedSchedulableResource=resource(one.recommended), message=one.message
                )
                for one in found
            ]
        )
    )
