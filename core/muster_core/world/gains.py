"""On which nodes something may fit that did not fit before: what a pass has to look at anew."""

from __future__ import annotations

from typing import Final

from muster_core.model.ids import NodeId

#: Something changed that any claim may wait for.
ANY_CLAIM: Final = ""


class Gains:
    """Nodes that gained since they were last taken."""

    __slots__ = ("_nodes", "_noted", "claims", "company")

    def __init__(self) -> None:
        self._nodes: dict[NodeId, None] = {}
        #: Growths of the table's epoch that were noted here, since the beginning.
        self._noted = 0
        #: Allocations came or went that others may ask for, or domains did; emptied by who reads it.
        self.company = False
        #: Claims that changed; emptied by who reads it.
        self.claims: dict[str, None] = {}

    def note(self, node: NodeId) -> None:
        """The table's epoch grows by one because of this node."""
        self._nodes[node] = None
        self._noted += 1

    def note_company(self) -> None:
        """The table's epoch grows by one because of who is where."""
        self.company = True
        self._noted += 1

    def note_claim(self, claim: str) -> None:
        """The table's epoch grows by one because of a claim, or of what any claim may wait for."""
        self.claims[claim] = None
        self._noted += 1

    def take(self, epoch: int) -> list[NodeId] | None:
        """Those that gained until this epoch, gone ones too; None = the epoch grew for more than them."""
        nodes = list(self._nodes)
        is_told = epoch == self._noted
        self._nodes.clear()
        self._noted = epoch
        return nodes if is_told else None
