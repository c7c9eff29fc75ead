"""Which placeholder each real ask takes over from (seed 000, "Scheduler logic changes"; semantics 14, 15).

A placeholder of the same task group that is as large, on its own node; where
the real pod may not run there, on another node that has room; else nobody's.
A real ask larger than every placeholder of its group gives one up and is
scheduled as usual. No head room is asked for: a real ask is never larger than
what it takes over from.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from muster_core.model.decisions import Eviction, Swap
from muster_core.model.facts import Occupant, PodFacts
from muster_core.model.ids import AllocationKey
from muster_core.plan import fit
from muster_core.plan.draft import Draft
from muster_core.plan.feasibility.volumes import binding
from muster_core.plan.guards import guards
from muster_core.plan.outline import Outline, Unplaced, has_untold, shape_of, volumes_of
from muster_core.plan.shape import Shape
from muster_core.world.applications import Allocation, Application
from muster_core.world.classes import AskClass, occupant_of
from muster_core.world.obstacles import NoNode, NotTogether
from muster_core.world.ordering import classes
from muster_core.world.world import Partition

#: Placeholders that are tried for one ask with a placement constraint.
_MOST_TRIED: Final = 64

#: Why a placeholder is released although its real pod does not take its place.
TOO_LARGE = "the pod asks for more than its placeholder holds: it is scheduled as usual"


def plan(partition: Partition, app: Application, at_most: int) -> Outline:
    """Swaps for real asks that a live placeholder stands for, `at_most` in all."""
    outline = Outline()
    if not app.gang.live:
        return outline
    search = _Search(outline, Draft(partition.nodes), set())
    for kind in classes(app):
        if has_placeholder(app, kind):
            is_watched = kind.depends_on_others or guards(search.draft, shape_of(kind))
            plan_kind = _plan_constrained if is_watched else _plan_class
            plan_kind(partition, app, kind, search, at_most - len(outline.decisions))
    outline.more = len(outline.decisions) >= at_most or (app.has_multiple and _is_left(app, outline))
    if outline.unplaced or outline.obstacles:
        # A label or a taint that goes may let the pod run where its placeholder is, full or not.
        outline.obstacles.append(NotTogether(app.id))
    return outline


def _is_left(app: Application, outline: Outline) -> bool:
    """Whether one that takes over at once, from a place without a pod, wants another place."""
    swaps = (decision for decision in outline.decisions if isinstance(decision, Swap))
    return any(app.asks[one.ask].left > 1 and app.allocations[one.placeholder].spec.podless for one in swaps)


def has_placeholder(app: Application, kind: AskClass) -> bool:
    """Whether asks of this class wait for a placeholder and not for a place of their own."""
    return not kind.placeholder and not kind.as_usual and kind.group in app.gang.live


@dataclass(slots=True)
class _Search:
    """What one plan shares: placeholders `taken` by earlier swaps, room taken in `draft`."""

    outline: Outline
    draft: Draft
    taken: set[str]


@dataclass(slots=True)
class _Candidates:
    """Live placeholders of a group, as one class sees them, oldest first."""

    here: deque[Allocation] = field(default_factory=deque)
    elsewhere: deque[Allocation] = field(default_factory=deque)
    smaller: deque[Allocation] = field(default_factory=deque)


def _plan_class(partition: Partition, app: Application, kind: AskClass, search: _Search, at_most: int) -> None:
    keys = list(islice(app.waiting[kind], max(at_most, 0)))
    candidates = _candidates(partition, app, kind, search.taken, len(keys))
    for key in keys:
        if candidates.here:
            placeholder = candidates.here.popleft()
            swap = Swap(partition.id, app.id, key, placeholder.id, placeholder.node, same_node=True)
            search.outline.decisions.append(swap)
            _hand_over(partition, placeholder, shape_of(kind), search.draft)
        elif candidates.elsewhere:
            if not _plan_elsewhere(partition, app, key, candidates.elsewhere[0], search):
                return
            placeholder = candidates.elsewhere.popleft()
        elif candidates.smaller:
            placeholder = candidates.smaller.popleft()
            search.outline.decisions.append(Eviction(partition.id, app.id, key, placeholder.id, TOO_LARGE))
        else:
            return
        search.taken.add(placeholder.id)


def _plan_constrained(partition: Partition, app: Application, kind: AskClass, search: _Search, at_most: int) -> None:
    """The same where others are asked about: each placeholder is supposed to be gone in its turn."""
    shape = shape_of(kind)
    for key in list(islice(app.waiting[kind], max(at_most, 0))):
        candidates = _candidates(partition, app, kind, search.taken, _MOST_TRIED)
        placeholder = _first_to_hand_over(partition, app, shape, candidates, search)
        if placeholder is not None:
            _hand_over(partition, placeholder, shape, search.draft)
            volumes = volumes_of(search.draft, kind)
            node = placeholder.node
            swap = Swap(partition.id, app.id, key, placeholder.id, node, same_node=True, volumes=volumes)
            search.outline.decisions.append(swap)
            search.taken.add(placeholder.id)
        elif not _plan_constrained_elsewhere(partition, app, key, candidates, search):
            return


def _first_to_hand_over(
    partition: Partition, app: Application, shape: Shape, candidates: _Candidates, search: _Search
) -> Allocation | None:
    """The first of the placeholders in whose place a real pod may be: as things are, or else as they will be.

    Other placeholders of its gang are there for its own members. They keep none of these away, nor apart from one
    another: what counts in the end is where the members are.
    """
    here = list(islice(candidates.here, _MOST_TRIED))
    found = _first_allowed(partition, shape, here, search.draft)
    if found is None and here:
        bare = search.draft.fork()
        for live in app.gang.live.values():
            for row, occupant in (_seen(partition, app.allocations[one]) for one in live if one not in search.taken):
                bare.enter(row, _near(occupant), -1)
        found = _first_allowed(partition, shape, here, bare, is_bare=True)
    return found


def _first_allowed(
    partition: Partition, shape: Shape, placeholders: list[Allocation], draft: Draft, *, is_bare: bool = False
) -> Allocation | None:
    """The draft is as before. `is_bare`: nothing of a placeholder counts there but what it takes of its node."""
    tried: set[tuple[int, Occupant]] = set()
    for placeholder in placeholders:
        row, occupant = _seen(partition, placeholder)
        if (row, occupant) in tried:
            continue
        tried.add((row, occupant))
        counted = [(occupant, -1), (_near(occupant), 1)] if is_bare else [(occupant, -1)]
        for one, times in counted:
            draft.enter(row, one, times)
        may_go = bool(fit.allowed(draft, shape)[row])
        for one, times in counted:
            draft.enter(row, one, -times)
        if may_go:
            return placeholder
    return None


def _near(occupant: Occupant) -> Occupant:
    """What matters of it to pods near it; ports and volumes are the node's."""
    return Occupant(occupant.tags, PodFacts(company=occupant.facts.company))


def _plan_constrained_elsewhere(
    partition: Partition, app: Application, key: AllocationKey, candidates: _Candidates, search: _Search
) -> bool:
    """Give the oldest placeholder up for a place on another node, or one that is too small for none."""
    shape, draft = shape_of(app.asks[key].kind), search.draft
    placeholder = next(iter((*candidates.here, *candidates.elsewhere)), None)
    if placeholder is None:
        if not candidates.smaller:
            return False
        evicted = candidates.smaller[0]
        search.outline.decisions.append(Eviction(partition.id, app.id, key, evicted.id, TOO_LARGE))
        search.taken.add(evicted.id)
        return True
    row, occupant = _seen(partition, placeholder)
    draft.enter(row, occupant, -1)
    spots = fit.place(draft, shape, 1, partition.config.node_sort)
    if not spots:
        # Not to be remembered of the class: with another placeholder gone the answer may be another.
        search.outline.unplaced.append(Unplaced(app.asks[key].kind, fit.shortfall(draft, shape)))
        search.outline.obstacles.append(NotTogether(app.id))
        draft.enter(row, occupant, 1)
        return False
    node = spots[0][0]
    volumes = volumes_of(draft, app.asks[key].kind)
    swap = Swap(partition.id, app.id, key, placeholder.id, node, same_node=False, volumes=volumes)
    search.outline.decisions.append(swap)
    search.taken.add(placeholder.id)
    return True


def _hand_over(partition: Partition, placeholder: Allocation, shape: Shape, draft: Draft) -> None:
    """Others see a real pod there instead of it."""
    row, gone = _seen(partition, placeholder)
    draft.enter(row, gone, -1)
    binding.assume(draft, shape, row)
    draft.enter(row, shape.occupant)


def _seen(partition: Partition, placeholder: Allocation) -> tuple[int, Occupant]:
    nodes = partition.nodes
    spec = placeholder.spec
    return nodes.rows.row(placeholder.node), occupant_of(spec.facts, nodes.occupants.tags.project(spec.tags))


def _candidates(partition: Partition, app: Application, kind: AskClass, taken: set[str], enough: int) -> _Candidates:
    """No more are looked for when `enough` are of the best kind."""
    allowed = fit.on_facts(Draft(partition.nodes), shape_of(kind))
    row = partition.nodes.rows.row
    found = _Candidates()
    for identity in app.gang.live[kind.group]:
        if len(found.here) >= enough:
            break
        if identity in taken:
            continue
        placeholder = app.allocations[identity]
        if not placeholder.spec.resources.covers(kind.resources):
            found.smaller.append(placeholder)
        elif allowed[row(placeholder.node)]:
            found.here.append(placeholder)
        else:
            found.elsewhere.append(placeholder)
    return found


def _plan_elsewhere(
    partition: Partition, app: Application, key: AllocationKey, placeholder: Allocation, search: _Search
) -> bool:
    kind = app.asks[key].kind
    shape = shape_of(kind)
    misfit = partition.misfits.get(kind)
    if misfit is not None and not misfit.room:
        search.outline.obstacles.append(NoNode(kind, 1))
        if has_untold(app, kind):
            search.outline.unplaced.append(Unplaced(kind, misfit.why))
        return False
    spots = fit.place(search.draft, shape, 1, partition.config.node_sort)
    if not spots:
        search.outline.unplaced.append(Unplaced(kind, fit.shortfall(search.draft, shape), room=0))
        search.outline.obstacles.append(NoNode(kind, 1))
        return False
    swap = Swap(partition.id, app.id, key, placeholder.id, spots[0][0], same_node=False)
    search.outline.decisions.append(swap)
    return True
