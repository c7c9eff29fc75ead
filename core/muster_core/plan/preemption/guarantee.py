"""Victims for asks of a queue that is below its guarantee (contract 10.1).

One ask, or all that a gang still lacks: room for every one of them is found, or
nobody goes. For each the node is taken whose victims are the least loss; what
a queue's maximum still lacks after that is freed anywhere inside the fence. A
node that filters refuse for a reason that may go away with somebody there is
looked at too, and that one has to go (clearing.py); where every node is
refused for another reason, nobody goes.

Bounded: so many nodes are looked at, those of the candidates that would go first;
a solution may be missed, never made up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from muster_core.model.decisions import Preemption
from muster_core.model.ids import AllocationKey, NodeId, QueuePath
from muster_core.model.limits import MEMBERS_PER_PREEMPTION
from muster_core.model.resources import NOTHING, Resources
from muster_core.plan import fit, headroom
from muster_core.plan.draft import Draft
from muster_core.plan.outline import shape_of
from muster_core.plan.preemption.candidates import Candidate, Pool, victim_leaves
from muster_core.plan.preemption.clearing import going, in_the_way, may_run_without, move, that_may_go
from muster_core.plan.preemption.rights import Balance, fence
from muster_core.plan.shape import Shape
from muster_core.world.applications import Application, Ask
from muster_core.world.preemptions import PlaceId
from muster_core.world.world import Partition

#: The words of YuniKorn's allocation log (contract 4.1).
NO_RIGHT: Final = "Preemption queue guarantees check failed"
NO_HELP: Final = "Preemption does not help"
TOO_SHORT: Final = "Preemption helped but short of resources"
EXHAUSTED: Final = "Preemption max attempts exhausted"

#: Nodes that one attempt looks at, and at least for each member of a gang.
_MOST_NODES: Final = 24
_LEAST_NODES: Final = 4
#: Of them, those that have to be cleared of somebody for more than room.
_MOST_CLEARED: Final = 4


def refusal(partition: Partition, app: Application, asks: list[Ask]) -> str:
    """Return why no victims are searched for: too many members, or no right to any; empty = a search may help.

    Costs nothing that grows with the number of members an ask is for.
    """
    if sum(map(_places, asks)) > MEMBERS_PER_PREEMPTION:
        return EXHAUSTED
    amount = asked(asks)
    if fence(app, amount) is None or headroom.is_beyond_limits(partition, app, amount):
        return NO_RIGHT
    return ""


def asked(asks: list[Ask]) -> Resources:
    """What is asked for in all."""
    return sum((ask.spec.resources.times(_places(ask)) for ask in asks), NOTHING)


def _places(ask: Ask) -> int:
    """How many members an ask is for, before it is split; for all others one place at a time is made room for."""
    return ask.left if ask.spec.podless else 1


def plan(
    partition: Partition, app: Application, asks: list[Ask], spared: Iterable[QueuePath], now_ns: int
) -> Preemption | str:
    """Who has to go so that all of the asks have their places, and where those are; or why it cannot be done.
    `spared`: leaves that nothing is taken from.
    """
    refused = refusal(partition, app, asks)
    amount = asked(asks)
    bound = fence(app, amount)
    if refused or bound is None:
        return refused or NO_RIGHT
    leaves = victim_leaves(bound.root, amount, (*spared, app.queue.path))
    priority = min(ask.spec.priority for ask in asks)
    pool = Pool(partition, leaves, app.queue, priority=priority, amount=amount)
    found = pool.sample()
    if not found:
        return NO_HELP
    path = frozenset(queue.path for queue in app.queue.path_up())
    balance = Balance(partition.queues.root, amount, path)
    search = _Search(partition, _draft(partition, asks), pool, found, balance, now_ns)
    places: list[tuple[AllocationKey, NodeId]] = []
    for ask in asks:
        node = search.place(ask, max(_MOST_NODES // len(asks), _LEAST_NODES))
        if node is None:
            return TOO_SHORT if search.chosen or search.freed_some else NO_HELP
        places.append((ask.spec.key, node))
    if not search.free_elsewhere(bound.need):
        return TOO_SHORT
    if not search.chosen:
        return NO_HELP  # it waits for nobody: what goes already makes room
    return Preemption(partition.id, app.id, tuple(places), tuple(search.chosen))


def _draft(partition: Partition, asks: list[Ask]) -> Draft:
    """The schedulable nodes, with what is held for these asks, and what an ask that preempts need not leave alone.
    Those whom others went for are as good as there.
    """
    own = {(ask.spec.application, ask.spec.key) for ask in asks}
    draft = Draft(partition.nodes)
    draft.within = draft.schedulable
    for name, hold in partition.reservations.by_ask.items():
        if name in own or not (hold.preempted or hold.required):
            draft.free(hold.node, hold.resources)
        else:
            draft.enter(
                partition.nodes.rows.row(hold.node), partition.applications[name[0]].asks[name[1]].kind.occupant
            )
    return draft


@dataclass(frozen=True, slots=True)
class _Solution:
    """Victims on one node. The least loss has the lowest `key`."""

    key: tuple[int, int, int, int, float, int]
    node: NodeId
    victims: tuple[Candidate, ...]


@dataclass(slots=True)
class _Search:
    """What is found for the asks so far."""

    partition: Partition
    draft: Draft
    pool: Pool
    found: list[Candidate]
    balance: Balance
    now_ns: int
    chosen: dict[PlaceId, Candidate] = field(default_factory=dict)
    freed_some: bool = False

    def place(self, ask: Ask, at_most: int) -> NodeId | None:
        """The node for one ask, as it is or with victims, which are chosen; None = there is none."""
        shape = shape_of(ask.kind)
        spots = fit.place(self.draft, shape, 1, self.partition.config.node_sort)
        if spots:
            return spots[0][0]
        solutions = [one for node in self._nodes(shape, at_most) if (one := self._solve(node, shape))]
        if not solutions:
            return None
        best = min(solutions, key=lambda solution: solution.key)
        for victim in best.victims:
            self._choose(victim)
        fit.charge(self.draft, shape, self._row(best.node))
        return best.node

    def free_elsewhere(self, need: Resources) -> bool:
        """Choose more victims, on any node, until the queues have room too."""
        lacking = positive(need - sum((victim.resources for victim in self.chosen.values()), NOTHING))
        if not lacking:
            return True
        left = [candidate for candidate in self.found if candidate.id not in self.chosen]
        more = fewest(left, lacking, self.balance)
        for victim in more or ():
            self._choose(victim)
        return more is not None

    def _nodes(self, shape: Shape, at_most: int) -> list[NodeId]:
        """Nodes with candidates that are left, where the ask may run, or might, and that are large enough for it."""
        allowed = fit.allowed(self.draft, shape)
        may_help = allowed | fit.resolvable(self.draft, shape)
        nodes = self.draft.nodes
        found: dict[NodeId, None] = {}
        to_clear = 0
        for candidate in self.found:
            node = candidate.allocation.node
            row = self._row(node)
            if candidate.id in self.chosen or node in found or not may_help[row]:
                continue
            if nodes.record(node).spec.capacity.covers(shape.resources) and (allowed[row] or to_clear < _MOST_CLEARED):
                found[node] = None
                to_clear += not allowed[row]
                if len(found) >= at_most:
                    break
        return list(found)

    def _solve(self, node: NodeId, shape: Shape) -> _Solution | None:
        candidates = [one for one in self.pool.on(node) if one.id not in self.chosen]
        victims = in_the_way(self.draft, shape, node, that_may_go(candidates, self.balance))
        if victims is None:
            return None
        left = [one for one in candidates if one not in victims]
        more = self._more(node, shape, left, victims)
        if more and not may_run_without(self.draft, shape, node, [*victims, *more]):
            left = [one for one in left if may_run_without(self.draft, shape, node, [*victims, one])]
            more = self._more(node, shape, left, victims)
        if more is None or not may_run_without(self.draft, shape, node, victims := [*victims, *more]):
            return None
        self.freed_some = True
        key = (
            sum(victim.is_precious for victim in victims),
            len({victim.app.id for victim in victims if victim.breaks_gang}),
            max((victim.priority for victim in victims), default=-(2**31)),
            len(victims),
            sum(victim.cost for victim in victims),
            int(self.draft.nodes.rows.ranks()[self._row(node)]),
        )
        return _Solution(key, node, tuple(victims))

    def _more(
        self, node: NodeId, shape: Shape, candidates: list[Candidate], victims: list[Candidate]
    ) -> list[Candidate] | None:
        """Those who make the room that is lacking once the victims are gone; None = they do not."""
        room = {
            name: column.item(self._row(node))
            for name in shape.resources
            if (column := self.draft.available(name)) is not None
        }
        freed = sum((victim.resources for victim in victims), NOTHING)
        for victim in victims:
            self.balance.lose(victim.app.queue, victim.resources)
        freed += going(self.partition, node, self.now_ns)
        more = fewest(candidates, positive(shape.resources - Resources(room) - freed), self.balance)
        for victim in victims:
            self.balance.lose(victim.app.queue, victim.resources, -1)
        return more

    def _row(self, node: NodeId) -> int:
        return self.draft.nodes.rows.row(node)

    def _choose(self, victim: Candidate) -> None:
        self.chosen[victim.id] = victim
        self.balance.lose(victim.app.queue, victim.resources)
        self.draft.free(victim.allocation.node, victim.resources)
        move(self.draft, victim, -1)


def fewest(
    candidates: list[Candidate], lacking: Resources, balance: Balance, *, enough: bool = True
) -> list[Candidate] | None:
    """The first candidates that free what lacks and leave every guarantee alone, less those that need not go
    after all; None = they free too little, if it has to be `enough`. `balance` is left as it was.
    """
    victims: list[Candidate] = []
    rest = lacking
    for candidate in candidates:
        if not rest:
            break
        leaf, amount = candidate.app.queue, candidate.resources
        if any(amount[name] for name in rest) and balance.may_lose(leaf, amount):
            balance.lose(leaf, amount)
            victims.append(candidate)
            rest = positive(rest - amount)
    for victim in victims:
        balance.lose(victim.app.queue, victim.resources, -1)
    return None if rest and enough else _without_idle(victims, lacking - rest)


def _without_idle(victims: list[Candidate], lacking: Resources) -> list[Candidate]:
    """Spare those, the last in order first, without whom it is enough."""
    freed = sum((victim.resources for victim in victims), NOTHING)
    kept: list[Candidate] = []
    for victim in reversed(victims):
        if (freed - victim.resources).covers(lacking):
            freed -= victim.resources
        else:
            kept.append(victim)
    return kept[::-1]


def positive(amounts: Resources) -> Resources:
    """The amounts above 0."""
    return Resources({name: amount for name, amount in amounts.items() if amount > 0})
