"""Measures the core with many pending pods, with gangs that cannot fit, and with many pods that end at once.

    .venv/bin/python -m benchmarks cliffs

`idle`: CPU time of the core for a full cluster with 50,000 pending pods, in percent of one CPU, without events.
`slow`: the same while ten pods per second end and ten others are created.
`gang-*`: the slowdown of pods that come and go, 100 per message with a cycle after each, while a gang of 5,000 members
cannot fit. `auto` is an all-or-nothing gang, `reserve` one with members that fit on no node. The gang has its own
queue or shares the queue of the other pods.
`endings`: 1,000 applications of ten pods end at once in a full cluster with pending pods: the total CPU time, and the
longest time that the event loop was blocked.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import uvloop

from benchmarks.core_edge import RM as MANAGER
from benchmarks.core_edge import Listener, an_ask, quiet, register, requests
from benchmarks.core_edge import a_node as told_node
from benchmarks.core_placement import APPLICATIONS, ASKED, PARTITION, a_node, a_state, timed
from benchmarks.figures import Figure, Options
from muster_core.model.effects import AllocationResponse, Effect
from muster_core.model.events import (
    AllocationReleased,
    ApplicationAdded,
    ApplicationRemoved,
    AskAdded,
    Event,
    NodeAdded,
)
from muster_core.model.ids import AllocationKey, ApplicationId, TaskGroup, Termination
from muster_core.model.resources import Resources
from muster_core.model.specs import ApplicationSpec, AskSpec, GangPlacement, Member
from muster_core.runtime.service import Scheduler
from muster_core.scheduling.scheduler import cycle, step
from muster_core.state.scheduler_state import SchedulerState
from muster_si import si_pb2

_NODES: Final = 1_000
#: Millicores of a small node, which ten pods fill.
_SMALL: Final = 1_000
_PLACES: Final = 10_000
_WAITING: Final = 50_000
_IDLE_S: Final = 5.0
#: Number of pods that end, and of pods that are created.
_SLOW_A_SECOND: Final = 10
_GANG: Final = 5_000
_GROUP: Final = TaskGroup("workers")
#: More than any node has.
_HUGE: Final = Resources({"vcore": 64_000, "memory": 1 << 30, "pods": 1})
#: A node holds three of these, the cluster 3,000.
_LARGE: Final = Resources({"vcore": 10_000, "memory": 1 << 30, "pods": 1})
_MESSAGE: Final = 100
_BUDGET_S: Final = 0.010


# -- a full cluster --------------------------------------------------------------


async def _full(waiting: int, *, is_slow: bool) -> float:
    """Return the CPU use in percent of one CPU."""
    scheduler, listener = Scheduler(), Listener(_PLACES)
    running = asyncio.create_task(scheduler.run())
    await register(scheduler, listener, [told_node(number, _SMALL) for number in range(_NODES)])
    for message in requests(_PLACES + waiting):
        await scheduler.update_allocation(message)
    await listener.done.wait()
    await asyncio.sleep(0.5)  # until the state of the last pod is reported
    started, used = time.perf_counter(), time.process_time()
    if is_slow:
        await _come_and_go(scheduler, _PLACES + waiting)
    else:
        await asyncio.sleep(_IDLE_S)
    share = (time.process_time() - used) / (time.perf_counter() - started)
    scheduler.close()
    await running
    return share * 100


async def _come_and_go(scheduler: Scheduler, first: int) -> None:
    for number in range(int(_IDLE_S * _SLOW_A_SECOND)):
        gone = si_pb2.AllocationRelease(
            partitionName="default",
            applicationID=f"app-{number % APPLICATIONS}",
            allocationKey=f"{number:036d}",
            terminationType=si_pb2.STOPPED_BY_RM,
        )
        releases = si_pb2.AllocationReleasesRequest(allocationsToRelease=[gone])
        await scheduler.update_allocation(
            si_pb2.AllocationRequest(rmID=MANAGER, releases=releases, asks=[an_ask(first + number)])
        )
        await asyncio.sleep(1 / _SLOW_A_SECOND)


def idle(share: float) -> dict[str, float]:
    """Measure without events."""
    quiet()
    return {"cliffs/idle": uvloop.run(_full(round(_WAITING * share), is_slow=False))}


def slow(share: float) -> dict[str, float]:
    """Measure while pods end and are created."""
    quiet()
    return {"cliffs/slow": uvloop.run(_full(round(_WAITING * share), is_slow=True))}


# -- with a gang that cannot fit -------------------------------------------------


def gangs(share: float) -> dict[str, float]:
    """Measure the slowdown by each kind of gang."""
    pods = round(10_000 * share)
    additional = {
        "cliffs/gang-auto": _gang("root.gang", _LARGE, GangPlacement.AUTO),
        "cliffs/gang-auto-in-queue": _gang("root.queue-0", _LARGE, GangPlacement.AUTO),
        "cliffs/gang-reserve": _gang("root.gang", _HUGE, GangPlacement.RESERVE),
        "cliffs/gang-reserve-in-queue": _gang("root.queue-0", _HUGE, GangPlacement.RESERVE),
    }
    return {name: _ratio(gang, pods) for name, gang in additional.items()}


def _ratio(gang: Sequence[Event], pods: int) -> float:
    """Return the slowdown, measured alternately with and without the gang because the machine may be shared."""
    times = [_coming_and_going(gangs, pods) for gangs in ([], [gang], [gang], [])]
    return (times[1] + times[2]) / (times[0] + times[3])


def _gang(queue: str, each: Resources, placement: GangPlacement) -> list[Event]:
    spec = ApplicationSpec(
        PARTITION,
        ApplicationId("gang"),
        queue=queue,
        placeholder_ask=each.times(_GANG),
        members=(Member(_GROUP, _GANG, each),),
        gang_placement=placement,
    )
    key = AskSpec(PARTITION, spec.id, AllocationKey(""), each, group=_GROUP, placeholder=True)
    asks = (AskAdded(replace(key, key=AllocationKey(f"member-{number}"))) for number in range(_GANG))
    return [ApplicationAdded(spec), *asks]


def _coming_and_going(gangs: Sequence[Sequence[Event]], pods: int) -> float:
    """Return the seconds in which ``pods`` pods are placed and released."""
    scheduler_state = a_state(_NODES)
    for events in gangs:
        _schedule(scheduler_state, events)
    asks = [_ask(number) for number in range(pods)]
    messages: list[list[Event]] = []
    for start in range(0, pods, _MESSAGE):
        gone = asks[start - _MESSAGE : start] if start else []
        messages.append([*map(_gone, gone), *asks[start : start + _MESSAGE]])
    effects: list[Effect] = []

    def run() -> None:
        for message in messages:
            effects.extend(_schedule(scheduler_state, message))

    seconds = timed(run)
    count = sum(len(effect.new) for effect in effects if isinstance(effect, AllocationResponse))
    if count != pods:
        raise RuntimeError(f"{count} of {pods} pods have a place")
    return seconds


def _schedule(scheduler_state: SchedulerState, events: Sequence[Event]) -> list[Effect]:
    effects = [effect for event in events for effect in step(scheduler_state, event, 1)]
    return effects + cycle(scheduler_state, 1, lambda: True).effects


def _ask(number: int, app: str = "") -> AskAdded:
    name = ApplicationId(app or f"app-{number % APPLICATIONS}")
    return AskAdded(AskSpec(PARTITION, name, AllocationKey(f"{number:036d}"), ASKED, namespace="benchmark"))


def _gone(ask: AskAdded) -> AllocationReleased:
    spec = ask.spec
    return AllocationReleased(PARTITION, spec.application, spec.key, None, Termination.STOPPED_BY_RM)


# -- many pods that end ----------------------------------------------------------


def endings(share: float) -> dict[str, float]:
    """End 1,000 applications of ten pods, whose resources pending pods use."""
    apps = round(1_000 * share)
    scheduler_state = a_state(0)
    for number in range(apps):
        spec = replace(a_node(number), capacity=Resources({"vcore": _SMALL, "memory": 256 << 30, "pods": 110}))
        step(scheduler_state, NodeAdded(spec), 0)
    _schedule(scheduler_state, list(_applications(apps)))
    _schedule(scheduler_state, [_ask(apps * 10 + number) for number in range(apps * 20)])
    pieces: list[float] = []
    for start in range(0, apps, _MESSAGE):
        ended = [ApplicationRemoved(PARTITION, ApplicationId(f"short-{n}")) for n in range(start, start + _MESSAGE)]
        pieces += _pieces(scheduler_state, ended)
    return {"cliffs/endings": sum(pieces) * 1000, "cliffs/endings longest": max(pieces) * 1000}


def _applications(count: int) -> Iterator[Event]:
    for number in range(count):
        name = f"short-{number}"
        yield ApplicationAdded(ApplicationSpec(PARTITION, ApplicationId(name), queue=f"root.short-{number % 10}"))
        yield from (_ask(number * 10 + index, name) for index in range(10))


def _pieces(scheduler_state: SchedulerState, events: Sequence[Event]) -> Iterator[float]:
    """Yield the seconds of one message and of each cycle after it, as the core's loop runs them."""
    start = time.process_time()
    for event in events:
        step(scheduler_state, event, 1)
    yield time.process_time() - start
    more = True
    while more:
        start = time.process_time()
        until = start + _BUDGET_S
        more = cycle(scheduler_state, 1, lambda: time.process_time() < until).more  # noqa: B023 - the cycle has ended then
        yield time.process_time() - start


# -- figures ---------------------------------------------------------------------

#: Unit and goal.
GOALS: Final[Mapping[str, tuple[str, float | None]]] = {
    "cliffs/idle": ("%", 5.0),
    "cliffs/slow": ("%", 5.0),
    "cliffs/gang-auto": ("x", 1.2),
    "cliffs/gang-auto-in-queue": ("x", 1.2),
    "cliffs/gang-reserve": ("x", 1.2),
    "cliffs/gang-reserve-in-queue": ("x", 1.2),
    "cliffs/endings": ("ms", None),
    "cliffs/endings longest": ("ms", 100.0),
}
NAMES: Final = tuple(GOALS)
_PARTS: Final[Mapping[str, Callable[[float], dict[str, float]]]] = {
    "cliffs/idle": idle,
    "cliffs/slow": slow,
    "cliffs/gang": gangs,
    "cliffs/endings": endings,
}


def measure(names: Sequence[str], options: Options) -> list[Figure]:
    """Return the figures of these names. Figures of one measurement are measured once."""
    found: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(options.runs):
        for part, look in _PARTS.items():
            if any(name.startswith(part) for name in names):
                gc.collect()
                for name, value in look(0.1 if options.quick else 1.0).items():
                    found.setdefault(name, []).append(value)
    return [Figure(name, GOALS[name][0], found[name], GOALS[name][1], less_is_better=True) for name in names]
