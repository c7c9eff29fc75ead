"""Room that is held on nodes for asks that wait: who holds how much, where, and since when.

A reservation does not close its node: its amounts count as taken for
everybody else (NodeTable.claim), so that what frees there gathers for the one
that waits. Written by engine/ledger.py only. Source: contract 13, behaviour C.5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from muster_core.model.ids import AllocationKey, ApplicationId, NodeId, QueuePath
from muster_core.model.resources import Resources

#: An ask, among those of all applications.
AskId = tuple[ApplicationId, AllocationKey]


@dataclass(frozen=True, slots=True)
class Hold:
    """Room on `node` for one place of an ask. `number` tells its clock from those of earlier holds."""

    application: ApplicationId
    key: AllocationKey
    node: NodeId
    resources: Resources
    number: int
    #: The ask may run on no other node (DaemonSets): such holds stand beside others.
    required: bool = False
    #: The preemption whose victims made, or make, room for it; it holds head room in the queues too (Queue.claimed).
    #: 0 = none did.
    preemption: int = 0

    @property
    def preempted(self) -> bool:
        """Whether victims go for it."""
        return self.preemption != 0

    @property
    def ask(self) -> AskId:
        """Whose it is."""
        return self.application, self.key


@dataclass(slots=True, eq=False)
class Reservations:
    """All holds of a partition: one an ask, by ask, by node and by application."""

    by_ask: dict[AskId, Hold] = field(default_factory=dict)
    by_node: dict[NodeId, dict[AskId, Hold]] = field(default_factory=dict)
    by_application: dict[ApplicationId, dict[AllocationKey, Hold]] = field(default_factory=dict)
    #: Leaves with asks that no node could come to hold, while the nodes' `facts_epoch` is `without_node_since`.
    without_node: dict[QueuePath, None] = field(default_factory=dict)
    without_node_since: int = 0

    def __bool__(self) -> bool:
        return bool(self.by_ask)

    def on(self, node: NodeId) -> Iterator[Hold]:
        """The holds on a node, oldest first."""
        return iter(tuple(self.by_node.get(node, {}).values()))

    def of(self, application: ApplicationId) -> Iterator[Hold]:
        """The holds of an application, oldest first."""
        return iter(tuple(self.by_application.get(application, {}).values()))

    def add(self, hold: Hold) -> None:
        """Take in the hold of an ask that has none."""
        self.by_ask[hold.ask] = hold
        self.by_node.setdefault(hold.node, {})[hold.ask] = hold
        self.by_application.setdefault(hold.application, {})[hold.key] = hold

    def remove(self, hold: Hold) -> None:
        """Forget a hold."""
        del self.by_ask[hold.ask]
        on_node, of_app = self.by_node[hold.node], self.by_application[hold.application]
        del on_node[hold.ask]
        del of_app[hold.key]
        if not on_node:
            del self.by_node[hold.node]
        if not of_app:
            del self.by_application[hold.application]
