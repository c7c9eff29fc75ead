"""Scheduling constraints of pods as values: node affinity, tolerations, inter-pod affinity, topology spread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import Final, assert_never


@dataclass(frozen=True, slots=True)
class Requirement:
    """One match expression: operator In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Term:
    """A node selector term: all requirements must match. An empty term matches no node."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration. An empty key with operator Exists matches every taint; an empty effect matches every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint. `effect`: NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Constraints:
    """Constraints on node properties.

    `affinity`: required node affinity, terms are ORed; None = none. `features`: features that the node must declare,
    sorted.
    """

    node_selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[Term, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    node_name: str = ""
    features: tuple[str, ...] = ()


ANYWHERE: Final = Constraints()

#: Tags that some selector reads, as (key, value), sorted.
Tags = tuple[tuple[str, str], ...]
NO_TAGS: Final[Tags] = ()


class TargetOperator(StrEnum):
    """Operator of a target."""

    IN = "IN"
    NOT_IN = "NOT_IN"
    EXIST = "EXIST"
    NOT_EXIST = "NOT_EXIST"


@dataclass(frozen=True, slots=True)
class Target:
    """One AffinityTargetExpression on an attribute of a node or a tag of an allocation."""

    key: str
    operator: TargetOperator = TargetOperator.IN
    values: tuple[str, ...] = ()


#: No upper limit of a cardinality.
UNBOUNDED: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class AllocationAffinity:
    """Bounds on the number of allocations that match all `targets` in a group of nodes.

    A group is the nodes with the same value of the attribute `scope`. `at_least` is compared before the request is
    placed; `at_most` includes the request if it matches the targets itself. While fewer than `at_least` allocations
    match in the partition, a request that matches itself may join the group that has all of them, or be the first
    one. Kubernetes treats the first pod of a series with pod affinity in the same way. Nodes without the attribute are
    in no group. `required`: False = a preference.
    """

    scope: str
    targets: tuple[Target, ...]
    at_least: int = 0
    at_most: int = UNBOUNDED
    required: bool = True


@dataclass(frozen=True, slots=True)
class PlacementConstraint:
    """Placement constraint of the Scheduler Interface: both parts apply; node targets are ANDed."""

    nodes: tuple[Target, ...] = ()
    allocations: AllocationAffinity | None = None


def matches(targets: Iterable[Target], tags: Mapping[str, str]) -> bool:
    """Whether an object with these tags matches all targets."""
    return all(_meets(target, tags.get(target.key)) for target in targets)


def _meets(target: Target, value: str | None) -> bool:
    match target.operator:
        case TargetOperator.IN:
            return value in target.values
        case TargetOperator.NOT_IN:
            return value not in target.values
        case TargetOperator.EXIST:
            return value is not None
        case TargetOperator.NOT_EXIST:
            return value is None
        case _:
            assert_never(target.operator)


#: Tag with the namespace of an allocation (`muster_si.keys.TAG_NAMESPACE`).
NAMESPACE: Final = "kubernetes.io/meta/namespace"

#: Tag of an allocation that is being deleted (`muster_si.keys.TAG_TERMINATING`). Topology spread ignores it.
TERMINATING: Final = "muster/terminating"

#: Its value if a scheduler preempted the pod (`muster_si.keys.TERMINATING_PREEMPTED`).
TERMINATING_PREEMPTED: Final = "preempted"

#: Tags with the grace period of a pod (absent = the default) and the time when a deleted pod has to be gone
#: (`muster_si.keys`), both in seconds.
GRACE_PERIOD: Final = "muster/grace-period"
DEFAULT_GRACE_PERIOD_S: Final = 30
DELETION_TIME: Final = "muster/deletion-time"

#: Prefix of tags that are labels of the pod (`muster_si.keys.TAG_POD_LABEL_PREFIX`).
LABEL_PREFIX: Final = "kubernetes.io/label/"

#: Scope of a selector that may select pods of any namespace.
ANY_NAMESPACE: Final = ""

#: A scope, which is a namespace or ANY_NAMESPACE, and the tag that is read in it.
Read = tuple[str, str]

#: A label selector: all targets must match. None matches no pod, an empty one every pod.
Selector = tuple[Target, ...] | None


@dataclass(frozen=True, slots=True)
class PodTerm:
    """Pods that match `selector` in certain namespaces, on nodes with the same value of the label `topology`.

    The namespaces are those in `namespaces` and those whose labels match `among`. Keys of `among` are labels; keys of
    `selector` are tags.
    """

    topology: str
    selector: Selector
    namespaces: tuple[str, ...] = ()
    among: Selector = None


@dataclass(frozen=True, slots=True)
class WeightedPodTerm:
    """A preference for nodes near such pods; with a negative weight, against them."""

    weight: int
    term: PodTerm


@dataclass(frozen=True, slots=True)
class TopologySpreadConstraint:
    """A topology spread constraint for the pods that match `selector` in `namespace`.

    `required`: DoNotSchedule, else ScheduleAnyway. `honors_affinity`, `honors_taints`: nodes that node affinity or
    taints exclude are no domains, and pods there are not counted (nodeAffinityPolicy, nodeTaintsPolicy).
    """

    topology: str
    max_skew: int
    selector: Selector
    namespace: str
    required: bool = True
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False


@dataclass(frozen=True, slots=True)
class InterPodConstraints:
    """All inter-pod terms of a pod: `affinity` is required affinity, `anti_affinity` required anti-affinity.

    `reads`: the tags that the selectors of all terms read, without duplicates; `affinity_reads`: of `affinity` only.
    """

    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferred: tuple[WeightedPodTerm, ...] = ()
    spread: tuple[TopologySpreadConstraint, ...] = ()
    reads: tuple[Read, ...] = field(init=False, repr=False, compare=False)
    affinity_reads: tuple[Read, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Computes the reads, which are used several times for each pod."""
        affinity = tags_among(_reads_of(self.affinity))
        others = (*self.anti_affinity, *(one.term for one in self.preferred))
        spread = ((one.namespace, target.key) for one in self.spread for target in one.selector or ())
        object.__setattr__(self, "affinity_reads", affinity)
        object.__setattr__(self, "reads", tags_among(chain(affinity, _reads_of(others), spread)))


def tags_among(reads: Iterable[Read]) -> tuple[Read, ...]:
    """Removes duplicates, and the two tags that are kept of every pod: namespace and deletion."""
    return tuple(dict.fromkeys(read for read in reads if read[1] not in (NAMESPACE, TERMINATING)))


def _reads_of(terms: Iterable[PodTerm]) -> Iterator[Read]:
    """Yields the tags that the terms read. A term with a namespace selector may read any namespace."""
    for term in terms:
        scopes = term.namespaces if term.among is None else (ANY_NAMESPACE,)
        yield from ((scope, target.key) for scope in scopes for target in term.selector or ())


NO_INTER_POD_CONSTRAINTS: Final = InterPodConstraints()
