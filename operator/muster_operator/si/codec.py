"""Conversion between the values of `model` and the messages of the Scheduler Interface, in both directions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from importlib.metadata import version
from itertools import chain, groupby, repeat
from platform import machine
from typing import Final

import orjson
from msgspec import Struct, structs

from muster_operator.model import limits
from muster_operator.model.core_messages import (
    OWN_TAGS,
    Allocated,
    AllocationRejected,
    AllocationReleased,
    AllocationReported,
    AllocationResponse,
    AllocationSpec,
    ApplicationAccepted,
    ApplicationInCore,
    ApplicationRejected,
    ApplicationRemoved,
    ApplicationRequest,
    ApplicationResponse,
    ApplicationSpec,
    ApplicationSubmitted,
    ApplicationUpdated,
    AskCancelled,
    AskRejected,
    AskReleased,
    AskSpec,
    AskSubmitted,
    ClusterObjectReported,
    CoreEvent,
    CoreEvents,
    CoreRequest,
    CoreResponse,
    EventKind,
    HeldInCore,
    Inventory,
    InventoryPart,
    Node,
    NodeCreated,
    NodeDecommissioned,
    NodeDrained,
    NodeInCore,
    NodeOpened,
    NodeRecommended,
    NodeRequest,
    NodeResponse,
    NodeUpdated,
    Recommendations,
    Released,
    SchedulingState,
    SchedulingStateChanged,
    SchedulingStates,
    TerminationType,
)
from muster_operator.model.ids import AllocationId, AppId, NodeName, NumberEnum, PodUid, Resources
from muster_operator.model.storage import ChosenVolumes, ClusterObject, ObjectKind
from muster_operator.translate.devices import chosen_devices
from muster_si import keys, muster_pb2, si_pb2

#: Exceptions of items that cannot be encoded: a wrong type, a value out of range, or text that is not valid UTF-8.
UNENCODABLE: Final = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError)

#: Maximum number of cached forms, after which the cache is cleared.
_CACHED_ASKS: Final = 2048
_Kind = tuple[int, object, str, bool, bool, int, bool, bool]


class Forms:
    """Cache of partly filled request messages. `whole` creates a complete one.

    The cache keeps the source of each form, so that its `id`, which is part of the key, is not used again.
    """

    def __init__(self, whole: Callable[[AskSpec], si_pb2.AllocationAsk]) -> None:
        self._whole = whole
        self._known: dict[_Kind, tuple[AskSpec, si_pb2.AllocationAsk]] = {}

    def add(self, request: si_pb2.AllocationRequest, ask: AskSpec) -> None:
        """Adds the message of a request."""
        message = request.asks.add()
        if not ask.common:
            message.CopyFrom(self._whole(ask))
            return
        message.CopyFrom(self._form(ask))
        message.allocationKey = ask.key
        ask_tags, tags = ask.tags, message.tags
        for tag in OWN_TAGS:
            if tag in ask_tags:
                tags[tag] = ask_tags[tag]

    def _form(self, ask: AskSpec) -> si_pb2.AllocationAsk:
        kind = (
            id(ask.common),
            ask.app,
            ask.task_group,
            ask.placeholder,
            ask.originator,
            ask.priority,
            ask.allow_preempt_self,
            ask.allow_preempt_other,
        )
        known = self._known.get(kind)
        resources = ask.resources
        if known is None or (known[0].resources is not resources and known[0].resources != resources):
            if len(self._known) >= _CACHED_ASKS:
                self._known.clear()
            form = self._whole(ask)
            form.ClearField("tags")
            form.tags.update(ask.common)
            known = self._known[kind] = (ask, form)
        return known[1]


EncodedRequest = si_pb2.ApplicationRequest | si_pb2.NodeRequest | si_pb2.AllocationRequest | muster_pb2.FactsRequest

#: Maximum number of resources of a cached message. A name can have 317 characters.
_USUAL_AMOUNTS: Final = 8

#: Build information for the core's logs and dumps.
BUILD_INFO: Final[Mapping[str, str]] = {
    "name": "muster-operator",
    "buildVersion": version("muster-scheduler"),
    "arch": {"x86_64": "amd64", "aarch64": "arm64"}.get(machine(), machine()),  # as Go names it
    "isPluginVersion": "false",
}

_PARTS: Final = {
    InventoryPart.APPLICATIONS: muster_pb2.InventoryRequest.APPLICATIONS,
    InventoryPart.NODES: muster_pb2.InventoryRequest.NODES,
}

_KINDS: Final = {kind: muster_pb2.Fact.Kind.Value(kind.value) for kind in ObjectKind}


class MessageStream(Enum):
    """The stream of a message. See docs/internals/semantics.md, 25."""

    APPLICATIONS = "applications"
    NODES = "nodes"
    ALLOCATIONS = "allocations"


@dataclass(slots=True)
class Sent:
    """Number of messages of a session by stream, for the barrier. See docs/internals/semantics.md, 19."""

    applications: int = 0
    nodes: int = 0
    allocations: int = 0

    def add(self, stream: MessageStream) -> None:
        """Counts a message that was sent or is queued."""
        match stream:
            case MessageStream.APPLICATIONS:
                self.applications += 1
            case MessageStream.NODES:
                self.nodes += 1
            case MessageStream.ALLOCATIONS:
                self.allocations += 1


class _Lane(NumberEnum):
    """Requests of the same lane can be in one message."""

    APPLICATIONS = 0
    REMOVALS = 1
    FACTS = 2
    NODES = 3
    ASKS = 4
    ALLOCATIONS = 5
    RELEASES = 6
    ASK_RELEASES = 7


_STREAMS: Final[Mapping[_Lane, MessageStream]] = {
    lane: MessageStream.APPLICATIONS if lane <= _Lane.FACTS else MessageStream.ALLOCATIONS for lane in _Lane
} | {_Lane.NODES: MessageStream.NODES}


class Batch(Struct, frozen=True, gc=False):
    """Requests for one message. It is encoded when it is sent, because a recovery can have 100,000 pods."""

    stream: MessageStream
    requests: tuple[CoreRequest, ...]

    @property
    def is_counted(self) -> bool:
        """Whether a barrier counts it. Objects for filters are not counted, because they have their own response."""
        return not isinstance(self.requests[0], ClusterObjectReported)


@dataclass(frozen=True, slots=True)
class Encoder:  # long: one method per kind of message
    """Encodes requests for one resource manager with one partition."""

    rm_id: str
    partition: str
    _forms: Forms = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Creates the cache of forms."""
        object.__setattr__(self, "_forms", Forms(self._ask))

    def batches(self, requests: Iterable[CoreRequest]) -> Iterator[Batch]:
        """Groups requests into messages, in order, of at most MESSAGE_ITEMS items and about MESSAGE_BYTES."""
        for lane, run in groupby(requests, _lane):
            stream, batch, size = _STREAMS[lane], list[CoreRequest](), 0
            # Requests of one class differ in a few short tags only, which _FRAME includes. The key is the identity of
            # their common tags, which the requests in `batch` keep in memory.
            of_class: dict[int, int] = {}
            for item in chain.from_iterable(map(_parts, run)) if lane is _Lane.NODES else run:
                common = item.ask.common if isinstance(item, AskSubmitted) else None
                bytes_of_item = of_class.get(id(common)) if common else None
                if bytes_of_item is None:
                    bytes_of_item = _size(item)
                if batch and (len(batch) >= limits.MESSAGE_ITEMS or size + bytes_of_item > limits.MESSAGE_BYTES):
                    yield Batch(stream, tuple(batch))
                    batch, size = [], 0
                    of_class.clear()
                batch.append(item)
                size += bytes_of_item
                if common:
                    of_class[id(common)] = bytes_of_item
            yield Batch(stream, tuple(batch))

    def registration(
        self, version: str, policy_group: str, config: str, extra: Mapping[str, str]
    ) -> si_pb2.RegisterResourceManagerRequest:
        """The request that opens a session. See docs/internals/semantics.md, 7."""
        return si_pb2.RegisterResourceManagerRequest(
            rmID=self.rm_id,
            version=version,
            policyGroup=policy_group,
            config=config,
            extraConfig=extra,
            buildInfo=dict(BUILD_INFO),
        )

    def configuration(
        self, policy_group: str, config: str, extra: Mapping[str, str]
    ) -> si_pb2.UpdateConfigurationRequest:
        """The request that replaces the configuration of the session."""
        return si_pb2.UpdateConfigurationRequest(
            rmID=self.rm_id, policyGroup=policy_group, config=config, extraConfig=extra
        )

    def barrier(self, sent: Sent, *, more: bool = False) -> muster_pb2.BarrierRequest:
        """The barrier, which returns when the core has processed as many messages as were sent.

        ``more``: further messages follow before scheduling starts.
        """
        return muster_pb2.BarrierRequest(
            rmID=self.rm_id,
            applicationRequests=sent.applications,
            nodeRequests=sent.nodes,
            allocationRequests=sent.allocations,
            more=more,
        )

    def question(self, sent: Sent, part: InventoryPart, beyond: str, limit: int) -> muster_pb2.InventoryRequest:
        """The request for a part of the core's state, after as many messages as were sent."""
        return muster_pb2.InventoryRequest(
            after=self.barrier(sent), partitionName=self.partition, part=_PARTS[part], beyond=beyond, limit=limit
        )

    def unregister_request(self) -> muster_pb2.UnregisterRequest:
        """The request that ends the session on purpose."""
        return muster_pb2.UnregisterRequest(rmID=self.rm_id)

    def encoded(self, batch: Batch) -> EncodedRequest:
        """Encodes a batch."""
        return self.encoded_as(batch.stream, batch.requests, is_counted=batch.is_counted)

    def encoded_as(self, stream: MessageStream, requests: Iterable[CoreRequest], *, is_counted: bool) -> EncodedRequest:
        """Encodes requests as a message of the stream, which can be empty."""
        if not is_counted:
            facts = [_fact(item.fact) for item in requests if isinstance(item, ClusterObjectReported)]
            return muster_pb2.FactsRequest(rmID=self.rm_id, partitionName=self.partition, facts=facts)
        applications = si_pb2.ApplicationRequest(rmID=self.rm_id)
        nodes = si_pb2.NodeRequest(rmID=self.rm_id)
        allocations = si_pb2.AllocationRequest(rmID=self.rm_id)
        for item in requests:
            match item:
                case AskSubmitted():  # the most frequent one
                    self._forms.add(allocations, item.ask)
                case ClusterObjectReported():
                    continue  # of a batch of its own
                case ApplicationSubmitted() | ApplicationRemoved():
                    self._add_application(applications, item)
                case AllocationReported() | AllocationReleased() | AskReleased():
                    self._add_allocation(allocations, item)
                case NodeCreated() | NodeUpdated() | NodeDrained() | NodeOpened() | NodeDecommissioned():
                    self._add_node(nodes, item)
        if stream is MessageStream.APPLICATIONS:
            return applications
        return nodes if stream is MessageStream.NODES else allocations

    def _add_application(self, request: si_pb2.ApplicationRequest, item: ApplicationRequest) -> None:
        match item:
            case ApplicationSubmitted():
                request.new.append(self._application(item.spec))
            case ApplicationRemoved():
                request.remove.append(
                    si_pb2.RemoveApplicationRequest(applicationID=item.app, partitionName=self.partition)
                )

    def _add_node(self, request: si_pb2.NodeRequest, item: NodeRequest) -> None:
        info = request.nodes.add()
        match item:
            case NodeCreated():
                action = si_pb2.NodeInfo.CREATE_DRAIN if item.drained else si_pb2.NodeInfo.CREATE
                info.CopyFrom(_node(item.node.name, action, item.node.attributes, item.node.capacity))
                info.existingAllocations.extend([self._allocation(existing) for existing in item.existing])
            case NodeUpdated():
                update = si_pb2.NodeInfo.UPDATE
                info.CopyFrom(_node(item.node.name, update, item.node.attributes, item.node.capacity))
                info.existingAllocations.extend([self._allocation(existing) for existing in item.existing])
            case NodeDrained():
                info.nodeID, info.action = item.name, si_pb2.NodeInfo.DRAIN_NODE
            case NodeOpened():
                info.nodeID, info.action = item.name, si_pb2.NodeInfo.DRAIN_TO_SCHEDULABLE
            case NodeDecommissioned():
                info.nodeID, info.action = item.name, si_pb2.NodeInfo.DECOMISSION

    def _add_allocation(
        self, request: si_pb2.AllocationRequest, item: AllocationReported | AllocationReleased | AskReleased
    ) -> None:
        match item:
            case AllocationReported():
                request.allocations.append(self._allocation(item.allocation))
            case AllocationReleased():
                request.releases.allocationsToRelease.append(
                    si_pb2.AllocationRelease(
                        partitionName=self.partition,
                        applicationID=item.app or "",
                        allocationKey=item.key,
                        allocationID=item.allocation_id,
                        terminationType=_termination(item.termination),
                        message=item.message[: limits.REASON_CHARACTERS],
                    )
                )
            case AskReleased():
                request.releases.allocationAsksToRelease.append(
                    si_pb2.AllocationAskRelease(
                        partitionName=self.partition,
                        applicationID=item.app,
                        allocationKey=item.key,
                        terminationType=_termination(item.termination),
                        message=item.message[: limits.REASON_CHARACTERS],
                    )
                )

    def _application(self, spec: ApplicationSpec) -> si_pb2.AddApplicationRequest:
        return si_pb2.AddApplicationRequest(
            applicationID=spec.app,
            queueName=spec.queue,
            partitionName=self.partition,
            ugi=si_pb2.UserGroupInformation(user=spec.user.user, groups=spec.user.groups),
            tags=spec.tags,
            executionTimeoutMilliSeconds=spec.execution_timeout_ms,
            placeholderAsk=_resource(spec.placeholder_ask) if spec.placeholder_ask else None,
            gangSchedulingStyle=spec.style,
        )

    def _ask(self, ask: AskSpec) -> si_pb2.AllocationAsk:
        return si_pb2.AllocationAsk(
            allocationKey=ask.key,
            applicationID=ask.app or "",
            partitionName=self.partition,
            resourceAsk=_resource(ask.resources),
            maxAllocations=1,
            priority=ask.priority,
            tags=ask.tags,
            taskGroupName=ask.task_group,
            placeholder=ask.placeholder,
            Originator=ask.originator,
            preemptionPolicy=_preemption(ask),
        )

    def _allocation(self, allocation: AllocationSpec) -> si_pb2.Allocation:
        ask = allocation.ask
        return si_pb2.Allocation(
            allocationKey=ask.key,
            allocationTags=ask.tags,
            resourcePerAlloc=_resource(ask.resources),
            priority=ask.priority,
            nodeID=allocation.node,
            applicationID=ask.app or "",
            partitionName=self.partition,
            taskGroupName=ask.task_group,
            placeholder=ask.placeholder,
            allocationID=allocation.allocation_id,
            originator=ask.originator,
            preemptionPolicy=_preemption(ask),
        )


#: By type, because a `match` would compare the most frequent requests with all others first.
_LANES: Final[Mapping[type[CoreRequest], _Lane]] = {
    ApplicationSubmitted: _Lane.APPLICATIONS,
    ApplicationRemoved: _Lane.REMOVALS,
    ClusterObjectReported: _Lane.FACTS,
    **dict.fromkeys((NodeCreated, NodeUpdated, NodeDrained, NodeOpened, NodeDecommissioned), _Lane.NODES),
    AskSubmitted: _Lane.ASKS,
    AllocationReported: _Lane.ALLOCATIONS,
    AllocationReleased: _Lane.RELEASES,
    AskReleased: _Lane.ASK_RELEASES,
}


def _lane(item: CoreRequest) -> _Lane:
    return _LANES[type(item)]


#: Bytes of an item in addition to its texts: names, amounts and message frames.
_FRAME: Final = 256


def _size(item: CoreRequest) -> int:
    """Approximate bytes of an item in a message. It counts only characters, because it is called for each pod.

    Each item is limited by `model.limits`, so that 100 items fit a message even if they are larger than estimated. An
    item that cannot be measured cannot be encoded (`si/isolation`).
    """
    try:
        return _size_of_texts(item)
    except UNENCODABLE:
        return _FRAME


def _size_of_texts(item: CoreRequest) -> int:
    match item:
        case AskSubmitted(ask):
            return _FRAME + sum(map(len, ask.tags.values()))
        case AllocationReported(allocation):
            return _FRAME + sum(map(len, allocation.ask.tags.values()))
        case ApplicationSubmitted(spec):
            return _FRAME + sum(map(len, spec.tags.values())) + sum(map(len, spec.user.groups))
        case NodeCreated(node=node, existing=existing) | NodeUpdated(node=node, existing=existing):
            return _node_size(node) + sum(map(_allocation_size, existing))
        case ClusterObjectReported(fact):
            return _FRAME + sum(map(len, fact.attributes.values()))
        case _:
            return _FRAME


def _allocation_size(allocation: AllocationSpec) -> int:
    return _FRAME + sum(map(len, allocation.ask.tags.values()))


def _node_size(node: Node) -> int:
    return _FRAME + sum(map(len, node.attributes.values()))


def _parts(item: CoreRequest) -> Iterator[CoreRequest]:
    """Splits a node with too many pods for one message. It becomes schedulable with the last part."""
    if not isinstance(item, NodeCreated) or _size(item) <= limits.MESSAGE_BYTES:
        yield item
        return
    size = of_node = _node_size(item.node)
    chunks: list[list[AllocationSpec]] = [[]]
    for existing in item.existing:
        size += _allocation_size(existing)
        if size > limits.MESSAGE_BYTES and chunks[-1]:
            chunks.append([])
            size = of_node + _allocation_size(existing)
        chunks[-1].append(existing)
    yield structs.replace(item, drained=True, existing=tuple(chunks[0]))
    for chunk in chunks[1:]:
        yield NodeUpdated(item.node, tuple(chunk))
    if not item.drained:
        yield NodeOpened(item.node.name)


def _fact(fact: ClusterObject) -> muster_pb2.Fact:
    return muster_pb2.Fact(kind=_KINDS[fact.kind], name=fact.name, attributes=fact.attributes, gone=fact.gone)


def _node(
    name: NodeName, action: si_pb2.NodeInfo.ActionFromRM.ValueType, attributes: Mapping[str, str], capacity: Resources
) -> si_pb2.NodeInfo:
    return si_pb2.NodeInfo(nodeID=name, action=action, attributes=attributes, schedulableResource=_resource(capacity))


def _resource(amounts: Resources) -> si_pb2.Resource:
    if len(amounts) > _USUAL_AMOUNTS:
        return _made(amounts.items())
    return _message_of(tuple(amounts.items()))


@lru_cache(maxsize=4096)
def _message_of(amounts: tuple[tuple[str, int], ...]) -> si_pb2.Resource:
    """A shared message per distinct amounts. It is copied when it is added to another message."""
    return _made(amounts)


def _made(amounts: Iterable[tuple[str, int]]) -> si_pb2.Resource:
    return si_pb2.Resource(resources={name: si_pb2.Quantity(value=amount) for name, amount in amounts})


def _preemption(ask: AskSpec) -> si_pb2.PreemptionPolicy:
    return _POLICIES[ask.allow_preempt_self, ask.allow_preempt_other]


_POLICIES: Final = {
    (itself, other): si_pb2.PreemptionPolicy(allowPreemptSelf=itself, allowPreemptOther=other)
    for itself in (True, False)
    for other in (True, False)
}


def _termination(termination: TerminationType) -> si_pb2.TerminationType.ValueType:
    return si_pb2.TerminationType.ValueType(termination)


Response = si_pb2.AllocationResponse | si_pb2.ApplicationResponse | si_pb2.NodeResponse

_STATES: Final[Mapping[int, SchedulingState]] = {
    si_pb2.UpdateContainerSchedulingStateRequest.SKIPPED: SchedulingState.SKIPPED,
    si_pb2.UpdateContainerSchedulingStateRequest.SCHEDULED: SchedulingState.SCHEDULED,
    si_pb2.UpdateContainerSchedulingStateRequest.RESERVED: SchedulingState.RESERVED,
    si_pb2.UpdateContainerSchedulingStateRequest.FAILED: SchedulingState.FAILED,
}

_EVENT_KINDS: Final[Mapping[int, EventKind]] = {
    si_pb2.EventRecord.REQUEST: EventKind.REQUEST,
    si_pb2.EventRecord.APP: EventKind.APP,
    si_pb2.EventRecord.NODE: EventKind.NODE,
    si_pb2.EventRecord.QUEUE: EventKind.QUEUE,
}

_COMES_OR_GOES: Final = frozenset({si_pb2.EventRecord.ADD, si_pb2.EventRecord.REMOVE})
_KNOWN_TERMINATIONS: Final = frozenset(TerminationType)


def decoded(response: Response) -> CoreResponse:
    """Decodes a response of the core."""
    match response:
        case si_pb2.AllocationResponse():
            return _allocation_response(response)
        case si_pb2.ApplicationResponse():
            return ApplicationResponse(
                rejected=tuple(ApplicationRejected(AppId(r.applicationID), r.reason) for r in response.rejected),
                accepted=tuple(ApplicationAccepted(AppId(a.applicationID)) for a in response.accepted),
                updated=tuple(ApplicationUpdated(AppId(u.applicationID), u.state, u.message) for u in response.updated),
            )
        case si_pb2.NodeResponse():
            return NodeResponse(
                accepted=tuple(NodeName(node.nodeID) for node in response.accepted),
                rejected={NodeName(node.nodeID): node.reason for node in response.rejected},
            )


def decoded_callback(callback: muster_pb2.Callback) -> CoreResponse | None:
    """Decodes a callback of the core. Returns None for a question or a request for a new registration."""
    match callback.WhichOneof("kind"):
        case "schedulingStates":
            return _scheduling_states(callback.schedulingStates)
        case "events":
            return CoreEvents(tuple(_core_event(event) for event in callback.events.events if _is_reported(event)))
        case "nodeRecommendations":
            found = callback.nodeRecommendations.recommendations
            return Recommendations(tuple(NodeRecommended(NodeName(one.nodeID), one.message) for one in found))
        case _:
            return None


def decoded_inventory(inventory: muster_pb2.Inventory, part: InventoryPart, beyond: str) -> Inventory:
    """Decodes an inventory of the core."""
    return Inventory(
        part=part,
        beyond=beyond,
        last=inventory.last,
        applications=tuple(
            ApplicationInCore(
                AppId(app.applicationID),
                frozenset(PodUid(key) for key in app.askKeys),
                tuple(_held(allocation) for allocation in app.allocations),
            )
            for app in inventory.applications
        ),
        nodes=tuple(
            NodeInCore(NodeName(node.nodeID), node.schedulable, frozenset(PodUid(key) for key in node.foreignKeys))
            for node in inventory.nodes
        ),
    )


def _held(allocation: muster_pb2.AllocationInventory) -> HeldInCore:
    return HeldInCore(
        PodUid(allocation.allocationKey),
        NodeName(allocation.nodeID),
        AllocationId(allocation.allocationID),
        _termination_of(allocation.releasing) or None,
    )


def _is_reported(event: si_pb2.EventRecord) -> bool:
    """Whether the event is of a known kind and is not about an added or removed node, which has a response."""
    has_response = event.type == si_pb2.EventRecord.NODE and event.eventChangeType in _COMES_OR_GOES
    return event.type in _EVENT_KINDS and not has_response


def _released(gone: si_pb2.AllocationRelease) -> Released:
    termination = _termination_of(gone.terminationType)
    at_once = termination is TerminationType.PLACEHOLDER_REPLACED and gone.message.endswith(keys.RELEASE_AT_ONCE)
    return Released(
        AppId(gone.applicationID),
        PodUid(gone.allocationKey),
        termination,
        AllocationId(gone.allocationID),
        gone.message.removesuffix(keys.RELEASE_AT_ONCE) if at_once else gone.message,
        at_once,
    )


def _allocation_response(response: si_pb2.AllocationResponse) -> AllocationResponse:
    return AllocationResponse(
        cancelled_asks=tuple(
            AskCancelled(
                AppId(gone.applicationID),
                PodUid(gone.allocationKey),
                _termination_of(gone.terminationType),
                gone.message,
            )
            for gone in response.releasedAsks
        ),
        released=tuple(map(_released, response.released)),
        allocated=tuple(_allocated(new) for new in response.new),
        rejected_asks=tuple(
            AskRejected(AppId(no.applicationID), PodUid(no.allocationKey), no.reason) for no in response.rejected
        ),
        rejected_allocations=tuple(
            AllocationRejected(AppId(no.applicationID), PodUid(no.allocationKey), no.reason)
            for no in response.rejectedAllocations
        ),
    )


def _allocated(new: si_pb2.Allocation) -> Allocated:
    return Allocated(
        AppId(new.applicationID),
        PodUid(new.allocationKey),
        NodeName(new.nodeID),
        AllocationId(new.allocationID),
        _chosen_volumes(new.allocationTags.get(keys.TAG_CHOSEN_VOLUMES, "")),
        chosen_devices(devices) if (devices := new.allocationTags.get(keys.TAG_CHOSEN_DEVICES)) else (),
    )


def _chosen_volumes(written: str) -> ChosenVolumes:
    return {str(claim): str(volume) for claim, volume in orjson.loads(written).items()} if written else {}


def _scheduling_states(message: muster_pb2.SchedulingStates) -> SchedulingStates:
    kinds, nodes = chain(message.reasonKinds, repeat("")), chain(message.preemptionNodes, repeat(""))
    return SchedulingStates(
        tuple(
            SchedulingStateChanged(
                AppId(one.applicationID),
                PodUid(one.allocationKey),
                _STATES[one.state],
                one.reason,
                kind,
                NodeName(node),
            )
            for one, kind, node in zip(message.states, kinds, nodes, strict=False)
            if one.state in _STATES
        )
    )


def _core_event(event: si_pb2.EventRecord) -> CoreEvent:
    return CoreEvent(
        kind=_EVENT_KINDS[event.type],
        object_id=event.objectID,
        reference_id=event.referenceID,
        message=event.message,
    )


def _termination_of(number: int) -> TerminationType:
    return TerminationType(number) if number in _KNOWN_TERMINATIONS else TerminationType.UNKNOWN
