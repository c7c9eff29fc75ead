"""Which places of an earlier plan still hold: between a question and its answer nodes and others on them change.

Only what filters say of nodes and of who is there: room, queues and limits are checked by engine/commit.py.
"""

from __future__ import annotations

from typing import Final

from muster_core.model.decisions import Placement, Swap
from muster_core.model.ids import AllocationKey, NodeId
from muster_core.plan import fit
from muster_core.plan.draft import Draft
from muster_core.plan.guards import pod_refusal
from muster_core.plan.outline import shape_of
from muster_core.plan.shape import Shape
from muster_core.world.applications import Application
from muster_core.world.nodes import NodeTable

#: What the resource manager refuses is its own answer's business.
_NOT_ASKED: Final = frozenset({"Predicates"})
#: Guards whose answers change with those who come and go.
_OF_OTHERS: Final = _NOT_ASKED | {
    "NodePorts",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "PodTopologySpread",
    "InterPodAffinity",
    "PlacementConstraint",
}

#: An ask and the node it is to go to.
Place = tuple[AllocationKey, NodeId]


def holds(nodes: NodeTable, app: Application, swap: Swap) -> bool:
    """Whether the real ask may still run on the node of its swap. Who else is there is not asked: there are the
    placeholders of its gang, too, and what they count for is plan/swap.py's to know.
    """
    ask = app.asks.get(swap.ask)
    if ask is None or swap.node not in nodes:
        return False
    draft, shape = Draft(nodes), shape_of(ask.kind)
    is_refused = bool(pod_refusal(draft, shape)) or not fit.allowed(draft, shape, _OF_OTHERS)[nodes.rows.row(swap.node)]
    return not is_refused


def left_of(nodes: NodeTable, app: Application, decision: Placement) -> tuple[Place, ...]:
    """The places of a decision that filters still allow: beside the others of it, or without them. In between was the
    order in which they were found, which is not known any more.
    """
    bare, row = Draft(nodes), nodes.rows.row
    known = [(key, node) for key, node in decision.places if key in app.asks and node in nodes]
    shapes = {key: shape_of(app.asks[key].kind) for key, _ in known}
    known = [(key, node) for key, node in known if not pod_refusal(bare, shapes[key])]
    full = bare.fork()
    for key, node in known:
        fit.charge(full, shapes[key], row(node))
    allowed: dict[tuple[Shape, NodeId], bool] = {}
    for key, node in known:
        shape = shapes[key]
        if (shape, node) not in allowed:
            fit.charge(full, shape, row(node), -1)
            views = (fit.allowed(draft, shape, _NOT_ASKED)[row(node)] for draft in (full, bare))
            allowed[shape, node] = any(views)
            if allowed[shape, node]:
                fit.charge(full, shape, row(node))
    return tuple((key, node) for key, node in known if allowed[shapes[key], node])
