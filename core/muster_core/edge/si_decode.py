"""Scheduler Interface messages → the core's events: decoded once, here, item by item.

An item that cannot be taken becomes a refusal in the message kind that seed
003 has for it; the others of its message go on (semantics 3). Only a message
that cannot be attributed at all is refused as a whole, with `Refused`.
With si_encode.py the only reader of protobuf in the core. Called by
scheduler.py, one Decoder per session; it never looks at the world.

Source: seed 003; maps as in muster_si.keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from muster_core.edge import facts, fields, namespace_quota, node_facts, pod_facts
from muster_core.edge.asks import Asks
from muster_core.edge.fields import Amounts, Partitions
from muster_core.edge.reading import NAME_LIMIT
from muster_core.edge.refusals import Unfit
from muster_core.model import limits
from muster_core.model.effects import AllocationAnswer, ApplicationRejected, Effect, NodeRejected, Refusal
from muster_core.model.events import (
    AllocationReleased,
    AllocationReported,
    ApplicationAdded,
    ApplicationRemoved,
    AskAdded,
    AskReleased,
    Event,
    NodeAction,
    NodeAdded,
    NodeTold,
    NodeUpdated,
)
from muster_core.model.facts import NO_FACTS, PodFacts
from muster_core.model.ids import (
    AllocationId,
    AllocationKey,
    ApplicationId,
    NodeId,
    RmId,
    allocation_id,
)
from muster_core.model.notes import EventNoted, Notice
from muster_core.model.specs import AllocationSpec, ApplicationSpec, GangStyle, NodeSpec
from muster_si import keys, si_pb2

_SECOND: Final = 1_000_000_000
_MILLISECOND: Final = 1_000_000
#: A queue's full path: every part has its own, shorter bound where queues are made.
_QUEUE_LIMIT: Final = 1024

_NODE_ACTIONS: Final[Mapping[int, NodeAction]] = {
    si_pb2.NodeInfo.DRAIN_NODE: NodeAction.DRAIN,
    si_pb2.NodeInfo.DRAIN_TO_SCHEDULABLE: NodeAction.OPEN,
    si_pb2.NodeInfo.DECOMISSION: NodeAction.DECOMMISSION,
}
#: What is read of an allocation that is there, whatever else its tags say.
_COUNTED_TAGS: Final = (
    keys.TAG_NAMESPACE,
    keys.TAG_POD_NAME,
    keys.TAG_CREATION_TIME,
    keys.TAG_ALLOCATED_AT,
    keys.TAG_FOREIGN,
    keys.TAG_REQUIRED_NODE,
)
#: The same of an application that has bound pods.
_IDENTITY_TAGS: Final = (
    keys.APP_TAG_NAMESPACE,
    keys.APP_TAG_PARENT_QUEUE,
    keys.APP_TAG_RESOURCE_QUOTA,
    keys.APP_TAG_RESOURCE_GUARANTEED,
    keys.APP_TAG_RESOURCE_MAX_APPS,
    keys.APP_TAG_CREATE_FORCE,
    keys.APP_TAG_CREATION_TIME,
    keys.APP_TAG_APPLICATION_ID,
    keys.APP_TAG_RENEWAL,
)
_STYLES: Final[Mapping[str, GangStyle]] = {keys.STYLE_SOFT: GangStyle.SOFT, keys.STYLE_HARD: GangStyle.HARD}


@dataclass(slots=True)
class Intake:
    """One message, taken apart. `answers`: refusals and warnings the decoder has to say itself."""

    events: list[Event] = field(default_factory=list)
    answers: list[Effect] = field(default_factory=list)


class Decoder:
    """Decodes the messages of one resource manager, whose partitions it knows by name."""

    def __init__(self, rm: RmId, partitions: Iterable[str]) -> None:
        self._rm = rm
        self._names = [*partitions]
        self.partitions = Partitions(rm, self._names)
        #: Of a whole gang; of one pod; of what is there and has to count.
        self._sums, self._amounts = Amounts(), Amounts(limits.QUANTITY)
        self._counted = Amounts(limits.QUANTITY, counts=True)
        self._asks = Asks(self.partitions, self._amounts)
        #: Partition of each node that was not created in the default one.
        self._partition_of_node: dict[str, str] = {}

    def know_partitions(self, names: Iterable[str]) -> None:
        """The partitions of the configuration in force from now on. Earlier ones stay known: what
        ends there is still confirmed, and the world refuses what is new.
        """
        self._names = [*dict.fromkeys((*self._names, *names))]
        self.partitions = Partitions(self._rm, self._names)
        self._asks = Asks(self.partitions, self._amounts)

    def allocations(self, request: si_pb2.AllocationRequest) -> Intake:
        """Asks, existing allocations, releases and confirmations."""
        intake = Intake()
        rejected_asks: list[Refusal] = []
        rejected_allocations: list[Refusal] = []
        events = intake.events
        for number, ask in enumerate(request.asks):
            try:
                _within(number, "asks")
                events.append(AskAdded(self._asks.read(ask)))
            except Unfit as unfit:
                rejected_asks.append(_refusal(ask, unfit))
        for allocation in request.allocations:
            try:
                events.append(AllocationReported(self._allocation(allocation, intake, node="")))
            except Unfit as unfit:
                rejected_allocations.append(_refusal(allocation, unfit))
        for release in request.releases.allocationsToRelease:
            try:
                events.append(self._release(release))
            except Unfit as unfit:
                rejected_allocations.append(_refusal(release, unfit))
        for ask_release in request.releases.allocationAsksToRelease:
            try:
                events.append(self._ask_release(ask_release))
            except Unfit as unfit:
                rejected_asks.append(_refusal(ask_release, unfit))
        if rejected_asks or rejected_allocations:
            intake.answers.append(
                AllocationAnswer(
                    self._rm, rejected_asks=tuple(rejected_asks), rejected_allocations=tuple(rejected_allocations)
                )
            )
        return intake

    def applications(self, request: si_pb2.ApplicationRequest) -> Intake:
        """New and removed applications."""
        intake = Intake()
        for number, new in enumerate(request.new):
            try:
                _within(number, "applications")
                intake.events.append(ApplicationAdded(self._application(new, intake)))
            except Unfit as unfit:
                intake.answers.append(ApplicationRejected(self._rm, fields.shown(new.applicationID), str(unfit)))
        for gone in request.remove:
            try:
                partition = self.partitions.find(gone.partitionName)
                intake.events.append(ApplicationRemoved(partition, fields.application_id(gone.applicationID)))
            except Unfit as unfit:
                intake.answers.append(ApplicationRejected(self._rm, fields.shown(gone.applicationID), str(unfit)))
        return intake

    def nodes(self, request: si_pb2.NodeRequest) -> Intake:
        """Node actions, with what already runs on a new node."""
        intake = Intake()
        for node in request.nodes:
            try:
                intake.events.append(self._node(node, intake))
            except Unfit as unfit:
                intake.answers.append(NodeRejected(self._rm, NodeId(node.nodeID[:NAME_LIMIT]), str(unfit)))
        return intake

    def _allocation(self, allocation: si_pb2.Allocation, intake: Intake, *, node: str) -> AllocationSpec:
        """`node`: where it was reported; empty = it has to say so itself. It is there and counts: of what cannot be
        taken of its tags only that is left out, and said.
        """
        tags, pod = self._said_of_pod(allocation, intake)
        group = fields.group(allocation.taskGroupName)
        key = fields.allocation_key(allocation.allocationKey)
        if node and allocation.nodeID not in ("", node):
            raise Unfit("nodeID", f"is {fields.shown(allocation.nodeID)!r}, but it was reported with node {node!r}")
        application = allocation.applicationID
        identity = fields.bounded(allocation.allocationID, "allocationID")
        itself, others = fields.preemption(allocation)
        return AllocationSpec(
            partition=self.partitions.find(allocation.partitionName),
            application=ApplicationId(fields.bounded(application, "applicationID")),
            key=key,
            id=AllocationId(identity) if identity else allocation_id(key, 0),
            node=NodeId(fields.named(allocation.nodeID or node, "nodeID")),
            resources=self._counted.read(allocation.resourcePerAlloc, "resourcePerAlloc"),
            group=group,
            placeholder=allocation.placeholder and bool(group),
            originator=allocation.originator,
            priority=allocation.priority,
            namespace=tags.get(keys.TAG_NAMESPACE, ""),
            tags=tags,
            facts=pod,
            foreign=keys.TAG_FOREIGN in tags or not application,  # semantics 7
            required_node=fields.required_node(tags),
            allow_preempt_self=itself,
            allow_preempt_other=others,
            created_ns=fields.moment(tags, keys.TAG_CREATION_TIME, _SECOND),
            allocated_ns=fields.moment(tags, keys.TAG_ALLOCATED_AT, _MILLISECOND),
        )

    def _said_of_pod(self, allocation: si_pb2.Allocation, intake: Intake) -> tuple[dict[str, str], PodFacts]:
        """The tags of an allocation, and what filters read of them."""
        found = allocation.allocationTags
        try:
            tags = fields.tags(found, "allocationTags")
            return tags, pod_facts.read(tags)
        except Unfit as unfit:
            key, app = allocation.allocationKey[:NAME_LIMIT], allocation.applicationID[:NAME_LIMIT]
            text = f"constraints are ignored, resources count: {unfit}"
            intake.answers.append(EventNoted(self._rm, Notice.REQUEST, key, text, app))
        return {tag: found[tag] for tag in _COUNTED_TAGS if tag in found and len(found[tag]) <= NAME_LIMIT}, NO_FACTS

    def _release(self, release: si_pb2.AllocationRelease) -> AllocationReleased:
        key = fields.bounded(release.allocationKey, "allocationKey")
        identity = fields.bounded(release.allocationID, "allocationID")
        if not release.applicationID and not key:
            raise Unfit("applicationID", "is missing, and there is no allocationKey of an independent allocation")
        return AllocationReleased(
            partition=self.partitions.find(release.partitionName),
            application=ApplicationId(fields.bounded(release.applicationID, "applicationID")),
            key=AllocationKey(key) if key else None,
            id=AllocationId(identity) if identity else None,
            termination=fields.termination(release.terminationType),
            message=release.message,
        )

    def _ask_release(self, release: si_pb2.AllocationAskRelease) -> AskReleased:
        key = fields.bounded(release.allocationKey, "allocationKey")
        return AskReleased(
            partition=self.partitions.find(release.partitionName),
            application=fields.application_id(release.applicationID),
            key=AllocationKey(key) if key else None,
            termination=fields.termination(release.terminationType),
            message=release.message,
        )

    def _application(self, new: si_pb2.AddApplicationRequest, intake: Intake) -> ApplicationSpec:
        """One with bound pods is never refused: what cannot be taken of its definition is dropped, and reported."""
        try:
            return self._defined(new, intake)
        except Unfit as unfit:
            if new.tags.get(keys.APP_TAG_CREATE_FORCE, "").lower() != "true":
                raise
            spec = self._defined(_identity_of(new), intake)
            text = f"the definition is ignored, bound pods count: {unfit}"
            intake.answers.append(EventNoted(self._rm, Notice.APPLICATION, spec.id, text, app_name=_name(new)))
            return spec

    def _defined(self, new: si_pb2.AddApplicationRequest, intake: Intake) -> ApplicationSpec:
        tags = fields.tags(new.tags, "tags", limits.TAG_CHARACTERS_PER_APPLICATION)
        ask = self._sums.read(new.placeholderAsk, "placeholderAsk")
        if len(new.queueName) > _QUEUE_LIMIT:
            raise Unfit("queueName", f"is longer than {_QUEUE_LIMIT} characters")
        quota, odd = namespace_quota.read(tags, self._sums)
        spec = ApplicationSpec(
            partition=self.partitions.find(new.partitionName),
            id=fields.application_id(new.applicationID),
            queue=new.queueName,
            user=fields.bounded(new.ugi.user, "ugi.user") or "nobody",
            groups=tuple(fields.bounded(group, "ugi.groups") for group in new.ugi.groups),
            tags=tags,
            timeout_ns=facts.span_ns(new.executionTimeoutMilliSeconds, "executionTimeoutMilliSeconds"),
            wait_timeout_ns=fields.moment(tags, keys.APP_TAG_GANG_WAIT_TIMEOUT, _MILLISECOND),
            placeholder_ask=ask,
            style=_STYLES.get(new.gangSchedulingStyle, GangStyle.SOFT),
            gang_placement=fields.gang_placement(tags),
            members=fields.members(tags),
            topology=fields.topology(tags),
            created_ns=fields.moment(tags, keys.APP_TAG_CREATION_TIME, _SECOND),
            forced=tags.get(keys.APP_TAG_CREATE_FORCE, "").lower() == "true",
            quota=quota,
            namespace=tags.get(keys.APP_TAG_NAMESPACE, ""),
            shown_as=fields.bounded(tags.get(keys.APP_TAG_APPLICATION_ID, ""), keys.APP_TAG_APPLICATION_ID),
            is_renewal=tags.get(keys.APP_TAG_RENEWAL) == "true",
        )
        if ask and new.gangSchedulingStyle not in _STYLES:
            intake.answers.append(_style_warning(self._rm, new))
        intake.answers += _quota_warnings(self._rm, new, odd)
        return spec

    def _node(self, info: si_pb2.NodeInfo, intake: Intake) -> Event:
        node = NodeId(fields.named(info.nodeID, "nodeID"))
        told = _NODE_ACTIONS.get(info.action)
        if told is not None:
            name = info.attributes.get(keys.NODE_PARTITION) or self._partition_of_node.get(node)
            return NodeTold(self.partitions.find(name or keys.DEFAULT_PARTITION), node, told)
        if info.action not in (si_pb2.NodeInfo.CREATE, si_pb2.NodeInfo.CREATE_DRAIN, si_pb2.NodeInfo.UPDATE):
            raise Unfit("action", f"is not known: {int(info.action)}")
        spec = self._node_spec(info, node)
        if info.action == si_pb2.NodeInfo.UPDATE:
            if not info.HasField("schedulableResource"):
                raise Unfit("schedulableResource", "is missing, and an UPDATE replaces it")
            return NodeUpdated(spec, self._existing(info, intake))
        draining = info.action == si_pb2.NodeInfo.CREATE_DRAIN
        return NodeAdded(spec, draining=draining, existing=self._existing(info, intake))

    def _node_spec(self, info: si_pb2.NodeInfo, node: NodeId) -> NodeSpec:
        attributes = dict(info.attributes)
        name = attributes.get(keys.NODE_PARTITION) or self._partition_of_node.get(node) or keys.DEFAULT_PARTITION
        partition = self.partitions.find(name)
        if name != keys.DEFAULT_PARTITION:
            self._partition_of_node[node] = name
        prefix = keys.NODE_LABEL_PREFIX
        images = node_facts.images(attributes)
        attributes.pop(keys.LOCAL_IMAGES, None)  # the longest of them all, and of no use to people
        return NodeSpec(
            partition=partition,
            id=node,
            capacity=self._counted.read(info.schedulableResource, "schedulableResource"),
            occupied=self._counted.read(info.occupiedResource, "occupiedResource"),
            labels={key[len(prefix) :]: value for key, value in attributes.items() if key.startswith(prefix)},
            taints=node_facts.taints(attributes),
            cordoned=node_facts.is_cordoned(attributes),
            features=node_facts.features(attributes),
            images=images,
            storage=node_facts.storage(attributes),
            attributes=attributes,
        )

    def _existing(self, info: si_pb2.NodeInfo, intake: Intake) -> tuple[AllocationSpec, ...]:
        """What already runs on a new node; what is unfit is refused by itself, not the node."""
        taken: list[AllocationSpec] = []
        refused: list[Refusal] = []
        for allocation in info.existingAllocations:
            try:
                taken.append(self._allocation(allocation, intake, node=info.nodeID))
            except Unfit as unfit:
                refused.append(_refusal(allocation, unfit))
        if refused:
            intake.answers.append(AllocationAnswer(self._rm, rejected_allocations=tuple(refused)))
        return tuple(taken)


def _identity_of(new: si_pb2.AddApplicationRequest) -> si_pb2.AddApplicationRequest:
    """The application with what it is found and counted by alone, as far as that is within its bounds."""
    user, groups = new.ugi.user, [group for group in new.ugi.groups if len(group) <= NAME_LIMIT]
    tags = {tag: new.tags[tag] for tag in _IDENTITY_TAGS if tag in new.tags and len(new.tags[tag]) <= NAME_LIMIT}
    try:
        fields.moment(tags, keys.APP_TAG_CREATION_TIME, _SECOND)
    except Unfit:
        del tags[keys.APP_TAG_CREATION_TIME]
    return si_pb2.AddApplicationRequest(
        applicationID=new.applicationID,
        partitionName=new.partitionName,
        queueName=new.queueName if len(new.queueName) <= _QUEUE_LIMIT else "",
        ugi=si_pb2.UserGroupInformation(user=user if len(user) <= NAME_LIMIT else "", groups=groups),
        tags=tags,
    )


def _within(number: int, what: str) -> None:
    """Check the number of items of one kind in a message. Raises Unfit."""
    if number >= limits.ITEMS_PER_MESSAGE:
        raise Unfit("the message", f"has more than {limits.ITEMS_PER_MESSAGE} {what}: send several messages")


_Item = si_pb2.AllocationAsk | si_pb2.Allocation | si_pb2.AllocationRelease | si_pb2.AllocationAskRelease


def _refusal(item: _Item, unfit: Unfit) -> Refusal:
    return Refusal(fields.shown(item.applicationID), AllocationKey(item.allocationKey[:NAME_LIMIT]), str(unfit))


def _style_warning(rm: RmId, new: si_pb2.AddApplicationRequest) -> EventNoted:
    """Semantics 8: an empty or unknown style is Soft, and that is said."""
    found = new.gangSchedulingStyle[:32]
    said = f"gangSchedulingStyle {found!r} is not known" if found else "gangSchedulingStyle is not given"
    known = " or ".join(_STYLES)
    message = f"{said}; it is taken as {GangStyle.SOFT} ({known})"
    return EventNoted(rm, Notice.APPLICATION, new.applicationID, message, app_name=_name(new))


def _quota_warnings(rm: RmId, new: si_pb2.AddApplicationRequest, odd: list[str]) -> list[EventNoted]:
    """What of a namespace's quota was left out (contract 1.6)."""
    said = (f"the namespace's quota is left out: {why}" for why in odd)
    return [EventNoted(rm, Notice.APPLICATION, new.applicationID, text, app_name=_name(new)) for text in said]


def _name(new: si_pb2.AddApplicationRequest) -> str:
    return str(new.tags.get(keys.APP_TAG_APPLICATION_ID, ""))
