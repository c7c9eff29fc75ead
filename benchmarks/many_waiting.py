"""Measures cycles with many queues, many applications and many preemptors under the time budget of the core's loop.

    .venv/bin/python -m benchmarks waiting

`leaves`: 10,000 leaf queues with one pending pod each. `applications`: 20,000 applications of one pod in one leaf.
Both fit on 200 nodes. A run consists of all cycles of 10 ms until every pod has a node, as the loop runs them
(`runtime/loop.py`), without the preparation.
`guarantee`: 2,000 applications of one pod are pending in a leaf below its guarantee, on a full cluster without possible
victims. The preemption timer of the leaf fires until every application was considered. Each attempt counts, and each
application that a cached result decides.
Rates are per second of CPU time. `longest` is the longest cycle, or the longest timer event.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from benchmarks.core_placement import ASKED, PARTITION, RM, a_node
from benchmarks.figures import Figure, Options
from muster_core.model.config import ALLOW_ALL, Configuration, PartitionConfig, PlacementRule, QueueConfig
from muster_core.model.effects import AllocationResponse, Effect, TimerSet
from muster_core.model.events import (
    ApplicationAdded,
    AskAdded,
    Event,
    ManagerRegistered,
    NodeAdded,
    TimerFired,
    TimerKind,
)
from muster_core.model.ids import AllocationKey, ApplicationId
from muster_core.model.resources import Resources
from muster_core.model.specs import ApplicationSpec, AskSpec
from muster_core.runtime.loop import GarbageCollectorFreezer, LoopSettings, size
from muster_core.scheduling.scheduler import cycle, step
from muster_core.state.scheduler_state import SchedulerState

_BUDGET_S: Final = LoopSettings().budget_s
_NODES: Final = 200
_LEAVES: Final = 10_000
_APPLICATIONS: Final = 20_000
_GUARANTEED: Final = 2_000
_SECOND: Final = 1_000_000_000
_START_NS: Final = 1_000 * _SECOND


@dataclass(slots=True)
class _Run:
    """CPU seconds of each cycle or event, and the number of decisions."""

    seconds: list[float] = field(default_factory=list)
    decided: int = 0

    def figures(self, name: str) -> dict[str, float]:
        return {
            f"waiting/{name}": self.decided / sum(self.seconds),
            f"waiting/{name} longest": max(self.seconds) * 1000,
        }


# -- enough resources ------------------------------------------------------------


def leaves(share: float) -> dict[str, float]:
    """Measure one pod in each of many queues."""
    count = round(_LEAVES * share)
    return _placed(_waiting(count, lambda number: f"root.queue-{number}"), count).figures("leaves")


def applications(share: float) -> dict[str, float]:
    """Measure many applications in one queue."""
    count = round(_APPLICATIONS * share)
    return _placed(_waiting(count, lambda _: "root.queue"), count).figures("applications")


def _placed(events: Iterator[Event], count: int) -> _Run:
    """Run cycles until nothing is left to do."""
    root = QueueConfig("root", parent=True, submit_acl=ALLOW_ALL)
    scheduler_state = _scheduler_state(
        PartitionConfig("default", root, (PlacementRule("provided", create=True),)), _NODES
    )
    for event in events:
        step(scheduler_state, event, _START_NS)
    run, freezer = _Run(), GarbageCollectorFreezer(is_on=True)
    freezer.recovered()
    more = True
    while more:
        start = time.process_time()
        until = start + _BUDGET_S
        result = cycle(scheduler_state, _START_NS, lambda: time.process_time() < until)  # noqa: B023 - the cycle has ended then
        freezer.count(size(result.effects))
        run.seconds.append(time.process_time() - start)
        run.decided += _new(result.effects)
        more = result.more
    gc.unfreeze()
    if run.decided != count:
        raise RuntimeError(f"{run.decided} of {count} pods have a node")
    return run


def _new(effects: Sequence[Effect]) -> int:
    return sum(len(effect.new) for effect in effects if isinstance(effect, AllocationResponse))


# -- below a guarantee -----------------------------------------------------------


def guarantee(share: float) -> dict[str, float]:
    """Measure many applications that may preempt, without victims."""
    count = round(_GUARANTEED * share)
    children = (
        QueueConfig("guaranteed", guaranteed=ASKED.times(count), submit_acl=ALLOW_ALL),
        QueueConfig("other", submit_acl=ALLOW_ALL),
    )
    root = QueueConfig("root", parent=True, children=children, submit_acl=ALLOW_ALL)
    nodes = 20
    scheduler_state = _scheduler_state(PartitionConfig("default", root, preemption=True), nodes)
    name = ApplicationId("busy")
    step(scheduler_state, ApplicationAdded(ApplicationSpec(PARTITION, name, queue="root.other")), _START_NS)
    for number in range(nodes):  # each fills a node and must not be preempted
        spec = AskSpec(PARTITION, name, AllocationKey(f"busy-{number}"), _FULL, allow_preempt_self=False)
        step(scheduler_state, AskAdded(spec), _START_NS)
    effects = cycle(scheduler_state, _START_NS, lambda: True).effects
    for event in _waiting(count, lambda _: "root.guaranteed"):
        effects += step(scheduler_state, event, _START_NS)
    effects += cycle(scheduler_state, _START_NS, lambda: True).effects
    return _round(scheduler_state, effects, count).figures("guarantee")


def _round(scheduler_state: SchedulerState, effects: Sequence[Effect], count: int) -> _Run:
    """Fire the timer of the leaf until all applications were considered and the next time is a pause."""
    run = _Run(decided=count)
    gc.collect()
    gc.freeze()
    due = _timer(effects)
    fired_ns = 0
    while due is not None and (not fired_ns or due.at_ns - fired_ns < _SECOND):
        fired_ns = due.at_ns
        start = time.process_time()
        effects = step(scheduler_state, TimerFired(due.timer), fired_ns)
        run.seconds.append(time.process_time() - start)
        due = _timer(effects)
    gc.unfreeze()
    if not fired_ns:
        raise RuntimeError("the preemption timer never fired")
    return run


def _timer(effects: Sequence[Effect]) -> TimerSet | None:
    timers = [one for one in effects if isinstance(one, TimerSet) and one.timer.kind is TimerKind.PREEMPTION]
    return timers[-1] if timers else None


# -- common ----------------------------------------------------------------------

_FULL: Final = Resources({"vcore": 32_000, "memory": 1 << 30, "pods": 1})


def _scheduler_state(partition: PartitionConfig, nodes: int) -> SchedulerState:
    scheduler_state = SchedulerState()
    step(scheduler_state, ManagerRegistered(RM, Configuration((partition,))), _START_NS)
    for number in range(nodes):
        step(scheduler_state, NodeAdded(a_node(number)), _START_NS)
    return scheduler_state


def _waiting(count: int, queue: Callable[[int], str]) -> Iterator[Event]:
    """Yield ``count`` applications of one pod."""
    for number in range(count):
        name = ApplicationId(f"app-{number}")
        yield ApplicationAdded(ApplicationSpec(PARTITION, name, queue=queue(number)))
        yield AskAdded(AskSpec(PARTITION, name, AllocationKey(f"{number:036d}"), ASKED, namespace="benchmark"))


#: Unit and goal.
GOALS: Final[Mapping[str, tuple[str, float]]] = {
    f"waiting/{name}{what}": goal
    for name in ("leaves", "applications", "guarantee")
    for what, goal in (("", ("/CPU s", 5_000.0)), (" longest", ("ms", 50.0)))
}
NAMES: Final = tuple(GOALS)
_PARTS: Final[Mapping[str, Callable[[float], dict[str, float]]]] = {
    "waiting/leaves": leaves,
    "waiting/applications": applications,
    "waiting/guarantee": guarantee,
}


def measure(names: Sequence[str], options: Options) -> list[Figure]:
    """Return the figures of these names. A rate and its longest cycle are one measurement."""
    found: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(options.runs):
        for part, look in _PARTS.items():
            if any(name.startswith(part) for name in names):
                for name, value in look(0.1 if options.quick else 1.0).items():
                    found.setdefault(name, []).append(value)
    return [
        Figure(name, GOALS[name][0], found[name], GOALS[name][1], less_is_better=name.endswith("longest"))
        for name in names
    ]
