"""Decodes tags and fields of requests, allocations and applications."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeVar, cast

from muster_core.model import limits
from muster_core.model.constraints import (
    ANYWHERE,
    NO_INTER_POD_CONSTRAINTS,
    Constraints,
    InterPodConstraints,
    PlacementConstraint,
    PodTerm,
    Selector,
    Target,
    TargetOperator,
    Term,
    TopologySpreadConstraint,
    WeightedPodTerm,
    matches,
)
from muster_core.model.ids import (
    NodeId,
    PartitionId,
    RmId,
    TaskGroup,
    partition_id,
)
from muster_core.model.limits import MEMBERS_PER_GANG, QUANTITY, TASK_GROUPS_PER_GANG
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.specs import (
    NO_PREFERENCES,
    NO_PROPERTIES,
    NO_VOLUMES,
    Disk,
    GangPlacement,
    HostPort,
    Member,
    PodProperties,
    Preferences,
    Topology,
    Volumes,
)
from muster_core.model.storage import VolumeHandle
from muster_core.placement.plugins.hooks import HOOKS
from muster_core.si import values
from muster_core.si.values import (
    NAME_LIMIT,
    QUANTITY_LIMIT,
    TEXT_LIMIT,
    InvalidField,
    Object,
    an_object,
    each,
    flag,
    memoized,
    number,
    one_of,
    only,
    pairs,
    parsed,
    text_of,
    texts,
)
from muster_si import keys, si_pb2

_SELECTOR_OPERATORS: Final = {
    "In": TargetOperator.IN,
    "NotIn": TargetOperator.NOT_IN,
    "Exists": TargetOperator.EXIST,
    "DoesNotExist": TargetOperator.NOT_EXIST,
}

_TERM_FIELDS: Final = ("topologyKey", "labelSelector", "namespaces", "namespaceSelector")

_SPREAD_FIELDS: Final = frozenset(
    {
        "maxSkew",
        "topologyKey",
        "whenUnsatisfiable",
        "labelSelector",
        "minDomains",
        "nodeAffinityPolicy",
        "nodeTaintsPolicy",
    }
)

_UNSATISFIABLE: Final = frozenset({"DoNotSchedule", "ScheduleAnyway"})
_POLICIES: Final = frozenset({"Honor", "Ignore"})
_DISKS: Final = frozenset({"gce", "aws", "iscsi", "rbd"})
_PORTS: Final = 65_535
_WEIGHT: Final = 100
Value = TypeVar("Value")


def read_properties(tags: Mapping[str, str]) -> PodProperties:
    """All of it, one value for all pods with the same; NO_FACTS where the tags have none."""
    if _TAGS.isdisjoint(tags):
        return NO_PROPERTIES
    get = tags.get
    terms, used = get(keys.TAG_POD_CONSTRAINTS, ""), get(keys.TAG_VOLUMES, "")
    namespace = get(keys.TAG_NAMESPACE, "")
    pod = f"{namespace}/{get(keys.TAG_POD_NAME, '')}" if '"ephemeral"' in used else ""
    others = get(keys.CONTAINER_PORTS, ""), get(keys.TAG_PREFERENCES, "")
    return _pod_properties(terms, namespace if terms else "", used, pod, others)


@memoized
def _pod_properties(terms: str, namespace: str, used: str, pod: str, others: tuple[str, str]) -> PodProperties:
    return PodProperties(
        inter_pod=_read(keys.TAG_POD_CONSTRAINTS, terms, lambda text: inter_pod_constraints(text, namespace))
        or NO_INTER_POD_CONSTRAINTS,
        ports=_read(keys.CONTAINER_PORTS, others[0], ports) or (),
        volumes=_read(keys.TAG_VOLUMES, used, lambda text: volumes(text, pod)) or NO_VOLUMES,
        preferences=_read(keys.TAG_PREFERENCES, others[1], preferences) or NO_PREFERENCES,
    )


_TAGS: Final = frozenset({keys.TAG_POD_CONSTRAINTS, keys.CONTAINER_PORTS, keys.TAG_VOLUMES, keys.TAG_PREFERENCES})


def _read(tag: str, text: str, reader: Callable[[str], Value]) -> Value | None:
    try:
        return reader(text) if text else None
    except InvalidField as unfit:
        raise unfit.inside(tag) from unfit


@memoized
def inter_pod_constraints(text: str, namespace: str) -> InterPodConstraints:
    """Decodes `muster/pod-constraints` of a pod in this namespace."""
    return inter_pod_constraints_of(an_object(parsed(text), "the value"), namespace)


def inter_pod_constraints_of(found: Object, namespace: str) -> InterPodConstraints:
    """Like `inter_pod_constraints`, for a part of another value."""
    only(found, frozenset({"affinity", "antiAffinity", "preferred", "spread"}))
    inter_pod = InterPodConstraints(
        affinity=each(found.get("affinity") or [], "affinity", _term),
        anti_affinity=each(found.get("antiAffinity") or [], "antiAffinity", _term),
        preferred=each(found.get("preferred") or [], "preferred", _weighed),
        spread=each(found.get("spread") or [], "spread", lambda one: _spread(one, namespace)),
    )
    _bounded(inter_pod)
    return inter_pod


def _bounded(inter_pod: InterPodConstraints) -> None:
    """Checks how many labels the selectors read. Raises Unfit."""
    terms = (*inter_pod.affinity, *inter_pod.anti_affinity, *(weighed.term for weighed in inter_pod.preferred))
    sizes = [(len(term.selector or ()), len(term.namespaces) if term.among is None else 1) for term in terms]
    sizes += [(len(spread.selector or ()), 1) for spread in inter_pod.spread]
    selectors = "the label selectors"
    number, most = sum(size for size, _ in sizes), limits.SELECTOR_EXPRESSIONS_PER_POD
    if number > most:
        raise InvalidField(selectors, f"have {number} expressions, the limit is {most}: use fewer expressions")
    number, most = sum(size * scopes for size, scopes in sizes), limits.SELECTOR_READS_PER_POD
    if number > most:
        raise InvalidField(
            selectors,
            f"have {number} expressions if each counts once per named namespace, the limit is {most}:"
            " name fewer namespaces, or select them by a label",
        )


@memoized
def ports(text: str) -> tuple[HostPort, ...]:
    """Decodes `si/container-ports`."""
    found = parsed(text)
    if not isinstance(found, list):
        raise InvalidField("the value", "is not a list")
    return tuple(_port(one) for one in found)


@memoized
def volumes(text: str, pod: str = "") -> Volumes:
    """Decodes `muster/volumes`. `pod`: "namespace/name", needed for ephemeral volumes."""
    found = an_object(parsed(text), "the value")
    only(found, frozenset({"claims", "ephemeral", "disks", "attached"}))
    attached = an_object(found.get("attached") or {}, "attached")
    ephemeral = pairs(found.get("ephemeral"), "ephemeral")
    return Volumes(
        claims=texts(found, "claims"),
        ephemeral=ephemeral,
        disks=each(found.get("disks") or [], "disks", _disk),
        attached=tuple(
            VolumeHandle(driver, handle) for driver in sorted(attached) for handle in texts(attached, driver)
        ),
        pod=pod if ephemeral else "",
    )


@memoized
def preferences(text: str) -> Preferences:
    """Decodes `muster/preferences`."""
    return preferences_of(an_object(parsed(text), "the value"))


def preferences_of(found: Object) -> Preferences:
    """Like `preferences`, for a part of another value."""
    only(found, frozenset({"nodeAffinity", "images", "volumeImages"}))
    return Preferences(
        terms=each(found.get("nodeAffinity") or [], "nodeAffinity", _preferred),
        images=texts(found, "images"),
        volume_images=texts(found, "volumeImages"),
    )


def _term(found: Object) -> PodTerm:
    only(found, frozenset(_TERM_FIELDS))
    return PodTerm(
        topology=_topology(found),
        selector=selector(found, "labelSelector", keys.TAG_POD_LABEL_PREFIX),
        namespaces=tuple(sorted(texts(found, "namespaces"))),
        among=selector(found, "namespaceSelector", ""),
    )


def _topology(found: Object) -> str:
    if not text_of(found, "topologyKey"):
        raise InvalidField("topologyKey", "is missing")
    return text_of(found, "topologyKey")


def _weighed(found: Object) -> WeightedPodTerm:
    only(found, frozenset({"weight", *_TERM_FIELDS}))
    weight = number(found, "weight", least=-_WEIGHT, most=_WEIGHT)
    return WeightedPodTerm(weight, _term({field: found[field] for field in _TERM_FIELDS if field in found}))


def _spread(found: Object, namespace: str) -> TopologySpreadConstraint:
    only(found, _SPREAD_FIELDS)
    policies = {
        field: one_of(found, field, _POLICIES) if found.get(field) else default
        for field, default in (("nodeAffinityPolicy", "Honor"), ("nodeTaintsPolicy", "Ignore"))
    }
    return TopologySpreadConstraint(
        topology=_topology(found),
        max_skew=number(found, "maxSkew", 1, least=1),
        selector=selector(found, "labelSelector", keys.TAG_POD_LABEL_PREFIX),
        namespace=namespace,
        required=one_of(found, "whenUnsatisfiable", _UNSATISFIABLE) == "DoNotSchedule",
        min_domains=number(found, "minDomains", 1, least=1),
        honors_affinity=policies["nodeAffinityPolicy"] == "Honor",
        honors_taints=policies["nodeTaintsPolicy"] == "Honor",
    )


def selector(found: Object, field: str, prefix: str) -> Selector:
    """Decodes a label selector to targets on the tags `prefix` + label; absent = None, which matches nothing."""
    if found.get(field) is None:
        return None
    selector = an_object(found[field], field)
    only(selector, frozenset({"matchLabels", "matchExpressions"}))
    labels = (
        Target(prefix + key, TargetOperator.IN, (value,))
        for key, value in pairs(selector.get("matchLabels"), "matchLabels")
    )
    return (
        *labels,
        *each(selector.get("matchExpressions") or [], "matchExpressions", lambda one: _expression(one, prefix)),
    )


def _expression(found: Object, prefix: str) -> Target:
    only(found, frozenset({"key", "operator", "values"}))
    if not text_of(found, "key"):
        raise InvalidField("key", "is missing")
    operator = _SELECTOR_OPERATORS[one_of(found, "operator", frozenset(_SELECTOR_OPERATORS))]
    return Target(prefix + text_of(found, "key"), operator, texts(found, "values"))


def _port(found: object) -> HostPort:
    match found:
        case [str(ip), str(protocol), int(port)] if 0 < port <= _PORTS:
            return HostPort(ip, protocol, port)
        case _:
            raise InvalidField("a port", "is not [host IP, protocol, port]")


def _disk(found: Object) -> Disk:
    only(found, frozenset({"kind", "id", "readOnly", "monitors"}))
    return Disk(one_of(found, "kind", _DISKS), text_of(found, "id"), flag(found, "readOnly"), texts(found, "monitors"))


def _preferred(found: Object) -> tuple[int, Term]:
    only(found, frozenset({"weight", "preference"}))
    return number(found, "weight", most=_WEIGHT), values.term(an_object(found.get("preference") or {}, "preference"))


_FIELDS: Final = frozenset({"name", "minMember", "resource", "constraints", "podConstraints", "labels"})

#: Fields that only virtual placeholders use.
_VIRTUAL_FIELDS: Final = frozenset({"preferences", "priority", "allowPreemptSelf", "allowPreemptOther"})
_PRIORITY_LIMIT: Final = 2**31


@memoized
def read_members(text: str, namespace: str) -> tuple[Member, ...]:
    """Decodes the members of an application in this namespace."""
    listed = parsed(text)
    if isinstance(listed, list) and len(listed) > TASK_GROUPS_PER_GANG:
        raise InvalidField(
            "members", f"has {len(listed)} task groups, the limit is {TASK_GROUPS_PER_GANG}: define fewer groups"
        )
    found = each(listed, "members", lambda one: _member(one, namespace))
    names = [member.group for member in found]
    if len(set(names)) < len(names):
        raise InvalidField("members", "name a task group twice")
    if (total := sum(member.count for member in found)) > MEMBERS_PER_GANG:
        raise InvalidField(
            "minMember", f"of all task groups is {total}, the limit is {MEMBERS_PER_GANG}: reduce minMember"
        )
    return found


def _member(found: Object, namespace: str) -> Member:
    only(found, _FIELDS | _VIRTUAL_FIELDS)
    name, count = text_of(found, "name"), found.get("minMember")
    if not name or len(name) > NAME_LIMIT:
        raise InvalidField("name", "is empty or too long")
    if not isinstance(count, int) or isinstance(count, bool) or not 0 < count < QUANTITY_LIMIT:
        raise InvalidField("minMember", f"of {name!r} is not a positive number")
    amounts = an_object(found.get("resource") or {}, "resource")
    if not all(isinstance(amount, int) and not isinstance(amount, bool) for amount in amounts.values()):
        raise InvalidField("resource", f"of {name!r} contains a value that is not a whole number")
    labels = ((keys.TAG_POD_LABEL_PREFIX + key, value) for key, value in pairs(found.get("labels"), "labels"))
    resources = values.resources(cast("Mapping[str, int]", amounts), QUANTITY)
    if any(amount * count > QUANTITY_LIMIT for _, amount in resources.items()):
        raise InvalidField("minMember", f"of {name!r} is out of range")
    return Member(
        group=TaskGroup(name),
        count=count,
        resources=resources,
        constraints=values.constraints_of(an_object(found.get("constraints") or {}, "constraints")),
        facts=_member_properties(found, namespace),
        tags=((keys.TAG_NAMESPACE, namespace), *labels),
        priority=number(found, "priority", least=-_PRIORITY_LIMIT, most=_PRIORITY_LIMIT),
        allow_preempt_self=flag(found, "allowPreemptSelf", default=True),
        allow_preempt_other=flag(found, "allowPreemptOther", default=True),
    )


def _member_properties(found: Object, namespace: str) -> PodProperties:
    inter_pod = inter_pod_constraints_of(an_object(found.get("podConstraints") or {}, "podConstraints"), namespace)
    liked = an_object(found.get("preferences") or {}, "preferences")
    if inter_pod == NO_INTER_POD_CONSTRAINTS and not liked:
        return NO_PROPERTIES
    return PodProperties(inter_pod, preferences=preferences_of(liked) if liked else NO_PREFERENCES)


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
    text, required = tags.get(keys.TAG_CONSTRAINTS), tags.get(keys.TAG_REQUIRED_NODE)
    try:
        found = values.constraints(text) if text else ANYWHERE
    except InvalidField as unfit:
        raise unfit.inside(keys.TAG_CONSTRAINTS) from unfit
    if not required:
        return found
    if found.node_name not in ("", required):
        raise InvalidField(keys.TAG_REQUIRED_NODE, f"is {required!r}, but the pod names node {found.node_name!r}")
    return replace(found, node_name=values.bounded(required, keys.TAG_REQUIRED_NODE))


def placement(tags: Mapping[str, str]) -> PlacementConstraint | None:
    """Decodes `muster/placement-constraint`; None = none."""
    text = tags.get(keys.TAG_PLACEMENT)
    if not text:
        return None
    if HOOKS.placement_constraints is None:
        raise InvalidField(keys.TAG_PLACEMENT, "is not supported: this scheduler runs without placement constraints")
    try:
        found = values.placement(text)
    except InvalidField as unfit:
        raise unfit.inside(keys.TAG_PLACEMENT) from unfit
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
    text = tags.get(keys.APP_TAG_MEMBERS)
    try:
        return read_members(text, tags.get(keys.APP_TAG_NAMESPACE, "")) if text else ()
    except InvalidField as unfit:
        raise unfit.inside(keys.APP_TAG_MEMBERS) from unfit


def topology(tags: Mapping[str, str]) -> Topology | None:
    """Decodes `muster/gang-topology`: the label that a gang is packed by; None = none."""
    text = tags.get(keys.APP_TAG_TOPOLOGY)
    try:
        return values.topology(text) if text else None
    except InvalidField as unfit:
        raise unfit.inside(keys.APP_TAG_TOPOLOGY) from unfit


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
