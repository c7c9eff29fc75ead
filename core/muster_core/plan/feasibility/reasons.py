"""Which reasons go away when somebody leaves, and which do not: where preemption may help, and where it cannot.

kube-scheduler says Unschedulable of the former and UnschedulableAndUnresolvable of the latter. A reason for the whole
pod (node_affinity.conflict and its like) never goes away. A node that has too little of a resource at all is not
helped either: resources_fit tells that by its size.
"""

from __future__ import annotations

from typing import Final

from muster_core.plan.feasibility.node_ports import TAKEN

#: By their words; "Insufficient ..." aside.
RESOLVABLE: Final = frozenset(
    {
        TAKEN,
        "Too many pods",
        "node(s) had no available disk",
        (
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by"
            " another pod"
        ),
        "node(s) exceed max volume count",
        "node(s) didn't match pod topology spread constraints",
        "node(s) didn't match pod anti-affinity rules",
        "node(s) didn't satisfy existing pods anti-affinity rules",
    }
)
_INSUFFICIENT: Final = "Insufficient "


def is_resolvable(reason: str) -> bool:
    """Whether a node that is refused for it may be free for the pod once somebody left."""
    return reason in RESOLVABLE or reason.startswith(_INSUFFICIENT)
