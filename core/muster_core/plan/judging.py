"""Which places of an earlier plan still hold: between a question and its answer nodes and others on them change.

Each place is looked at as if all others of the decision were taken, so their order does not matter. Room, queues and
limits are checked by engine/commit.py.
"""

from __future__ import annotations

from typing import Final

from muster_core.model.decisions import Placement, Swap
from muster_core.model.ids import AllocationKey, NodeId
from muster_core.plan import fit
from muster_core.plan.draft import Draft
from muster_core.plan.feasibility import filters
from muster_core.plan.outline import shape_of
from muster_core.plan.shape import Shape
from muster_core.world.applications import Application
from muster_core.world.nodes import NodeTable

#: What the resource manager refuses is its own answer's business.
_NOT_ASKED: Final = frozenset({"Predicates"})

#: An ask and the node it is to go to.
Place = tuple[AllocationKey, NodeId]


def holds(nodes: NodeTable, app: Application, swap: Swap) -> bool:
    """Whether the real ask may still run on the node of its swap, by the node's facts."""
    ask = app.asks.get(swap.ask)
    if ask is None or swap.node not in nodes or swap.node in ask.kind.avoid:
        return False
    return bool(filters.allowed(ask.kind.constraints, nodes)[nodes.rows.row(swap.node)])


def left_of(nodes: NodeTable, app: Application, decision: Placement) -> tuple[Place, ...]:
    """The places of a decision that filters still allow."""
    draft, row = Draft(nodes), nodes.rows.row
    known = [(key, node) for key, node in decision.places if key in app.asks and node in nodes]
    shapes = {key: shape_of(app.asks[key].kind) for key, _ in known}
    for key, node in known:
        fit.charge(draft, shapes[key], row(node))
    allowed: dict[tuple[Shape, NodeId], bool] = {}
    left: list[Place] = []
    for key, node in known:
        shape = shapes[key]
        if (shape, node) not in allowed:
            fit.charge(draft, shape, row(node), -1)
            allowed[shape, node] = bool(fit.allowed(draft, shape, _NOT_ASKED)[row(node)])
            if allowed[shape, node]:
                fit.charge(draft, shape, row(node))
        if allowed[shape, node]:
            left.append((key, node))
    return tuple(left)
