"""Which reasons go away when somebody leaves, and which do not: where preemption may help, and where it cannot.

kube-scheduler says Unschedulable of the former and UnschedulableAndUnresolvable of the latter. A reason for the whole
pod (node_affinity.conflict and its like) never goes away. A node that has too little of a resource at all is not
helped either (resources_fit.too_small).
"""

from __future__ import annotations

from typing import Final

from muster_core.plan.feasibility.inter_pod_affinity import NOT_APART, UNWANTED
from muster_core.plan.feasibility.node_ports import TAKEN
from muster_core.plan.feasibility.placement import TOO_MANY
from muster_core.plan.feasibility.resources_fit import CROWDED, INSUFFICIENT
from muster_core.plan.feasibility.topology_spread import SKEWED
from muster_core.plan.feasibility.volumes import limits, restrictions

#: By their words; "Insufficient ..." aside.
RESOLVABLE: Final = frozenset(
    {
        *(TAKEN, CROWDED, restrictions.DISK, restrictions.IN_USE, limits.TOO_MANY),
        *(SKEWED, NOT_APART, UNWANTED, TOO_MANY),
    }
)


def is_resolvable(reason: str) -> bool:
    """Whether a node that is refused for it may be free for the pod once somebody left."""
    return reason in RESOLVABLE or reason.startswith(INSUFFICIENT)
