"""A "no" as a value: made once where a question is answered, viewed everywhere else.

Pod condition, event, REST field, metric label and `muster explain` are views
of a Shortfall (style 16).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

#: Stands for a number of nodes where kube-scheduler gives none: it did not look at any.
EVERY_NODE: Final = -1


class Lack(StrEnum):
    """What is missing."""

    QUOTA = "quota"  # a queue's max; nothing a new node would help with
    USER_QUOTA = "user quota"  # a limit of a user or a group
    APPLICATIONS = "applications"  # as many run as may: maxapplications of a queue, a user or a group
    TURN = "turn"  # another application goes first (a gang waiting, a pledge)
    NODES = "nodes"  # no node has it: what an autoscaler may help with
    RESERVED = "reserved"  # room is held for it on a node, and is not all there yet
    ADMISSION = "admission"  # the application's queue, or the groups of its user, are not known yet
    CLUSTER = "cluster"  # the cluster's nodes could not hold it even if empty


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Why something has no place. `counts`: reason text → number of nodes, in
    kube-scheduler's wording where nodes are the reason; `nodes`: how many there are.
    A reason that is of the pod and not of nodes has EVERY_NODE for a number.
    """

    lack: Lack
    message: str = ""
    counts: tuple[tuple[str, int], ...] = ()
    nodes: int = 0

    def text(self) -> str:
        """One line for people, as kube-scheduler words and sorts it when nodes are the reason."""
        if not self.counts:
            return self.message
        found = ", ".join(sorted(_counted(reason, count) for reason, count in self.counts))
        head = f"{self.message}: " if self.message else ""
        return f"{head}0/{self.nodes} nodes are available: {found}."


def _counted(reason: str, count: int) -> str:
    return reason if count == EVERY_NODE else f"{count} {reason}"
