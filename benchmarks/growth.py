"""Measures how the core's time per ask grows with nodes, pending asks and queues.

    .venv/bin/python -m benchmarks growth

Figures are microseconds of CPU time per ask, from its event to its allocation. `x` is the value of the largest size
divided by that of the smallest.

* `nodes`: 10,000 asks of 10 applications, which all arrive before the first is placed.
* `nodes-singly`: each ask arrives alone and has its own cycle.
* `pending`: 2,000 asks that fit, with a number of pending asks that do not; 100 per message with a cycle after each.
* `queues`: 10,000 asks of one application per queue, which all arrive at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.core_placement import ASKED, PARTITION, a_state, by_the_engine, timed
from benchmarks.figures import Figure, Options
from muster_core.model.effects import AllocationResponse, Effect
from muster_core.model.events import ApplicationAdded, AskAdded
from muster_core.model.ids import AllocationKey, ApplicationId
from muster_core.model.resources import Resources
from muster_core.model.specs import ApplicationSpec, AskSpec
from muster_core.scheduling.scheduler import cycle, step
from muster_core.state.scheduler_state import SchedulerState

#: Asks per message.
MESSAGE: Final = 100
#: Number of nodes where another dimension grows.
_NODES: Final = 1_000
#: More than any node has.
_TOO_MUCH: Final = Resources({"vcore": 64_000, "memory": 1 << 30, "pods": 1})


@dataclass(frozen=True, slots=True)
class Curve:
    """A dimension, its sizes, and the maximal ratio of the last to the first cost; None = no goal."""

    sizes: Sequence[int]
    measure: Callable[[int, int], float]
    asks: int
    most: float | None = None


def on_nodes(size: int, asks: int) -> float:
    """Return the seconds for all asks at once."""
    return by_the_engine(size, asks, mixed=False)


def singly(size: int, asks: int) -> float:
    """Return the seconds with a cycle for each ask."""
    return _placed(a_state(size), [[event] for event in _asks(asks, 10)], asks)


def next_to_pending(size: int, asks: int) -> float:
    """Return the seconds for asks that fit while others stay pending, with one scheduling class per application."""
    scheduler_state = a_state(_NODES)
    waiting = (_ask(number, f"app-{number % 5}", _TOO_MUCH) for number in range(size))
    for event in waiting:
        step(scheduler_state, event, 0)
    cycle(scheduler_state, 0, lambda: True)
    events = [_ask(size + number, f"app-{5 + number % 5}") for number in range(asks)]
    return _placed(scheduler_state, [events[start : start + MESSAGE] for start in range(0, asks, MESSAGE)], asks)


def in_queues(size: int, asks: int) -> float:
    """Return the seconds for asks of one application per queue."""
    scheduler_state = a_state(_NODES)
    for number in range(10, size):
        spec = ApplicationSpec(PARTITION, ApplicationId(f"app-{number}"), queue=f"root.queue-{number}")
        step(scheduler_state, ApplicationAdded(spec), 0)
    return _placed(scheduler_state, [list(_asks(asks, size))], asks)


def _placed(scheduler_state: SchedulerState, messages: Sequence[Sequence[AskAdded]], asks: int) -> float:
    effects: list[Effect] = []

    def run() -> None:
        for message in messages:
            for event in message:
                effects.extend(step(scheduler_state, event, 1))
            effects.extend(cycle(scheduler_state, 1, lambda: True).effects)

    seconds = timed(run)
    count = sum(len(effect.new) for effect in effects if isinstance(effect, AllocationResponse))
    if count != asks:
        raise RuntimeError(f"{count} of {asks} asks have a place")
    return seconds


def _asks(count: int, apps: int) -> Iterator[AskAdded]:
    return (_ask(number, f"app-{number % apps}") for number in range(count))


def _ask(number: int, app: str, amount: Resources = ASKED) -> AskAdded:
    key = AllocationKey(f"{number:036d}")
    return AskAdded(AskSpec(PARTITION, ApplicationId(app), key, amount, namespace="benchmark"))


CURVES: Final[Mapping[str, Curve]] = {
    "nodes": Curve((500, 1_000, 2_000, 5_000, 15_000), on_nodes, 10_000, most=2.0),
    "nodes-singly": Curve((500, 2_000, 5_000, 15_000), singly, 1_000),
    "pending": Curve((1_000, 10_000, 100_000), next_to_pending, 2_000, most=2.0),
    "queues": Curve((10, 100, 1_000), in_queues, 10_000),
}
NAMES: Final = tuple(
    name for what, curve in CURVES.items() for name in (f"growth/{what}", *(f"growth/{what}/{n}" for n in curve.sizes))
)


def measure(names: Sequence[str], options: Options) -> list[Figure]:
    """Measure the complete curves of these names. The sizes alternate."""
    return [figure for what in CURVES if any(_is_of(name, what) for name in names) for figure in _curve(what, options)]


def _is_of(name: str, what: str) -> bool:
    return name == f"growth/{what}" or name.startswith(f"growth/{what}/")


def _curve(what: str, options: Options) -> list[Figure]:
    curve = CURVES[what]
    asks = curve.asks // 10 if options.quick else curve.asks
    found: dict[int, list[float]] = {size: [] for size in curve.sizes}
    for _ in range(options.runs):
        for size in curve.sizes:
            found[size].append(curve.measure(size, asks) / asks * 1e6)
    pairs = zip(found[curve.sizes[-1]], found[curve.sizes[0]], strict=True)
    ratio = Figure(f"growth/{what}", "x", [last / first for last, first in pairs], curve.most, less_is_better=True)
    return [ratio, *(Figure(f"growth/{what}/{n}", "us", found[n], less_is_better=True) for n in curve.sizes)]
