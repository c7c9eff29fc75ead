"""What a pod asks of the pods near it: inter-pod affinity and topology spread, as values.

They travel as `muster/pod-constraints` (muster_si.keys). A label selector is
a conjunction of targets on tags (model/placement.py), so that pods are found by
the same index as seed 001's affinity finds them. Equal constraints are equal
values (semantics 21). Source: Kubernetes, "Assigning Pods to Nodes", "Pod
Topology Spread Constraints".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from muster_core.model.placement import Target

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
class WeighedTerm:
    """A preference for such pods near; a negative weight is one against them."""

    weight: int
    term: PodTerm


@dataclass(frozen=True, slots=True)
class Spread:
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
class Company:
    """All of a pod's terms: required ones for and against, preferred ones, and spread constraints."""

    near: tuple[PodTerm, ...] = ()
    apart: tuple[PodTerm, ...] = ()
    preferred: tuple[WeighedTerm, ...] = ()
    spread: tuple[Spread, ...] = ()


ANY_COMPANY: Final = Company()
