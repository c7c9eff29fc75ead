"""Decodes tags and fields of requests, allocations and applications."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from msgspec.json import Decoder

from muster_core.model import limits
from muster_core.model.constraints import (
    ANYWHERE,
    NO_INTER_POD_CONSTRAINTS,
    Constraints,
    InterPodConstraints,
    PlacementConstraint,
    matches,
)
from muster_core.model.ids import NodeId, PartitionId, RmId, partition_id
from muster_core.model.limits import MEMBERS_PER_GANG, TASK_GROUPS_PER_GANG
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.specs import (
    NO_PREFERENCES,
    NO_PROPERTIES,
    NO_VOLUMES,
    GangPlacement,
    Member,
    PodProperties,
    Topology,
)
from muster_core.placement.plugins.hooks import HOOKS
from muster_core.si import devices, documents, values
from muster_core.si.documents import (
    ConstraintsDocument,
    InterPodDocument,
    MemberDocument,
    PlacementDocument,
    PreferencesDocument,
    TopologyDocument,
    VolumesDocument,
)
from muster_core.si.values import TEXT_LIMIT, InvalidField, decoded, memoized, of_tag
from muster_si import keys, si_pb2

_PROPERTY_TAGS: Final = (
    keys.TAG_POD_CONSTRAINTS,
    keys.TAG_VOLUMES,
    keys.CONTAINER_PORTS,
    keys.TAG_PREFERENCES,
    keys.TAG_DEVICE_CLAIMS,
)

_INTER_POD: Final = Decoder(InterPodDocument)
_VOLUMES: Final = Decoder(VolumesDocument)
_PORTS: Final = Decoder(documents.Ports)
_PREFERENCES: Final = Decoder(PreferencesDocument)
_CLAIMS: Final = Decoder(devices.PodClaims)
_MEMBERS: Final = Decoder(tuple[MemberDocument, ...])
_CONSTRAINTS: Final = Decoder(ConstraintsDocument)
_PLACEMENT: Final = Decoder(PlacementDocument)
_TOPOLOGY: Final = Decoder(TopologyDocument)


def read_properties(tags: Mapping[str, str]) -> PodProperties:
    """Returns the properties; equal ones are one value, and NO_PROPERTIES stands for none."""
    texts = tuple([tags.get(tag, "") for tag in _PROPERTY_TAGS])
    if not any(texts):
        return NO_PROPERTIES
    namespace = tags.get(keys.TAG_NAMESPACE, "")
    pod = f"{namespace}/{tags.get(keys.TAG_POD_NAME, '')}" if '"ephemeral"' in texts[1] else ""
    return _pod_properties(texts, namespace if texts[0] else "", pod)


@memoized
def _pod_properties(texts: tuple[str, ...], namespace: str, pod: str) -> PodProperties:
    tags = dict(zip(_PROPERTY_TAGS, texts, strict=True))
    used = of_tag(tags, keys.TAG_VOLUMES, lambda text: decoded(text, _VOLUMES).read(pod))
    host_ports = of_tag(tags, keys.CONTAINER_PORTS, lambda text: documents.ports(decoded(text, _PORTS)))
    preferences = of_tag(tags, keys.TAG_PREFERENCES, lambda text: decoded(text, _PREFERENCES).read())
    claims = of_tag(tags, keys.TAG_DEVICE_CLAIMS, lambda text: devices.pod_claims(decoded(text, _CLAIMS)))
    return PodProperties(
        inter_pod=of_tag(tags, keys.TAG_POD_CONSTRAINTS, lambda text: inter_pod_constraints(text, namespace))
        or NO_INTER_POD_CONSTRAINTS,
        ports=host_ports or (),
        volumes=used or NO_VOLUMES,
        preferences=preferences or NO_PREFERENCES,
        devices=claims or (),
    )


@memoized
def inter_pod_constraints(text: str, namespace: str) -> InterPodConstraints:
    """Decodes `muster/pod-constraints` of a pod in this namespace."""
    return decoded(text, _INTER_POD).read(namespace)


@memoized
def _members(text: str, namespace: str) -> tuple[Member, ...]:
    found = decoded(text, _MEMBERS)
    if len(found) > TASK_GROUPS_PER_GANG:
        raise InvalidField(
            "members", f"has {len(found)} task groups, the limit is {TASK_GROUPS_PER_GANG}: define fewer groups"
        )
    if len({member.name for member in found}) < len(found):
        raise InvalidField("members", "name a task group twice")
    if (total := sum(member.min_member for member in found)) > MEMBERS_PER_GANG:
        raise InvalidField(
            "minMember", f"of all task groups is {total}, the limit is {MEMBERS_PER_GANG}: reduce minMember"
        )
    return tuple(member.read(namespace) for member in found)


@memoized
def _constraints(text: str) -> Constraints:
    return decoded(text, _CONSTRAINTS).read()


@memoized
def _placement(text: str) -> PlacementConstraint:
    return decoded(text, _PLACEMENT).read()


@memoized
def _topology(text: str) -> Topology:
    return decoded(text, _TOPOLOGY).read()


#: Number of cached amounts. If it is exceeded, the cache is cleared.
_SHARED_AMOUNTS: Final = 4096


#: Shared, because Python creates a new empty frozenset each time.
_NO_NODES: Final[frozenset[NodeId]] = frozenset()

_PLACEMENTS: Final[Mapping[str, GangPlacement]] = {
    keys.PLACEMENT_RESERVE: GangPlacement.RESERVE,
    keys.PLACEMENT_DIRECT: GangPlacement.DIRECT,
    keys.PLACEMENT_AUTO: GangPlacement.AUTO,
}


def constraints(tags: Mapping[str, str]) -> Constraints:
    """Decodes `muster/constraints`, restricted to `requiredNode` if it is set."""
    found, required = of_tag(tags, keys.TAG_CONSTRAINTS, _constraints) or ANYWHERE, tags.get(keys.TAG_REQUIRED_NODE)
    if not required:
        return found
    if found.node_name not in ("", required):
        raise InvalidField(keys.TAG_REQUIRED_NODE, f"is {required!r}, but the pod names node {found.node_name!r}")
    return replace(found, node_name=values.bounded(required, keys.TAG_REQUIRED_NODE))


def placement(tags: Mapping[str, str]) -> PlacementConstraint | None:
    """Decodes `muster/placement-constraint`; None = none."""
    if tags.get(keys.TAG_PLACEMENT) and HOOKS.placement_constraints is None:
        raise InvalidField(keys.TAG_PLACEMENT, "is not supported: this scheduler runs without placement constraints")
    found = of_tag(tags, keys.TAG_PLACEMENT, _placement)
    if found is None:
        return None
    affinity = found.allocations
    if affinity is not None and affinity.required and not affinity.at_most and matches(affinity.targets, tags):
        raise InvalidField(
            keys.TAG_PLACEMENT, "has a maxCardinality of 0 and counts the ask itself: it fits on no node"
        )
    return found


def required_node(tags: Mapping[str, str]) -> NodeId:
    """Returns the only node that may run the request or allocation; empty = any."""
    return NodeId(values.bounded(tags.get(keys.TAG_REQUIRED_NODE, ""), keys.TAG_REQUIRED_NODE))


def members(tags: Mapping[str, str]) -> tuple[Member, ...]:
    """Decodes `muster/members`: the task groups of a gang."""
    namespace = tags.get(keys.APP_TAG_NAMESPACE, "")
    return of_tag(tags, keys.APP_TAG_MEMBERS, lambda text: _members(text, namespace)) or ()


def topology(tags: Mapping[str, str]) -> Topology | None:
    """Decodes `muster/gang-topology`: the label that a gang is packed by; None = none."""
    return of_tag(tags, keys.APP_TAG_TOPOLOGY, _topology)


def gang_placement(tags: Mapping[str, str]) -> GangPlacement:
    """Decodes the placement mode of a gang; absent = Reserve.

    The removed mode Atomic gives Auto, or Reserve for an application without task groups, which Auto needs.
    """
    text = tags.get(keys.APP_TAG_GANG_PLACEMENT) or keys.PLACEMENT_RESERVE
    if text == keys.PLACEMENT_REMOVED:
        return GangPlacement.AUTO if tags.get(keys.APP_TAG_MEMBERS) else GangPlacement.RESERVE
    placement = _PLACEMENTS.get(text)
    if placement is None:
        raise InvalidField(keys.APP_TAG_GANG_PLACEMENT, f"is {text[:32]!r}, not one of {', '.join(_PLACEMENTS)}")
    return placement


def nodes_to_avoid(tags: Mapping[str, str]) -> frozenset[NodeId]:
    """Returns the nodes that the request avoids."""
    text = tags.get(keys.TAG_AVOID_NODES)
    if text and len(text) > TEXT_LIMIT:
        raise InvalidField(keys.TAG_AVOID_NODES, f"is longer than {TEXT_LIMIT} characters")
    return frozenset(NodeId(name) for name in text.split(",") if name) if text else _NO_NODES


def tags(found: Mapping[str, str], label: str, characters: int = limits.TAG_CHARACTERS_PER_ITEM) -> dict[str, str]:
    """Returns all tags of an item with a limited total length."""
    if len(found) > limits.TAGS_PER_ITEM:
        raise InvalidField(label, f"has {len(found)} entries, the limit is {limits.TAGS_PER_ITEM}: remove entries")
    taken = dict(found)
    size = sum(map(len, taken)) + sum(map(len, taken.values()))
    if size > characters:
        raise InvalidField(
            label, f"has {size} characters in total, the limit is {characters}: shorten the longest entries"
        )
    return taken


def preemption(item: si_pb2.AllocationAsk | si_pb2.Allocation) -> tuple[bool, bool]:
    """Returns (may be preempted, may preempt others). Without a policy both are true."""
    if not item.HasField("preemptionPolicy"):
        return True, True
    return item.preemptionPolicy.allowPreemptSelf, item.preemptionPolicy.allowPreemptOther


class Partitions:
    """The partitions of one resource manager, by the names it gives them."""

    def __init__(self, rm: RmId, names: Iterable[str]) -> None:
        self._rm = rm
        self._ids: dict[str, PartitionId] = {}
        self.know(names)

    def know(self, names: Iterable[str]) -> None:
        """Adds the partitions of a new configuration.

        Earlier ones stay known: what ends there is still confirmed, and new objects are rejected by the scheduler.
        """
        self._ids |= {name.lower(): partition_id(self._rm, name) for name in names}

    def find(self, name: str) -> PartitionId:
        """partitionName; in any case, but it has to be there."""
        known = self._ids.get(name) or self._ids.get(name.lower())
        if known is None:
            raise InvalidField("partitionName", f"is not known: {values.shown(name)!r}" if name else "is missing")
        return known


class AmountReader:
    """Reads amounts; equal ones become one shared value, which a class of pods has in common. `most` of each resource
    is taken; `counts`: larger amounts are omitted instead of refused.
    """

    def __init__(self, most: int = values.QUANTITY_LIMIT, *, counts: bool = False) -> None:
        self._most, self._counts = most, counts
        #: Keyed by the serialized message, which is read in one call. Equal amounts in another order have another
        #: key.
        self._read: dict[bytes, Resources] = {}
        self._shared: dict[Resources, Resources] = {}

    def read(self, message: si_pb2.Resource, label: str) -> Resources:
        """An amount of the field `label`; absent = nothing."""
        text = message.SerializeToString()
        known = self._read.get(text)
        if known is None:
            found = {name: quantity.value for name, quantity in message.resources.items()}
            try:
                known = values.resources(found, self._most, counts=self._counts) if found else NOTHING
            except InvalidField as unfit:
                raise unfit.inside(label) from unfit
            if len(self._read) >= _SHARED_AMOUNTS:
                self._read.clear()
                self._shared.clear()
            known = self._read[text] = self._shared.setdefault(known, known)
        return known
