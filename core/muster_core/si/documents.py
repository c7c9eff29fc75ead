"""The JSON documents in tags and attributes: their form, and the values of the model that they stand for.

One struct per object. msgspec checks types and bounds, and that every field is known, because the sender expects a
field to have an effect. `read` returns the value of the model.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field

from muster_core.model import limits
from muster_core.model.constraints import (
    ANYWHERE,
    NO_INTER_POD_CONSTRAINTS,
    UNBOUNDED,
    AllocationAffinity,
    Constraints,
    InterPodConstraints,
    PlacementConstraint,
    PodTerm,
    Requirement,
    Selector,
    Taint,
    Target,
    TargetOperator,
    Term,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodTerm,
)
from muster_core.model.ids import TaskGroup
from muster_core.model.specs import (
    NO_PREFERENCES,
    NO_PROPERTIES,
    Disk,
    HostPort,
    Member,
    PodProperties,
    Preferences,
    Topology,
    Volumes,
)
from muster_core.model.storage import VolumeHandle
from muster_core.si import values
from muster_core.si.values import NAME_LIMIT, QUANTITY_LIMIT, InvalidField
from muster_si import keys

ShortText = Annotated[str, Meta(max_length=NAME_LIMIT)]
Required = Annotated[str, Meta(min_length=1)]
RequiredShortText = Annotated[str, Meta(min_length=1, max_length=NAME_LIMIT)]
WholeQuantity = Annotated[int, Meta(ge=0, le=QUANTITY_LIMIT)]
TextList = tuple[str, ...]
_TopologyKeys = Annotated[tuple[RequiredShortText, ...], Meta(min_length=1, max_length=limits.TOPOLOGY_LEVELS)]
_Port = Annotated[int, Meta(ge=1, le=65_535)]
_Weight = Annotated[int, Meta(ge=0, le=100)]
_SignedWeight = Annotated[int, Meta(ge=-100, le=100)]
_Positive = Annotated[int, Meta(ge=1, le=QUANTITY_LIMIT)]
_Priority = Annotated[int, Meta(ge=-(2**31), le=2**31)]
_Cardinality = Annotated[int, Meta(ge=0, le=UNBOUNDED)]
_Policy = Literal["Honor", "Ignore"]
_Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class Document(Struct, rename="camel", forbid_unknown_fields=True):
    """An object of which every field must be known."""


def pairs(texts: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Returns an object of texts as sorted pairs."""
    return tuple(sorted(texts.items()))


# -- nodes --


class RequirementDocument(Document):
    """One match expression of a node selector term."""

    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    key: str = ""
    values: TextList = ()

    def read(self) -> Requirement:
        """Returns the requirement."""
        return Requirement(self.key, self.operator, self.values)


class TermDocument(Document):
    """A node selector term."""

    match_expressions: tuple[RequirementDocument, ...] = ()
    match_fields: tuple[RequirementDocument, ...] = ()

    def read(self) -> Term:
        """Returns the term."""
        return Term(tuple(one.read() for one in self.match_expressions), tuple(one.read() for one in self.match_fields))


def terms(documents: tuple[TermDocument, ...]) -> tuple[Term, ...]:
    """Returns the terms of a node affinity."""
    return tuple(one.read() for one in documents)


class TolerationDocument(Document):
    """A toleration. The time of an eviction does not matter for placement."""

    key: str = ""
    operator: Literal["", "Equal", "Exists"] = "Equal"
    value: str = ""
    effect: _Effect | Literal[""] = ""
    toleration_seconds: int | None = None

    def read(self) -> Toleration:
        """Returns the toleration."""
        return Toleration(self.key, self.operator or "Equal", self.value, self.effect)


class TaintDocument(Document):
    """A taint."""

    effect: _Effect
    key: str = ""
    value: str = ""

    def read(self) -> Taint:
        """Returns the taint."""
        return Taint(self.key, self.value, self.effect)


class ConstraintsDocument(Document):
    """`muster/constraints`. A `nodeAffinity` without terms matches no node."""

    node_selector: dict[str, str] = field(default_factory=dict)
    node_affinity: tuple[TermDocument, ...] | None = None
    tolerations: tuple[TolerationDocument, ...] = ()
    node_name: str = ""
    features: TextList = ()

    def read(self) -> Constraints:
        """Returns the constraints; ANYWHERE if there is none."""
        found = Constraints(
            node_selector=pairs(self.node_selector),
            affinity=None if self.node_affinity is None else terms(self.node_affinity),
            tolerations=tuple(one.read() for one in self.tolerations),
            node_name=self.node_name,
            features=self.features,
        )
        return ANYWHERE if found == ANYWHERE else found


class TopologyDocument(Document):
    """`muster/gang-topology`."""

    keys: _TopologyKeys
    required: bool = False

    def read(self) -> Topology:
        """Returns the labels that a gang is packed by, the outermost first."""
        return Topology(self.keys, self.required)


# -- other pods --


class SelectorExpression(Document):
    """One match expression of a label selector."""

    key: Required
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: TextList = ()


_SELECTOR_OPERATORS: Final = {
    "In": TargetOperator.IN,
    "NotIn": TargetOperator.NOT_IN,
    "Exists": TargetOperator.EXIST,
    "DoesNotExist": TargetOperator.NOT_EXIST,
}


class LabelSelector(Document):
    """A label selector. An empty one matches everything."""

    match_labels: dict[str, str] = field(default_factory=dict)
    match_expressions: tuple[SelectorExpression, ...] = ()


def targets(selector: LabelSelector | None, prefix: str = "") -> Selector:
    """Returns the targets on the tags `prefix` + label; absent = None, which matches nothing."""
    if selector is None:
        return None
    labels = (Target(prefix + key, TargetOperator.IN, (value,)) for key, value in pairs(selector.match_labels))
    expressions = (
        Target(prefix + one.key, _SELECTOR_OPERATORS[one.operator], one.values) for one in selector.match_expressions
    )
    return (*labels, *expressions)


class PodTermDocument(Document):
    """Pods near which a pod must or must not run."""

    topology_key: Required
    label_selector: LabelSelector | None = None
    namespaces: TextList = ()
    namespace_selector: LabelSelector | None = None

    def read(self) -> PodTerm:
        """Returns the term."""
        return PodTerm(
            topology=self.topology_key,
            selector=targets(self.label_selector, keys.TAG_POD_LABEL_PREFIX),
            namespaces=tuple(sorted(self.namespaces)),
            among=targets(self.namespace_selector),
        )


class WeightedPodTermDocument(PodTermDocument):
    """Pods near which a pod should run, or should not."""

    weight: _SignedWeight = 0


class SpreadDocument(Document):
    """A topology spread constraint."""

    topology_key: Required
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    max_skew: _Positive = 1
    label_selector: LabelSelector | None = None
    min_domains: _Positive = 1
    node_affinity_policy: _Policy = "Honor"
    node_taints_policy: _Policy = "Ignore"

    def read(self, namespace: str) -> TopologySpreadConstraint:
        """Returns the constraint of a pod in this namespace."""
        return TopologySpreadConstraint(
            topology=self.topology_key,
            max_skew=self.max_skew,
            selector=targets(self.label_selector, keys.TAG_POD_LABEL_PREFIX),
            namespace=namespace,
            required=self.when_unsatisfiable == "DoNotSchedule",
            min_domains=self.min_domains,
            honors_affinity=self.node_affinity_policy == "Honor",
            honors_taints=self.node_taints_policy == "Honor",
        )


class InterPodDocument(Document):
    """`muster/pod-constraints`."""

    affinity: tuple[PodTermDocument, ...] = ()
    anti_affinity: tuple[PodTermDocument, ...] = ()
    preferred: tuple[WeightedPodTermDocument, ...] = ()
    spread: tuple[SpreadDocument, ...] = ()

    def read(self, namespace: str) -> InterPodConstraints:
        """Returns the constraints of a pod in this namespace.

        Raises:
            InvalidField: the selectors read too many labels.
        """
        found = InterPodConstraints(
            affinity=tuple(one.read() for one in self.affinity),
            anti_affinity=tuple(one.read() for one in self.anti_affinity),
            preferred=tuple(WeightedPodTerm(one.weight, one.read()) for one in self.preferred),
            spread=tuple(one.read(namespace) for one in self.spread),
        )
        _check_reads(found)
        return found


def _check_reads(found: InterPodConstraints) -> None:
    """Checks how many labels the selectors read. Raises InvalidField."""
    pod_terms = (*found.affinity, *found.anti_affinity, *(weighted.term for weighted in found.preferred))
    sizes = [(len(term.selector or ()), len(term.namespaces) if term.among is None else 1) for term in pod_terms]
    sizes += [(len(spread.selector or ()), 1) for spread in found.spread]
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


# -- properties of pods --

#: `si/container-ports`: host IP, protocol, port.
Ports = tuple[tuple[str, str, _Port], ...]


def ports(found: Ports) -> tuple[HostPort, ...]:
    """Returns the host ports."""
    return tuple(HostPort(*one) for one in found)


class DiskDocument(Document):
    """An in-tree volume that two pods on one node may not share."""

    kind: Literal["gce", "aws", "iscsi", "rbd"]
    id: str = ""
    read_only: bool = False
    monitors: TextList = ()


class VolumesDocument(Document):
    """`muster/volumes`. `attached`: handles by driver."""

    claims: TextList = ()
    ephemeral: dict[str, str] = field(default_factory=dict)
    disks: tuple[DiskDocument, ...] = ()
    attached: dict[str, TextList] = field(default_factory=dict)

    def read(self, pod: str) -> Volumes:
        """Returns the volumes. `pod`: "namespace/name", needed for ephemeral volumes."""
        return Volumes(
            claims=self.claims,
            ephemeral=pairs(self.ephemeral),
            disks=tuple(Disk(one.kind, one.id, one.read_only, one.monitors) for one in self.disks),
            attached=volume_handles(self.attached),
            pod=pod if self.ephemeral else "",
        )


def volume_handles(found: dict[str, TextList]) -> tuple[VolumeHandle, ...]:
    """Returns the handles of all drivers, ordered by driver."""
    return tuple(VolumeHandle(driver, handle) for driver in sorted(found) for handle in found[driver])


class PreferredTerm(Document):
    """A preference for nodes."""

    weight: _Weight = 0
    preference: TermDocument = field(default_factory=TermDocument)


class PreferencesDocument(Document):
    """`muster/preferences`."""

    node_affinity: tuple[PreferredTerm, ...] = ()
    images: TextList = ()
    volume_images: TextList = ()

    def read(self) -> Preferences:
        """Returns the preferences."""
        preferred = tuple((one.weight, one.preference.read()) for one in self.node_affinity)
        return Preferences(preferred, self.images, self.volume_images)


# -- gangs --


class MemberDocument(Document):
    """An element of `muster/members`. The last four fields are only used by virtual placeholders."""

    name: RequiredShortText
    min_member: _Positive
    resource: dict[str, int] = field(default_factory=dict)
    constraints: ConstraintsDocument = field(default_factory=ConstraintsDocument)
    pod_constraints: InterPodDocument = field(default_factory=InterPodDocument)
    labels: dict[str, str] = field(default_factory=dict)
    preferences: PreferencesDocument = field(default_factory=PreferencesDocument)
    priority: _Priority = 0
    allow_preempt_self: bool = True
    allow_preempt_other: bool = True

    def read(self, namespace: str) -> Member:
        """Returns the task group of a gang in this namespace.

        Raises:
            InvalidField: an amount is out of range, or the selectors read too many labels.
        """
        resources = values.resources(self.resource, limits.QUANTITY)
        labels = ((keys.TAG_POD_LABEL_PREFIX + key, value) for key, value in pairs(self.labels))
        inter_pod, preferences = self.pod_constraints.read(namespace), self.preferences.read()
        is_plain = inter_pod == NO_INTER_POD_CONSTRAINTS and preferences == NO_PREFERENCES
        return Member(
            group=TaskGroup(self.name),
            count=self.min_member,
            resources=resources,
            constraints=self.constraints.read(),
            facts=NO_PROPERTIES if is_plain else PodProperties(inter_pod, preferences=preferences),
            tags=((keys.TAG_NAMESPACE, namespace), *labels),
            priority=self.priority,
            allow_preempt_self=self.allow_preempt_self,
            allow_preempt_other=self.allow_preempt_other,
        )


# -- placement constraints of the Scheduler Interface --


class TargetExpression(Document):
    """An AffinityTargetExpression."""

    target_key: RequiredShortText
    target_operator: TargetOperator | None = None
    target_values: TextList | None = None

    def __post_init__(self) -> None:
        """Checks that there are values if, and only if, the operator compares with values."""
        if bool(self.target_values) != (self.operator in (TargetOperator.IN, TargetOperator.NOT_IN)):
            raise ValueError(f"targetValues do not go with {self.operator.value}")

    @property
    def operator(self) -> TargetOperator:
        """The operator; IN if none is given."""
        return self.target_operator or TargetOperator.IN

    def read(self) -> Target:
        """Returns the target."""
        return Target(self.target_key, self.operator, self.target_values or ())


class NodeAffinityConstraint(Document):
    """Targets that a node must meet."""

    target_expressions: tuple[TargetExpression, ...] = ()


class AllocationAffinityAttribute(Document):
    """Bounds on allocations nearby. The Scheduler Interface misspells `targetExpressions`; both are accepted."""

    scope: RequiredShortText
    traget_expressions: tuple[TargetExpression, ...] = ()
    target_expressions: tuple[TargetExpression, ...] = ()
    min_cardinality: _Cardinality = 0
    max_cardinality: _Cardinality = UNBOUNDED
    required: bool = False

    def __post_init__(self) -> None:
        """Checks that the fields together are a constraint."""
        if bool(self.traget_expressions) == bool(self.target_expressions):
            raise ValueError("either tragetExpressions or targetExpressions must be given")
        if self.min_cardinality > self.max_cardinality:
            raise ValueError(
                f"minCardinality is more than maxCardinality: {self.min_cardinality} > {self.max_cardinality}"
            )
        if not self.min_cardinality and self.max_cardinality == UNBOUNDED:
            raise ValueError("minCardinality or maxCardinality is missing: neither bounds anything")

    def read(self) -> AllocationAffinity:
        """Returns the bounds."""
        expressions = self.traget_expressions or self.target_expressions
        found = tuple(one.read() for one in expressions)
        return AllocationAffinity(self.scope, found, self.min_cardinality, self.max_cardinality, self.required)


class SimpleConstraint(Document):
    """Both parts apply."""

    node_affinity_constraint: NodeAffinityConstraint | None = None
    allocation_affinity_attribute: AllocationAffinityAttribute | None = None


class PlacementDocument(Document):
    """`muster/placement-constraint`. Composite constraints are not supported, because the first version of the
    Scheduler Interface has them only in a comment.
    """

    simple_constraint: SimpleConstraint

    def read(self) -> PlacementConstraint:
        """Returns the constraint.

        Raises:
            InvalidField: it is empty.
        """
        simple = self.simple_constraint
        nodes, allocations = simple.node_affinity_constraint, simple.allocation_affinity_attribute
        found = PlacementConstraint(
            tuple(one.read() for one in nodes.target_expressions) if nodes is not None else (),
            allocations.read() if allocations is not None else None,
        )
        if not found.nodes and found.allocations is None:
            both = "nodeAffinityConstraint or allocationAffinityAttribute"
            raise InvalidField(both, "is missing: the constraint is empty")
        return found
