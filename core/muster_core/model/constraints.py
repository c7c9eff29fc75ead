"""A pod's hard constraints and a node's taints, as values.

Meaning as in a Kubernetes PodSpec; they travel as `muster/constraints` and
`muster/taints` (muster_si.keys). Equal constraints are equal values, so
feasibility is computed once per value and not once per pod (semantics 21).
Source: Kubernetes, "Assigning Pods to Nodes", "Taints and Tolerations".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


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
