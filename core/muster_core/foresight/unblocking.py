"""The smallest sets of changes that would start a waiting application.

Each attempt makes some changes on a copy of the cluster and lets the production core run: the application must start
within `HORIZON_NS` of virtual time, in competition with all others. Nothing is derived from the reasons why it waits.
"""

from __future__ import annotations

import gc
import os
import pickle
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Final, Protocol, TypeVar

import numpy.ma  # noqa: F401  # numpy.isin imports it at its first use, which would be in each child process

from muster_core.foresight import changes as candidates
from muster_core.foresight.changes import ClusterChange, Ends
from muster_core.foresight.virtual_core import VirtualCore
from muster_core.model.effects import AllocationResponse, Effect
from muster_core.model.events import AllocationReleased, Event
from muster_core.model.ids import ApplicationId, PartitionId, Termination
from muster_core.state.applications import Application
from muster_core.state.reported_texts import ReportedTexts

#: Virtual time in which the application has to start. Preemption waits for 30 s by default.
HORIZON_NS: Final = 60 * 1_000_000_000

#: All subsets of at most this many changes are tried, and at most this many smaller sets of other changes.
_ALL_SUBSETS: Final = 6
_MOST_SETS: Final = 100

#: Most changes of a set, except equal nodes: nobody would make more.
_MOST_CHANGES: Final = 32

#: Exit code of a child process without memory, and characters of another failed one's report.
_NO_MEMORY: Final = 2
_LONGEST_REPORT: Final = 8_000

#: Factor by which more changes are tried until some start the application.
_GROWTH: Final = 8

#: Numbers of nodes up to this one are tried one by one.
_ONE_BY_ONE: Final = 8

_Starts = Callable[[Sequence[ClusterChange]], bool]
_Found = TypeVar("_Found")


class OnCopy(Protocol):
    """Runs a function on a copy of a core and returns its result, which pickle can copy."""

    def __call__(self, function: Callable[[VirtualCore], _Found], /) -> _Found:
        """Returns the result. The core itself does not change."""


Make = Callable[[Sequence[Event], int], VirtualCore]


def replayed(events: Sequence[Event], now_ns: int, make: Make | None = None) -> OnCopy:
    """Copies are made by applying the events again: for small clusters, and where processes cannot fork."""

    def run(function: Callable[[VirtualCore], _Found], /) -> _Found:
        return function((make or scheduled)(events, now_ns))

    return run


def scheduled(events: Sequence[Event], now_ns: int, since_ns: int = 0) -> VirtualCore:
    """Returns a core with the cluster of these events, after its first cycles.

    `since_ns`: how long the cluster has been so. After the reservation delay, waiting requests have reserved nodes.
    """
    core = VirtualCore(now_ns - since_ns)
    settle(core, core.send(events))
    while (next_ns := core.timers.next_ns()) is not None and next_ns <= now_ns:
        core.now_ns = max(core.now_ns, next_ns)
        settle(core, core.send(()))
    core.now_ns = now_ns
    for partition in core.scheduler_state.partitions.values():
        partition.texts = ReportedTexts(partition.nodes.facts_epoch)  # all reasons are of the present nodes
    return core


def unscheduled(events: Sequence[Event], now_ns: int) -> VirtualCore:
    """Returns a core with the cluster of these events, which has not planned anything."""
    core = VirtualCore(now_ns)
    settle(core, core.apply(events))
    return core


def forked(core: VirtualCore) -> OnCopy:
    """A copy is a child process: a few milliseconds even for large clusters. Other threads do not exist in it."""

    def run(function: Callable[[VirtualCore], _Found], /) -> _Found:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            gc.freeze()  # a collection would visit, and so copy, all that the parent has
            code = 1
            try:
                with os.fdopen(writer, "wb") as pipe:
                    try:
                        pipe.write(pickle.dumps(function(core)))
                        code = 0
                    except MemoryError:
                        code = _NO_MEMORY
                    except BaseException:
                        pipe.write(traceback.format_exc().encode(errors="replace"))
                        raise
            finally:
                os._exit(code)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            report = pipe.read()
        _, status = os.waitpid(child, 0)
        if (code := os.waitstatus_to_exitcode(status)) == _NO_MEMORY:
            raise MemoryError
        if code != 0:
            shown = report.decode(errors="replace").strip()[-_LONGEST_REPORT:]
            raise RuntimeError(f"an attempt ended with status {code}: {shown or 'no report'}")
        found: _Found = pickle.loads(report)  # noqa: S301  # the child process wrote it
        return found

    return run


def copies(core: VirtualCore, events: Sequence[Event], make: Make) -> OnCopy:
    """The fastest way on this system to copy a core that `make` has made of these events."""
    return forked(core) if hasattr(os, "fork") else replayed(events, core.now_ns, make)


@dataclass(frozen=True, slots=True)
class Advice:
    """Sets of changes that each start the application, the smallest first. No proper subset of one starts it.

    `starts_anyway`: it starts without any. `is_complete`: neither the limit of time nor that of changes has ended the
    search.
    """

    starts_anyway: bool
    remedies: tuple[tuple[ClusterChange, ...], ...]
    is_complete: bool


class _OutOfTime(Exception):
    """The time of the search is used."""


class _TooManyChanges(Exception):
    """A set that starts the application has more changes than anybody would make."""


@dataclass(frozen=True, slots=True)
class Prospects:
    """What is the same for all applications of a copy: those that start without any change, and those that may end.

    `starting`: None = the time did not suffice.
    """

    starting: frozenset[ApplicationId] | None
    ends: Ends


def prospects(
    core: VirtualCore, on_copy: OnCopy, partition: PartitionId, may_go_on: Callable[[], bool] = lambda: True
) -> Prospects:
    """Lets the core run until `HORIZON_NS` without a change. Arguments as for `unblock`."""
    ends = candidates.ends(core.scheduler_state.partitions[partition], _MOST_CHANGES)
    return Prospects(on_copy(lambda copy: _starting(copy, partition, may_go_on)), ends)


def unblock(
    core: VirtualCore,
    on_copy: OnCopy,
    partition: PartitionId,
    target: ApplicationId,
    may_go_on: Callable[[], bool] = lambda: True,
    known: Prospects | None = None,
) -> Advice:
    """Searches for changes of one kind, and of all kinds together if none is sufficient. The application must wait.

    `core`: the cluster that `on_copy` copies; it is only read. `known`: of this copy.
    """
    known = known or prospects(core, on_copy, partition, may_go_on)
    tried: dict[frozenset[int], bool] = {}
    if known.starting is not None:
        tried[frozenset()] = target in known.starting

    def starts(changes: Sequence[ClusterChange]) -> bool:
        key = frozenset(map(id, changes))  # all candidates live until the end of the search
        if key not in tried:
            if not may_go_on():
                raise _OutOfTime
            tried[key] = on_copy(lambda copy: attempt(copy, partition, target, changes))
        return tried[key]

    found: list[tuple[ClusterChange, ...]] = []
    try:
        if starts(()):
            return Advice(True, (), True)
        is_complete = _search(core, partition, target, known.ends, starts, found)
    except _OutOfTime:
        return Advice(False, tuple(sorted(found, key=len)), False)
    return Advice(False, tuple(sorted(found, key=len)), is_complete)


def _search(
    core: VirtualCore,
    partition_id: PartitionId,
    target: ApplicationId,
    all_ends: Ends,
    starts: _Starts,
    found: list[tuple[ClusterChange, ...]],
) -> bool:
    """Adds sets of changes to `found`. Returns whether none was left out because it has too many changes."""
    partition = core.scheduler_state.partitions[partition_id]
    app = partition.applications[target]
    quotas, generous = (candidates.quotas(partition, app, is_generous=is_generous) for is_generous in (False, True))
    ends, has_all = all_ends.without(app)
    constraints, nodes = candidates.droppable(partition, app), list(candidates.added_nodes(partition, app))
    is_complete = True

    def least(changes: Sequence[ClusterChange]) -> tuple[ClusterChange, ...]:
        nonlocal is_complete
        try:
            return minimal(changes, starts)
        except _TooManyChanges:
            is_complete = False
            return ()

    for kind in (quotas, generous):
        if kind and (remedy := least(kind)):
            found.append(remedy)
            break
    of_ends, of_constraints = (_fewest(least(kind), kind, starts) if kind else () for kind in (ends, constraints))
    is_complete = is_complete and (has_all or bool(of_ends))
    found += filter(None, (of_ends, of_constraints))
    found += sorted(filter(None, (_fewest_nodes(shape, starts) for shape in nodes)), key=len)[:1]
    if not found:
        for shape in nodes or [[]]:
            if remedy := least([*constraints, *ends, *shape, *generous]):
                found.append(remedy)
    return is_complete


def attempt(core: VirtualCore, partition: PartitionId, target: ApplicationId, changes: Iterable[ClusterChange]) -> bool:
    """Makes the changes, and returns whether the application starts in time."""
    state = core.scheduler_state
    effects: list[Effect] = []
    for change in changes:
        effects += core.apply(candidates.events(state, state.partitions[partition], change))
    apps = state.partitions[partition].applications
    return _run(core, effects, lambda: has_started(apps.get(target)))


def _starting(
    core: VirtualCore, partition: PartitionId, may_go_on: Callable[[], bool]
) -> frozenset[ApplicationId] | None:
    apps = core.scheduler_state.partitions[partition].applications
    waiting = {name for name, app in apps.items() if not has_started(app)}
    found: set[ApplicationId] = set()

    def is_over() -> bool:
        started = {name for name in waiting if has_started(apps.get(name))}
        waiting.difference_update(started)
        found.update(started)
        return not may_go_on()

    return None if _run(core, [], is_over) else frozenset(found)


def _run(core: VirtualCore, effects: list[Effect], is_over: Callable[[], bool]) -> bool:
    """Lets the time pass until the end of the attempt. Returns whether it is over before."""
    end_ns = core.now_ns + HORIZON_NS
    effects += core.send(())
    while True:
        settle(core, effects)
        if is_over():
            return True
        next_ns = core.timers.next_ns()
        if next_ns is None or next_ns > end_ns:
            return False
        core.now_ns = max(core.now_ns, next_ns)
        effects = core.send(())


def settle(core: VirtualCore, effects: Iterable[Effect]) -> list[Effect]:
    """Confirms each release of the core at once. Returns the effects of that."""
    later: list[Effect] = []
    while answers := [
        AllocationReleased(released.partition, released.application, released.key, released.id, released.termination)
        for effect in effects
        if isinstance(effect, AllocationResponse)
        for released in effect.released
        if released.termination is not Termination.STOPPED_BY_RM
    ]:
        effects = core.send(answers)
        later += effects
    return later


def has_started(app: Application | None) -> bool:
    """Whether all its requests have nodes, and its gang is complete."""
    if app is None or app.waiting or app.is_reserving or not app.allocations:
        return False
    return not app.spec.is_gang or app.gang.was_complete or bool(app.real_allocations)


# --- search ----------------------------------------------------------------------------------------------------------


def minimal(changes: Sequence[ClusterChange], starts: _Starts) -> tuple[ClusterChange, ...]:
    """Returns a set of changes of which no proper subset starts the application; empty = none.

    Earlier changes are preferred. About as many attempts as the logarithm of their number for each chosen one. Raises
    _TooManyChanges.
    """
    low, high = 1, 1
    while not starts(changes[:high]):  # few changes are usually enough, and an attempt with all of many takes seconds
        if high == len(changes):
            return ()
        low, high = high + 1, _GROWTH * high if _GROWTH**2 * high < len(changes) else len(changes)
    chosen: list[ClusterChange] = []
    rest = list(changes[:high])
    while not starts(chosen):
        if len(chosen) == _MOST_CHANGES:
            raise _TooManyChanges
        low, high = 1 if chosen else low, len(rest)
        while low < high:
            middle = (low + high) // 2
            if starts([*rest[:middle], *chosen]):
                high = middle
            else:
                low = middle + 1
        chosen.insert(0, rest[high - 1])
        rest = rest[: high - 1]
    return _without_needless(chosen, starts)


def _without_needless(chosen: Sequence[ClusterChange], starts: _Starts) -> tuple[ClusterChange, ...]:
    """Applications that start instead of another one make it possible that fewer changes help more."""
    if len(chosen) <= _ALL_SUBSETS:
        for size in range(1, len(chosen)):
            for subset in combinations(chosen, size):
                if starts(subset):
                    return subset
        return tuple(chosen)
    needed = list(chosen)
    for change in chosen:
        fewer = [one for one in needed if one is not change]
        if fewer and starts(fewer):
            needed = fewer
    return _without_needless(needed, starts) if len(needed) < len(chosen) else tuple(needed)


def _fewest(
    remedy: tuple[ClusterChange, ...], changes: Sequence[ClusterChange], starts: _Starts
) -> tuple[ClusterChange, ...]:
    """The remedy, or a smaller set. All smaller sets are tried unless they are many."""
    tried = 0
    for size in range(1, len(remedy)):
        tried += comb(len(changes), size)
        if tried > _MOST_SETS:
            singles = ((change,) for change in changes[:_MOST_SETS]) if size == 1 else ()
            return next((single for single in singles if starts(single)), remedy)
        for smaller in combinations(changes, size):
            if starts(smaller):
                return smaller
    return remedy


def _fewest_nodes(shape: Sequence[ClusterChange], starts: _Starts) -> tuple[ClusterChange, ...]:
    """The smallest number of equal nodes that starts the application; empty = none."""
    too_few, count = 0, 1
    while not starts(shape[:count]):
        if count == len(shape):
            return ()
        too_few = count
        count = min(count + 1 if count < _ONE_BY_ONE else 2 * count, len(shape))
    while count - too_few > 1:
        middle = (too_few + count) // 2
        if starts(shape[:middle]):
            count = middle
        else:
            too_few = middle
    return tuple(shape[:count])
