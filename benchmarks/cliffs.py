"""Where a scheduler may fall over: much that waits, much that cannot be, and much that ends at once.

    .venv/bin/python -m benchmarks cliffs

`idle`: processor time of a core beside a full cluster with 50,000 pods that wait, in per cent of one processor while
nothing happens; nothing in it ticks. `slow`: the same while ten pods a second end and ten others come (an hour of that
is 36,000 pods). `gang-*`: how many times as long pods of others take that come and go, 100 a message with a cycle after
each, beside a gang of 5,000 that cannot fit: one that wants all or nothing (`atomic`) and one of members that no node
can hold (`reserve`), in a queue of its own and in the queue of the others. `endings`: 1,000 applications of ten pods
end at once in a full cluster whose room others wait for: processor time in all, and the longest piece of it without
the loop being free.
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
from benchmarks.core_placement import APPLICATIONS, ASKED, PARTITION, a_node, a_world, timed
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
from muster_core.scheduling.cycle import cycle
from muster_core.scheduling.step import step
from muster_core.state.scheduler_state import SchedulerState
from muster_si import si_pb2

_NODES: Final = 1_000
#: Millicores of a small node: ten pods fill it.
_SMALL: Final = 1_000
_PLACES: Final = 10_000
_WAITING: Final = 50_000
_IDLE_S: Final = 5.0
#: Pods that end, and as many that come.
_SLOW_A_SECOND: Final = 10
_GANG: Final = 5_000
_GROUP: Final = TaskGroup("workers")
#: No node has it.
_HUGE: Final = Resources({"vcore": 64_000, "memory": 1 << 30, "pods": 1})
#: A node takes three, the cluster 3,000.
_LARGE: Final = Resources({"vcore": 10_000, "memory": 1 << 30, "pods": 1})
_MESSAGE: Final = 100
_BUDGET_S: Final = 0.010


# -- a full cluster --------------------------------------------------------------


async def _full(waiting: int, *, is_slow: bool) -> float:
    """Per cent of a processor."""
    scheduler, listener = Scheduler(), Listener(_PLACES)
    running = asyncio.create_task(scheduler.run())
    await register(scheduler, listener, [told_node(number, _SMALL) for number in range(_NODES)])
    for message in requests(_PLACES + waiting):
        await scheduler.update_allocation(message)
    await listener.done.wait()
    await asyncio.sleep(0.5)  # until the last has heard that it waits
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
    """Nothing happens."""
    quiet()
    return {"cliffs/idle": uvloop.run(_full(round(_WAITING * share), is_slow=False))}


def slow(share: float) -> dict[str, float]:
    """Pods come and go."""
    quiet()
    return {"cliffs/slow": uvloop.run(_full(round(_WAITING * share), is_slow=True))}


# -- beside a gang that cannot fit -----------------------------------------------


def gangs(share: float) -> dict[str, float]:
    """Each kind of gang against none."""
    pods = round(10_000 * share)
    beside = {
        "cliffs/gang-atomic": _gang("root.gang", _LARGE, GangPlacement.ATOMIC),
        "cliffs/gang-atomic-in-queue": _gang("root.queue-0", _LARGE, GangPlacement.ATOMIC),
        "cliffs/gang-reserve": _gang("root.gang", _HUGE, GangPlacement.RESERVE),
        "cliffs/gang-reserve-in-queue": _gang("root.queue-0", _HUGE, GangPlacement.RESERVE),
    }
    return {name: _ratio(gang, pods) for name, gang in beside.items()}


def _ratio(gang: Sequence[Event], pods: int) -> float:
    """By turns, twice each: the machine may be shared."""
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
    """Seconds until so many pods had their places and went again."""
    scheduler_state = a_world(_NODES)
    for events in gangs:
        _tell(scheduler_state, events)
    asks = [_ask(number) for number in range(pods)]
    messages: list[list[Event]] = []
    for start in range(0, pods, _MESSAGE):
        gone = asks[start - _MESSAGE : start] if start else []
        messages.append([*map(_gone, gone), *asks[start : start + _MESSAGE]])
    said: list[Effect] = []

    def run() -> None:
        for message in messages:
            said.extend(_tell(scheduler_state, message))

    seconds = timed(run)
    count = sum(len(effect.new) for effect in said if isinstance(effect, AllocationResponse))
    if count != pods:
        raise RuntimeError(f"{count} of {pods} pods have a place")
    return seconds


def _tell(scheduler_state: SchedulerState, events: Sequence[Event]) -> list[Effect]:
    said = [effect for event in events for effect in step(scheduler_state, event, 1)]
    return said + cycle(scheduler_state, 1, lambda: True).effects


def _ask(number: int, app: str = "") -> AskAdded:
    name = ApplicationId(app or f"app-{number % APPLICATIONS}")
    return AskAdded(AskSpec(PARTITION, name, AllocationKey(f"{number:036d}"), ASKED, namespace="benchmark"))


def _gone(asked: AskAdded) -> AllocationReleased:
    spec = asked.spec
    return AllocationReleased(PARTITION, spec.application, spec.key, None, Termination.STOPPED_BY_RM)


# -- much that ends --------------------------------------------------------------


def endings(share: float) -> dict[str, float]:
    """Of 1,000 applications of ten pods, whose places others take."""
    apps = round(1_000 * share)
    scheduler_state = a_world(0)
    for number in range(apps):
        spec = replace(a_node(number), capacity=Resources({"vcore": _SMALL, "memory": 256 << 30, "pods": 110}))
        step(scheduler_state, NodeAdded(spec), 0)
    _tell(scheduler_state, list(_applications(apps)))
    _tell(scheduler_state, [_ask(apps * 10 + number) for number in range(apps * 20)])
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
    """Seconds of one message, and of the passes after it, as the loop would run them."""
    start = time.process_time()
    for event in events:
        step(scheduler_state, event, 1)
    yield time.process_time() - start
    more = True
    while more:
        start = time.process_time()
        until = start + _BUDGET_S
        more = cycle(scheduler_state, 1, lambda: time.process_time() < until).more  # noqa: B023 - it is over when this returns
        yield time.process_time() - start


# -- figures ---------------------------------------------------------------------

#: Unit and goal.
GOALS: Final[Mapping[str, tuple[str, float | None]]] = {
    "cliffs/idle": ("%", 5.0),
    "cliffs/slow": ("%", 5.0),
    "cliffs/gang-atomic": ("x", 1.2),
    "cliffs/gang-atomic-in-queue": ("x", 1.2),
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
    """The figures of these names; those that are found together are measured once."""
    found: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(options.runs):
        for part, look in _PARTS.items():
            if any(name.startswith(part) for name in names):
                gc.collect()
                for name, value in look(0.1 if options.quick else 1.0).items():
                    found.setdefault(name, []).append(value)
    return [Figure(name, GOALS[name][0], found[name], GOALS[name][1], less_is_better=True) for name in names]
