"""Decodes messages of the Scheduler Interface to events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, TypeVar, cast

from google.protobuf import json_format

from muster_core.model import limits
from muster_core.model.constraints import Taint
from muster_core.model.effects import AllocationResponse, ApplicationRejected, Effect, NodeRejected, Rejection
from muster_core.model.events import (
    AllocationReleased,
    AllocationReported,
    ApplicationAdded,
    ApplicationRemoved,
    AskAdded,
    AskReleased,
    Event,
    NodeAction,
    NodeActionReported,
    NodeAdded,
    NodeUpdated,
)
from muster_core.model.ids import AllocationId, AllocationKey, ApplicationId, NodeId, RmId, allocation_id
from muster_core.model.records import EventRecorded, Notice
from muster_core.model.resources import Limit, Resources
from muster_core.model.specs import (
    NO_PROPERTIES,
    AllocationSpec,
    ApplicationSpec,
    AskSpec,
    GangStyle,
    NamespaceQuota,
    NodeSpec,
    PodProperties,
)
from muster_core.model.storage import NodeStorage, VolumeHandle
from muster_core.si import pod_tags, values
from muster_core.si.pod_tags import AmountReader, Partitions
from muster_core.si.values import NAME_LIMIT, QUANTITY_LIMIT, InvalidField, an_object, memoized, parsed, texts
from muster_si import keys, si_pb2

#: Longer texts are rejected. A few dozen resources fit many times.
_LONGEST: Final = 16_384
_MOST_DIGITS: Final = 18
NO_QUOTA: Final = NamespaceQuota()


def read_namespace_quota(tags: Mapping[str, str], amounts: AmountReader) -> tuple[NamespaceQuota, list[str]]:
    """Returns the quota, and the error of each tag that was ignored."""
    odd: list[str] = []
    most, least = (_message(tags, tag, amounts, odd) for tag in _AMOUNTS)
    count = _count(tags.get(keys.APP_TAG_RESOURCE_MAX_APPS, ""), odd)
    if most is None and least is None and count is None:
        return NO_QUOTA, odd
    return NamespaceQuota(
        max=None if most is None else Limit(most),
        guaranteed=None if least is None else Resources(least),
        max_applications=count,
    ), odd


_AMOUNTS: Final = (keys.APP_TAG_RESOURCE_QUOTA, keys.APP_TAG_RESOURCE_GUARANTEED)


def _message(tags: Mapping[str, str], tag: str, amounts: AmountReader, odd: list[str]) -> dict[str, int] | None:
    text = tags.get(tag, "")
    if not text:
        return None
    if len(text) > _LONGEST:
        odd.append(f"{tag} is longer than {_LONGEST} characters")
        return None
    message = si_pb2.Resource()
    try:
        json_format.Parse(text, message, max_recursion_depth=10)
        amounts.read(message, tag)
    except (json_format.ParseError, RecursionError) as error:
        odd.append(f'{tag} is not a quota such as {{"resources": {{"vcore": {{"value": 1000}}}}}}: {error}'[:300])
        return None
    except InvalidField as unfit:
        odd.append(str(unfit))
        return None
    return {name: quantity.value for name, quantity in message.resources.items()}


def _count(text: str, odd: list[str]) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        odd.append(f"{keys.APP_TAG_RESOURCE_MAX_APPS} is {text[:40]!r}, not a count")
        return None
    return int(text)


#: A kubelet reports at most 50 images with 5 names each, unless it is told otherwise; a name is a host, a path
#: and a digest, 255 + 255 + 72 characters at most. Twice the 150,000 that this makes, rounded.
IMAGES_LIMIT: Final = 262_144

#: 1 PiB: sums of sizes stay exact in a double.
_LARGEST: Final = 2**50

#: An int32 in a CSINode.
_MOST: Final = 2**31 - 1
_NO_IMAGES: Final[Mapping[str, int]] = MappingProxyType({})
Value = TypeVar("Value")


def taints(attributes: Mapping[str, str]) -> tuple[Taint, ...]:
    """Decodes `muster/taints`."""
    return _read(attributes, keys.NODE_TAINTS, values.taints) or ()


def features(attributes: Mapping[str, str]) -> frozenset[str]:
    """Decodes `muster/declared-features`."""
    return _read(attributes, keys.NODE_FEATURES, _features) or frozenset()


def is_cordoned(attributes: Mapping[str, str]) -> bool:
    """Decodes `muster/unschedulable`."""
    return attributes.get(keys.NODE_UNSCHEDULABLE) == "true"


def images(attributes: Mapping[str, str]) -> Mapping[str, int]:
    """Decodes `si/local-images`."""
    return _read(attributes, keys.LOCAL_IMAGES, _images) or _NO_IMAGES


def storage(attributes: Mapping[str, str]) -> NodeStorage | None:
    """Decodes `muster/volume-limits`, `muster/attached-volumes` and `muster/migrated-plugins`; None = none is set."""
    limits = _read(attributes, keys.NODE_VOLUME_LIMITS, _limits)
    attached = _read(attributes, keys.NODE_ATTACHED, _attached)
    migrated = _read(attributes, keys.NODE_MIGRATED, _migrated)
    if limits is None and attached is None and migrated is None:
        return None
    return NodeStorage(limits or {}, attached or (), migrated or ())


def _read(attributes: Mapping[str, str], key: str, reader: Callable[[str], Value]) -> Value | None:
    text = attributes.get(key)
    try:
        return reader(text) if text else None
    except InvalidField as unfit:
        raise unfit.inside(key) from unfit


@memoized
def _features(text: str) -> frozenset[str]:
    found = parsed(text)
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise InvalidField("the value", "is not a list of texts")
    return frozenset(found)


@memoized
def _limits(text: str) -> Mapping[str, int | None]:
    found = an_object(parsed(text), "the value")
    for driver, count in found.items():
        if count is not None and (not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= _MOST):
            raise InvalidField(driver[:NAME_LIMIT], f"is neither null nor a whole number from 0 to {_MOST}")
    return cast("Mapping[str, int | None]", found)


@memoized
def _migrated(text: str) -> tuple[str, ...]:
    return tuple(sorted(_features(text)))


def _attached(text: str) -> tuple[VolumeHandle, ...]:
    found = an_object(parsed(text), "the value")
    return tuple(VolumeHandle(driver, handle) for driver in sorted(found) for handle in texts(found, driver))


def _images(text: str) -> Mapping[str, int]:
    found = an_object(parsed(text, IMAGES_LIMIT), "the value")
    for size in found.values():
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _LARGEST:
            raise InvalidField("an image's size", f"is not a whole number from 0 to {_LARGEST}")
    return cast("Mapping[str, int]", found)


_SECOND: Final = 1_000_000_000

#: Number of cached requests that later ones may resemble. If it is exceeded, the cache is cleared.
_REMEMBERED: Final = 2048

#: What is each ask's own, beside its key.
OWN_TAGS: Final = (keys.TAG_POD_NAME, keys.TAG_CREATION_TIME)

#: What hangs on the name as well.
_OF_THE_NAME: Final = frozenset({keys.TAG_VOLUMES, keys.TAG_PLACEMENT})


class Asks:
    """Decodes the requests of one resource manager."""

    def __init__(self, partitions: Partitions, amounts: AmountReader) -> None:
        self._partitions, self._amounts = partitions, amounts
        self._known: dict[bytes, AskSpec] = {}

    def read(self, ask: si_pb2.AllocationAsk) -> AskSpec:
        """Decodes a request. The message is unchanged afterwards. Raises Unfit."""
        tags, key = ask.tags, ask.allocationKey
        name, created = tags.get(keys.TAG_POD_NAME), tags.get(keys.TAG_CREATION_TIME)
        if name is None or created is None or not key:
            return self._whole(ask)
        del tags[keys.TAG_POD_NAME], tags[keys.TAG_CREATION_TIME]
        ask.allocationKey = ""
        text = ask.SerializeToString()
        tags[keys.TAG_POD_NAME], tags[keys.TAG_CREATION_TIME], ask.allocationKey = name, created, key
        like = self._known.get(text)
        if like is None:
            found = self._whole(ask)
            return self._remembered(text, found) if _OF_THE_NAME.isdisjoint(found.tags) else found
        return _alike(like, key, name, created)

    def _remembered(self, text: bytes, found: AskSpec) -> AskSpec:
        """Adds the request to the cache of similar requests and returns it."""
        if len(text) > _LONGEST:
            return found
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        common = {tag: value for tag, value in found.tags.items() if tag not in OWN_TAGS}
        like = self._known[text] = replace(found, common=common)
        return like

    def _whole(self, ask: si_pb2.AllocationAsk) -> AskSpec:
        count = ask.maxAllocations
        if count <= 0:
            raise InvalidField("maxAllocations", f"is not positive: {count}")
        amount = self._amounts.read(ask.resourceAsk, "resourceAsk")
        if count > 1 and any(each * count > QUANTITY_LIMIT for _, each in amount.items()):
            raise InvalidField("resourceAsk", f"is out of range when taken {count} times")
        tags = pod_tags.tags(ask.tags, "tags")
        group = values.group(ask.taskGroupName)
        itself, others = pod_tags.preemption(ask)
        return AskSpec(
            partition=self._partitions.find(ask.partitionName),
            application=values.application_id(ask.applicationID),
            key=values.allocation_key(ask.allocationKey),
            resources=amount,
            constraints=pod_tags.constraints(tags),
            group=group,
            placeholder=ask.placeholder and bool(group),  # ignored without a task group
            originator=ask.Originator,
            priority=ask.priority,
            max_allocations=count,
            timeout_ns=values.span_ns(ask.executionTimeoutMilliSeconds, "executionTimeoutMilliSeconds"),
            namespace=tags.get(keys.TAG_NAMESPACE, ""),
            tags=tags,
            avoid=pod_tags.nodes_to_avoid(tags),
            required_node=pod_tags.required_node(tags),
            placement=pod_tags.placement(tags),
            facts=pod_tags.read_properties(tags),
            allow_preempt_self=itself,
            allow_preempt_other=others,
            created_ns=values.moment_of(tags, keys.TAG_CREATION_TIME, _SECOND),
        )


def _alike(like: AskSpec, key: str, name: str, created: str) -> AskSpec:
    """Returns a request that differs from `like` only in these values. Raises Unfit."""
    tags = {**like.common, keys.TAG_POD_NAME: name, keys.TAG_CREATION_TIME: created}
    return AskSpec(
        like.partition,
        like.application,
        values.allocation_key(key),
        like.resources,
        like.constraints,
        like.group,
        like.placeholder,
        like.is_virtual,
        like.originator,
        like.priority,
        like.max_allocations,
        like.timeout_ns,
        like.namespace,
        tags,
        like.avoid,
        like.required_node,
        like.placement,
        like.facts,
        like.allow_preempt_self,
        like.allow_preempt_other,
        values.moment_of(tags, keys.TAG_CREATION_TIME, _SECOND),
        like.common,
    )


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
    keys.TAG_UNVERIFIED,
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
    """The content of one message. `answers`: rejections and warnings that the decoder itself sends."""

    events: list[Event] = field(default_factory=list)
    answers: list[Effect] = field(default_factory=list)


class Decoder:
    """Decodes the messages of one resource manager."""

    def __init__(self, rm: RmId, partitions: Iterable[str]) -> None:
        self._rm = rm
        self._names = [*partitions]
        self.partitions = Partitions(rm, self._names)
        #: Of a whole gang; of one pod; of what is there and has to count.
        self._sums, self._amounts = AmountReader(), AmountReader(limits.QUANTITY)
        self._counted = AmountReader(limits.QUANTITY, counts=True)
        self._asks = Asks(self.partitions, self._amounts)
        #: Partition of each node that is not in the default partition.
        self._partition_of_node: dict[str, str] = {}

    def know_partitions(self, names: Iterable[str]) -> None:
        """The partitions of the configuration in force from now on. Earlier ones stay known: what
        ends there is still confirmed, and the world refuses what is new.
        """
        self._names = [*dict.fromkeys((*self._names, *names))]
        self.partitions = Partitions(self._rm, self._names)
        self._asks = Asks(self.partitions, self._amounts)

    def allocations(self, request: si_pb2.AllocationRequest) -> Intake:
        """Decodes requests, existing allocations, releases and confirmations."""
        intake = Intake()
        rejected_asks: list[Rejection] = []
        rejected_allocations: list[Rejection] = []
        events = intake.events
        for number, ask in enumerate(request.asks):
            try:
                _within(number, "asks")
                events.append(AskAdded(self._asks.read(ask)))
            except InvalidField as unfit:
                rejected_asks.append(_refusal(ask, unfit))
        for allocation in request.allocations:
            try:
                events.append(AllocationReported(self._allocation(allocation, intake, node="")))
            except InvalidField as unfit:
                rejected_allocations.append(_refusal(allocation, unfit))
        for release in request.releases.allocationsToRelease:
            try:
                events.append(self._release(release))
            except InvalidField as unfit:
                rejected_allocations.append(_refusal(release, unfit))
        for ask_release in request.releases.allocationAsksToRelease:
            try:
                events.append(self._ask_release(ask_release))
            except InvalidField as unfit:
                rejected_asks.append(_refusal(ask_release, unfit))
        if rejected_asks or rejected_allocations:
            intake.answers.append(
                AllocationResponse(
                    self._rm, rejected_asks=tuple(rejected_asks), rejected_allocations=tuple(rejected_allocations)
                )
            )
        return intake

    def applications(self, request: si_pb2.ApplicationRequest) -> Intake:
        """Decodes new and removed applications."""
        intake = Intake()
        for number, new in enumerate(request.new):
            try:
                _within(number, "applications")
                intake.events.append(ApplicationAdded(self._application(new, intake)))
            except InvalidField as unfit:
                intake.answers.append(ApplicationRejected(self._rm, values.shown(new.applicationID), str(unfit)))
        for gone in request.remove:
            try:
                partition = self.partitions.find(gone.partitionName)
                intake.events.append(ApplicationRemoved(partition, values.application_id(gone.applicationID)))
            except InvalidField as unfit:
                intake.answers.append(ApplicationRejected(self._rm, values.shown(gone.applicationID), str(unfit)))
        return intake

    def nodes(self, request: si_pb2.NodeRequest) -> Intake:
        """Decodes node actions, with the allocations on a new node."""
        intake = Intake()
        for node in request.nodes:
            try:
                intake.events.append(self._node(node, intake))
            except InvalidField as unfit:
                intake.answers.append(NodeRejected(self._rm, NodeId(node.nodeID[:NAME_LIMIT]), str(unfit)))
        return intake

    def _allocation(self, allocation: si_pb2.Allocation, intake: Intake, *, node: str) -> AllocationSpec:
        """`node`: where it was reported; empty = it has to say so itself. It is there and counts: of what cannot be
        taken of its tags only that is left out, and said.
        """
        tags, pod = self._properties(allocation, intake)
        group = values.group(allocation.taskGroupName)
        key = values.allocation_key(allocation.allocationKey)
        if node and allocation.nodeID not in ("", node):
            raise InvalidField(
                "nodeID", f"is {values.shown(allocation.nodeID)!r}, but it was reported with node {node!r}"
            )
        application = allocation.applicationID
        identity = values.bounded(allocation.allocationID, "allocationID")
        itself, others = pod_tags.preemption(allocation)
        return AllocationSpec(
            partition=self.partitions.find(allocation.partitionName),
            application=ApplicationId(values.bounded(application, "applicationID")),
            key=key,
            id=AllocationId(identity) if identity else allocation_id(key, 0),
            node=NodeId(values.named(allocation.nodeID or node, "nodeID")),
            resources=self._counted.read(allocation.resourcePerAlloc, "resourcePerAlloc"),
            group=group,
            placeholder=allocation.placeholder and bool(group),
            originator=allocation.originator,
            priority=allocation.priority,
            namespace=tags.get(keys.TAG_NAMESPACE, ""),
            tags=tags,
            facts=pod,
            foreign=keys.TAG_FOREIGN in tags or not application,  # docs/internals/semantics.md, rule 7
            required_node=pod_tags.required_node(tags),
            allow_preempt_self=itself,
            allow_preempt_other=others,
            created_ns=values.moment_of(tags, keys.TAG_CREATION_TIME, _SECOND),
            allocated_ns=values.moment_of(tags, keys.TAG_ALLOCATED_AT, _MILLISECOND),
            unverified=tags.get(keys.TAG_UNVERIFIED) == "true",
        )

    def _properties(self, allocation: si_pb2.Allocation, intake: Intake) -> tuple[dict[str, str], PodProperties]:
        """Returns the tags of an allocation, and the properties that filters read."""
        found = allocation.allocationTags
        try:
            tags = pod_tags.tags(found, "allocationTags")
            return tags, pod_tags.read_properties(tags)
        except InvalidField as unfit:
            key, app = allocation.allocationKey[:NAME_LIMIT], allocation.applicationID[:NAME_LIMIT]
            text = f"constraints are ignored, resources count: {unfit}"
            intake.answers.append(EventRecorded(self._rm, Notice.REQUEST, key, text, app))
        return {
            tag: found[tag] for tag in _COUNTED_TAGS if tag in found and len(found[tag]) <= NAME_LIMIT
        }, NO_PROPERTIES

    def _release(self, release: si_pb2.AllocationRelease) -> AllocationReleased:
        key = values.bounded(release.allocationKey, "allocationKey")
        identity = values.bounded(release.allocationID, "allocationID")
        if not release.applicationID and not key:
            raise InvalidField(
                "applicationID", "is missing, and there is no allocationKey of an independent allocation"
            )
        return AllocationReleased(
            partition=self.partitions.find(release.partitionName),
            application=ApplicationId(values.bounded(release.applicationID, "applicationID")),
            key=AllocationKey(key) if key else None,
            id=AllocationId(identity) if identity else None,
            termination=values.termination(release.terminationType),
            message=release.message,
        )

    def _ask_release(self, release: si_pb2.AllocationAskRelease) -> AskReleased:
        key = values.bounded(release.allocationKey, "allocationKey")
        return AskReleased(
            partition=self.partitions.find(release.partitionName),
            application=values.application_id(release.applicationID),
            key=AllocationKey(key) if key else None,
            termination=values.termination(release.terminationType),
            message=release.message,
        )

    def _application(self, new: si_pb2.AddApplicationRequest, intake: Intake) -> ApplicationSpec:
        """Never rejects an application with bound pods. Invalid parts are dropped with a warning."""
        try:
            return self._defined(new, intake)
        except InvalidField as unfit:
            if new.tags.get(keys.APP_TAG_CREATE_FORCE, "").lower() != "true":
                raise
            spec = self._defined(_identity_of(new), intake)
            text = f"the definition is ignored, bound pods count: {unfit}"
            intake.answers.append(EventRecorded(self._rm, Notice.APPLICATION, spec.id, text, app_name=_name(new)))
            return spec

    def _defined(self, new: si_pb2.AddApplicationRequest, intake: Intake) -> ApplicationSpec:
        tags = pod_tags.tags(new.tags, "tags", limits.TAG_CHARACTERS_PER_APPLICATION)
        ask = self._sums.read(new.placeholderAsk, "placeholderAsk")
        if len(new.queueName) > _QUEUE_LIMIT:
            raise InvalidField("queueName", f"is longer than {_QUEUE_LIMIT} characters")
        quota, odd = read_namespace_quota(tags, self._sums)
        spec = ApplicationSpec(
            partition=self.partitions.find(new.partitionName),
            id=values.application_id(new.applicationID),
            queue=new.queueName,
            user=values.bounded(new.ugi.user, "ugi.user") or "nobody",
            groups=tuple(values.bounded(group, "ugi.groups") for group in new.ugi.groups),
            tags=tags,
            timeout_ns=values.span_ns(new.executionTimeoutMilliSeconds, "executionTimeoutMilliSeconds"),
            wait_timeout_ns=values.moment_of(tags, keys.APP_TAG_GANG_WAIT_TIMEOUT, _MILLISECOND),
            placeholder_ask=ask,
            style=_STYLES.get(new.gangSchedulingStyle, GangStyle.SOFT),
            gang_placement=pod_tags.gang_placement(tags),
            members=pod_tags.members(tags),
            topology=pod_tags.topology(tags),
            created_ns=values.moment_of(tags, keys.APP_TAG_CREATION_TIME, _SECOND),
            forced=tags.get(keys.APP_TAG_CREATE_FORCE, "").lower() == "true",
            quota=quota,
            namespace=tags.get(keys.APP_TAG_NAMESPACE, ""),
            shown_as=values.bounded(tags.get(keys.APP_TAG_APPLICATION_ID, ""), keys.APP_TAG_APPLICATION_ID),
            is_renewal=tags.get(keys.APP_TAG_RENEWAL) == "true",
        )
        if ask and new.gangSchedulingStyle not in _STYLES:
            intake.answers.append(_style_warning(self._rm, new))
        intake.answers += _quota_warnings(self._rm, new, odd)
        return spec

    def _node(self, info: si_pb2.NodeInfo, intake: Intake) -> Event:
        node = NodeId(values.named(info.nodeID, "nodeID"))
        told = _NODE_ACTIONS.get(info.action)
        if told is not None:
            name = info.attributes.get(keys.NODE_PARTITION) or self._partition_of_node.get(node)
            return NodeActionReported(self.partitions.find(name or keys.DEFAULT_PARTITION), node, told)
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
        partition = self.partitions.find(name)
        if name != keys.DEFAULT_PARTITION:
            self._partition_of_node[node] = name
        prefix = keys.NODE_LABEL_PREFIX
        node_images = images(attributes)
        attributes.pop(keys.LOCAL_IMAGES, None)  # by far the longest attribute, and not useful in the REST API
        return NodeSpec(
            partition=partition,
            id=node,
            capacity=self._counted.read(info.schedulableResource, "schedulableResource"),
            occupied=self._counted.read(info.occupiedResource, "occupiedResource"),
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
                taken.append(self._allocation(allocation, intake, node=info.nodeID))
            except InvalidField as unfit:
                refused.append(_refusal(allocation, unfit))
        if refused:
            intake.answers.append(AllocationResponse(self._rm, rejected_allocations=tuple(refused)))
        return tuple(taken)


def _identity_of(new: si_pb2.AddApplicationRequest) -> si_pb2.AddApplicationRequest:
    """Returns the application with only its identity and the amounts that count, as far as they are valid."""
    user, groups = new.ugi.user, [group for group in new.ugi.groups if len(group) <= NAME_LIMIT]
    tags = {tag: new.tags[tag] for tag in _IDENTITY_TAGS if tag in new.tags and len(new.tags[tag]) <= NAME_LIMIT}
    try:
        values.moment_of(tags, keys.APP_TAG_CREATION_TIME, _SECOND)
    except InvalidField:
        del tags[keys.APP_TAG_CREATION_TIME]
    return si_pb2.AddApplicationRequest(
        applicationID=new.applicationID,
        partitionName=new.partitionName,
        queueName=new.queueName if len(new.queueName) <= _QUEUE_LIMIT else "",
        ugi=si_pb2.UserGroupInformation(user=user if len(user) <= NAME_LIMIT else "", groups=groups),
        tags=tags,
    )


def _within(number: int, what: str) -> None:
    """Checks the number of items of one kind in a message. Raises Unfit."""
    if number >= limits.ITEMS_PER_MESSAGE:
        raise InvalidField("the message", f"has more than {limits.ITEMS_PER_MESSAGE} {what}: send several messages")


_Item = si_pb2.AllocationAsk | si_pb2.Allocation | si_pb2.AllocationRelease | si_pb2.AllocationAskRelease


def _refusal(item: _Item, unfit: InvalidField) -> Rejection:
    return Rejection(values.shown(item.applicationID), AllocationKey(item.allocationKey[:NAME_LIMIT]), str(unfit))


def _style_warning(rm: RmId, new: si_pb2.AddApplicationRequest) -> EventRecorded:
    """Warns about an empty or unknown style, which counts as Soft (docs/internals/semantics.md, rule 8)."""
    found = new.gangSchedulingStyle[:32]
    said = f"gangSchedulingStyle {found!r} is not known" if found else "gangSchedulingStyle is not given"
    known = " or ".join(_STYLES)
    message = f"{said}; it is taken as {GangStyle.SOFT} ({known})"
    return EventRecorded(rm, Notice.APPLICATION, new.applicationID, message, app_name=_name(new))


def _quota_warnings(rm: RmId, new: si_pb2.AddApplicationRequest, odd: list[str]) -> list[EventRecorded]:
    """Warns about the ignored parts of a namespace's quota."""
    said = (f"the namespace's quota is left out: {why}" for why in odd)
    return [EventRecorded(rm, Notice.APPLICATION, new.applicationID, text, app_name=_name(new)) for text in said]


def _name(new: si_pb2.AddApplicationRequest) -> str:
    return str(new.tags.get(keys.APP_TAG_APPLICATION_ID, ""))
