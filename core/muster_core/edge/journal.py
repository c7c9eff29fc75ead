"""Writes down what went into the world and what came out, so that it can be done over (style 18).

One JSON line per event and per cycle: the time the world was told, the event,
the effects. A cycle also has how often it was allowed to go on, for that is
the only thing it learns from the clock. Optional, for finding out: the file
grows as long as the core runs. Written by loop.py; `replay` is for tests and
for people who were sent a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, cast

import orjson

from muster_core.edge.metrics.counted import Metrics
from muster_core.edge.plain import from_plain, to_plain
from muster_core.edge.supervisor import Supervisor
from muster_core.engine.cycle import cycle
from muster_core.engine.step import step
from muster_core.model.effects import Effect
from muster_core.model.events import Event
from muster_core.world.world import World


class Journal:
    """Appends to a file that its owner opens and closes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def stepped(self, now_ns: int, event: Event, effects: Sequence[Effect]) -> None:
        """An event was taken in."""
        self._write({"now": now_ns, "event": to_plain(event), "effects": to_plain(effects)})

    def cycled(self, now_ns: int, leave: Leave, effects: Sequence[Effect]) -> None:
        """A cycle was run."""
        self._write({"now": now_ns, "granted": leave.granted, "effects": to_plain(effects)})

    def started_anew(self) -> None:
        """The world was thrown away."""
        self._write({"anew": True})

    def _write(self, line: object) -> None:
        self._file.write(orjson.dumps(line) + b"\n")


class Leave:
    """Asked by a cycle whether it may go on; counts how often it may."""

    def __init__(self, may_go_on: Callable[[], bool]) -> None:
        self._may_go_on = may_go_on
        self.granted = 0

    def __call__(self) -> bool:
        """Whether there is time left."""
        if not self._may_go_on():
            return False
        self.granted += 1
        return True


@dataclass(frozen=True, slots=True)
class Deviation:
    """A line (from 1) of the journal whose effects are others this time."""

    line: int
    written: object
    now: object


def replay(lines: Iterable[bytes]) -> Iterator[Deviation]:
    """Do everything over in an empty world; nothing is yielded where all is as it was."""
    world, supervisor = World(), Supervisor(Metrics())
    for number, text in enumerate(lines, start=1):
        line = cast("dict[str, object]", orjson.loads(text))
        if "anew" in line:
            world = World()
            continue
        now_ns = cast("int", line["now"])
        if "event" in line:
            event = cast("Event", from_plain(line["event"]))
            redo = partial(step, world, event, now_ns)
        else:
            leave = _leave_for(cast("int", line["granted"]))
            redo = partial(_cycled, world, now_ns, leave)
        taken = supervisor.attempt(redo, None, number)
        effects = world.outbox.drain() if taken is None else taken  # as the loop does
        plain = to_plain(effects)
        if plain != line["effects"]:
            yield Deviation(number, line["effects"], plain)


def _cycled(world: World, now_ns: int, leave: Callable[[], bool]) -> list[Effect]:
    return cycle(world, now_ns, leave).effects


def _leave_for(times: int) -> Callable[[], bool]:
    left = iter(range(times))
    return lambda: next(left, None) is not None
