"""Single fields of messages → ids, terminations, places and moments; each refuses what has no meaning.

Called by si_decode.py for every item; a tag's structure is read by facts.py.
Raises Unfit with the field's name as the message spells it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from muster_core.edge import facts
from muster_core.edge import members as task_groups
from muster_core.edge.reading import NAME_LIMIT, TEXT_LIMIT
from muster_core.edge.refusals import Unfit
from muster_core.model import limits
from muster_core.model.constraints import ANYWHERE, Constraints
from muster_core.model.ids import (
    AllocationKey,
    ApplicationId,
    NodeId,
    PartitionId,
    RmId,
    TaskGroup,
    partition_id,
)
from muster_core.model.placement import PlacementConstraint, matches
from muster_core.model.release import Termination
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.specs import GangPlacement, Member, Topology
from muster_si import keys, si_pb2

#: Distinct amounts kept as one shared value; beyond it the memo starts anew.
_SHARED_AMOUNTS: Final = 4096

_TERMINATIONS: Final[Mapping[int, Termination]] = {
    si_pb2.STOPPED_BY_RM: Termination.STOPPED_BY_RM,
    si_pb2.TIMEOUT: Termination.TIMEOUT,
    si_pb2.PREEMPTED_BY_SCHEDULER: Termination.PREEMPTED_BY_SCHEDULER,
    si_pb2.PLACEHOLDER_REPLACED: Termination.PLACEHOLDER_REPLACED,
}
#: One for all: Python makes an empty frozen set anew each time.
_NOWHERE: Final[frozenset[NodeId]] = frozenset()
_PLACEMENTS: Final[Mapping[str, GangPlacement]] = {
    keys.PLACEMENT_RESERVE: GangPlacement.RESERVE,
    keys.PLACEMENT_ATOMIC: GangPlacement.ATOMIC,
    keys.PLACEMENT_DIRECT: GangPlacement.DIRECT,
}


def shown(name: str) -> ApplicationId:
    """A name as it may be repeated in an answer."""
    return ApplicationId(name[:NAME_LIMIT])


def bounded(name: str, label: str) -> str:
    """A name that may be empty, but not longer than any name may be."""
    if len(name) > NAME_LIMIT:
        raise Unfit(label, f"is longer than {NAME_LIMIT} characters")
    return name


def named(name: str, label: str) -> str:
    """A name that has to be there."""
    if not name:
        raise Unfit(label, "is missing")
    return bounded(name, label)


def long_name(name: str, label: str) -> str:
    """A name of an object in a namespace: twice as long as one alone."""
    if not name or len(name) > 2 * NAME_LIMIT:
        raise Unfit(label, f"is missing or longer than {2 * NAME_LIMIT} characters")
    return name


def application_id(name: str) -> ApplicationId:
    """ApplicationID."""
    return ApplicationId(named(name, "applicationID"))


def allocation_key(name: str) -> AllocationKey:
    """AllocationKey."""
    return AllocationKey(named(name, "allocationKey"))


def group(name: str) -> TaskGroup:
    """taskGroupName; empty = of none."""
    return TaskGroup(bounded(name, "taskGroupName"))


def termination(number: int) -> Termination:
    """terminationType; UNKNOWN_TERMINATION_TYPE and numbers of a later interface are refused."""
    termination = _TERMINATIONS.get(number)
    if termination is None:
        raise Unfit("terminationType", f"is not known: {number}")
    return termination


def constraints(tags: Mapping[str, str]) -> Constraints:
    """Where an ask may go: `muster/constraints`, narrowed to `requiredNode` where that is given."""
    text, required = tags.get(keys.TAG_CONSTRAINTS), tags.get(keys.TAG_REQUIRED_NODE)
    try:
        found = facts.constraints(text) if text else ANYWHERE
    except Unfit as unfit:
        raise unfit.inside(keys.TAG_CONSTRAINTS) from unfit
    if not required:
        return found
    if found.node_name not in ("", required):
        raise Unfit(keys.TAG_REQUIRED_NODE, f"is {required!r}, but the pod names node {found.node_name!r}")
    return replace(found, node_name=bounded(required, keys.TAG_REQUIRED_NODE))


def placement(tags: Mapping[str, str]) -> PlacementConstraint | None:
    """Seed 001's constraint, as `muster/placement-constraint` has it; None = none."""
    text = tags.get(keys.TAG_PLACEMENT)
    if not text:
        return None
    try:
        found = facts.placement(text)
    except Unfit as unfit:
        raise unfit.inside(keys.TAG_PLACEMENT) from unfit
    affinity = found.allocations
    if affinity is not None and affinity.required and not affinity.at_most and matches(affinity.targets, tags):
        raise Unfit(keys.TAG_PLACEMENT, "has a maxCardinality of 0 and counts the ask itself: it could go nowhere")
    return found


def required_node(tags: Mapping[str, str]) -> NodeId:
    """The one node that the ask may run on, or that an allocation had to; empty = any."""
    return NodeId(bounded(tags.get(keys.TAG_REQUIRED_NODE, ""), keys.TAG_REQUIRED_NODE))


def members(tags: Mapping[str, str]) -> tuple[Member, ...]:
    """The task groups of a gang, as `muster/members` lists them."""
    text = tags.get(keys.APP_TAG_MEMBERS)
    try:
        return task_groups.read(text, tags.get(keys.APP_TAG_NAMESPACE, "")) if text else ()
    except Unfit as unfit:
        raise unfit.inside(keys.APP_TAG_MEMBERS) from unfit


def topology(tags: Mapping[str, str]) -> Topology | None:
    """The label that a gang is packed by, as `muster/gang-topology` names it; None = none."""
    text = tags.get(keys.APP_TAG_TOPOLOGY)
    try:
        return facts.topology(text) if text else None
    except Unfit as unfit:
        raise unfit.inside(keys.APP_TAG_TOPOLOGY) from unfit


def gang_placement(tags: Mapping[str, str]) -> GangPlacement:
    """How a gang gets its places (semantics 16); absent = Reserve."""
    text = tags.get(keys.APP_TAG_GANG_PLACEMENT) or keys.PLACEMENT_RESERVE
    placement = _PLACEMENTS.get(text)
    if placement is None:
        raise Unfit(keys.APP_TAG_GANG_PLACEMENT, f"is {text[:32]!r}, not one of {', '.join(_PLACEMENTS)}")
    return placement


def nodes_to_avoid(tags: Mapping[str, str]) -> frozenset[NodeId]:
    """The nodes that an ask keeps off (semantics 5)."""
    text = tags.get(keys.TAG_AVOID_NODES)
    if text and len(text) > TEXT_LIMIT:
        raise Unfit(keys.TAG_AVOID_NODES, f"is longer than {TEXT_LIMIT} characters")
    return frozenset(NodeId(name) for name in text.split(",") if name) if text else _NOWHERE


def moment(tags: Mapping[str, str], tag: str, unit_ns: int) -> int:
    """The time in `tag`, in nanoseconds since the epoch; 0 = not given."""
    text = tags.get(tag)
    if not text:
        return 0
    try:
        return facts.moment_ns(text, unit_ns)
    except Unfit as unfit:
        raise unfit.inside(tag) from unfit


def tags(found: Mapping[str, str], label: str, characters: int = limits.TAG_CHARACTERS_PER_ITEM) -> dict[str, str]:
    """All tags of an item, of so many characters in all at most."""
    if len(found) > limits.TAGS_PER_ITEM:
        raise Unfit(label, f"has {len(found)} entries, the limit is {limits.TAGS_PER_ITEM}: remove entries")
    taken = dict(found)
    size = sum(map(len, taken)) + sum(map(len, taken.values()))
    if size > characters:
        raise Unfit(label, f"has {size} characters in total, the limit is {characters}: shorten the longest entries")
    return taken


def preemption(item: si_pb2.AllocationAsk | si_pb2.Allocation) -> tuple[bool, bool]:
    """(may be preempted, may preempt others); a policy that is not given forbids nothing."""
    if not item.HasField("preemptionPolicy"):
        return True, True
    return item.preemptionPolicy.allowPreemptSelf, item.preemptionPolicy.allowPreemptOther


class Partitions:
    """The partitions of one resource manager, by the names it gives them."""

    def __init__(self, rm: RmId, names: Iterable[str]) -> None:
        self._ids = {name.lower(): partition_id(rm, name) for name in names}

    def find(self, name: str) -> PartitionId:
        """partitionName; in any case, but it has to be there."""
        known = self._ids.get(name) or self._ids.get(name.lower())
        if known is None:
            raise Unfit("partitionName", f"is not known: {shown(name)!r}" if name else "is missing")
        return known


class Amounts:
    """Reads amounts; equal ones become one shared value, which a class of pods has in common. `most` of each resource
    is taken; `counts`: what is more is left out, and not refused (facts.py).
    """

    def __init__(self, most: int = facts.QUANTITY_LIMIT, *, counts: bool = False) -> None:
        self._most, self._counts = most, counts
        #: By the message's bytes, which are got at once; the same amounts in another order are other bytes.
        self._read: dict[bytes, Resources] = {}
        self._shared: dict[Resources, Resources] = {}

    def read(self, message: si_pb2.Resource, label: str) -> Resources:
        """An amount of the field `label`; absent = nothing."""
        text = message.SerializeToString()
        known = self._read.get(text)
        if known is None:
            found = {name: quantity.value for name, quantity in message.resources.items()}
            try:
                known = facts.resources(found, self._most, counts=self._counts) if found else NOTHING
            except Unfit as unfit:
                raise unfit.inside(label) from unfit
            if len(self._read) >= _SHARED_AMOUNTS:
                self._read.clear()
                self._shared.clear()
            known = self._read[text] = self._shared.setdefault(known, known)
        return known
