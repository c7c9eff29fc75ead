"""Scheduling constraints of pods as values. Node affinity, tolerations, inter-pod affinity, topology spread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never


@dataclass(frozen=True, slots=True)
class Requirement:
    """One match expression: operator In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Term:
    """A node selector term: everything in it must hold. An empty term matches no node."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class Toleration:
    """An empty key with Exists tolerates everything; an empty effect means every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class Taint:
    """effect: NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Constraints:
    """Where a pod may go. `affinity`: terms are ORed; None = no required node affinity. `features`: what a node has
    to declare, sorted.
    """

    node_selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[Term, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    node_name: str = ""
    features: tuple[str, ...] = ()


ANYWHERE: Final = Constraints()

#: Tags that some constraint reads, as (key, value), sorted.
Tags = tuple[tuple[str, str], ...]
NO_TAGS: Final[Tags] = ()


class TargetOperator(StrEnum):
    """How a target's key and values are meant."""

    IN = "IN"
    NOT_IN = "NOT_IN"
    EXIST = "EXIST"
    NOT_EXIST = "NOT_EXIST"


@dataclass(frozen=True, slots=True)
class Target:
    """One AffinityTargetExpression on a node's attribute or an allocation's tag."""

    key: str
    operator: TargetOperator = TargetOperator.IN
    values: tuple[str, ...] = ()


#: No upper bound on a cardinality.
UNBOUNDED: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class AllocationAffinity:
    """How many allocations that match all `targets` there have to be among the nodes that share the ask's node's
    value of the attribute `scope`: `at_least` before it is placed, `at_most` with it, if it matches them itself.
    Where fewer than `at_least` match in the whole partition, an ask that matches itself may join them where they
    all are, or begin (as the first pod of a series does in Kubernetes). Nodes without the attribute are in no group:
    none of it is counted there. `required`: else it is a preference.
    """

    scope: str
    targets: tuple[Target, ...]
    at_least: int = 0
    at_most: int = UNBOUNDED
    required: bool = True


@dataclass(frozen=True, slots=True)
class PlacementConstraint:
    """Both parts hold at once; node targets are ANDed."""

    nodes: tuple[Target, ...] = ()
    allocations: AllocationAffinity | None = None


def matches(targets: Iterable[Target], tags: Mapping[str, str]) -> bool:
    """Whether something with these tags meets all the targets."""
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


#: The tag that says of which namespace an allocation is (muster_si.keys, TAG_NAMESPACE).
NAMESPACE: Final = "kubernetes.io/meta/namespace"

#: The tag of an allocation that is being deleted (muster_si.keys, TAG_TERMINATING): spread does not count it any more.
TERMINATING: Final = "muster/terminating"

#: Begins the tags that are labels of the pod (muster_si.keys, TAG_POD_LABEL_PREFIX).
LABEL_PREFIX: Final = "kubernetes.io/label/"

#: A label selector: all of them hold. None matches no pod, an empty one every pod.
Selector = tuple[Target, ...] | None


@dataclass(frozen=True, slots=True)
class PodTerm:
    """Pods that match `selector` in certain namespaces, on nodes with one value of the label `topology`.

    The namespaces are those named and those whose labels `among` matches: its targets' keys are labels of
    namespaces, those of `selector` are tags.
    """

    topology: str
    selector: Selector
    namespaces: tuple[str, ...] = ()
    among: Selector = None


@dataclass(frozen=True, slots=True)
class WeightedPodTerm:
    """A preference for such pods near; a negative weight is one against them."""

    weight: int
    term: PodTerm


@dataclass(frozen=True, slots=True)
class TopologySpreadConstraint:
    """How evenly the pods that match `selector` in `namespace` lie over the values of a node label.

    `required`: DoNotSchedule, else ScheduleAnyway. `honors_*`: nodes where the pod may not go by its node
    affinity, or for its taints, are no domain and what is there does not count.
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
    """All of a pod's terms: required ones for and against, preferred ones, and spread constraints."""

    near: tuple[PodTerm, ...] = ()
    apart: tuple[PodTerm, ...] = ()
    preferred: tuple[WeightedPodTerm, ...] = ()
    spread: tuple[TopologySpreadConstraint, ...] = ()


NO_INTER_POD_CONSTRAINTS: Final = InterPodConstraints()
