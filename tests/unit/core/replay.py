"""Replay of a journal: the same events and cycle budgets on an empty state must produce the same effects."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import orjson

from muster_core.runtime.journal import to_plain
from muster_core.runtime.replay import Replay


@dataclass(frozen=True, slots=True)
class Deviation:
    """A line of the journal (counted from 1) whose effects differ in the replay."""

    line: int
    written: object
    now: object


def replay(lines: Iterable[bytes]) -> Iterator[Deviation]:
    """Repeats all events and cycles on an empty state. Yields nothing if all effects are equal."""
    repeated = Replay()
    for number, text in enumerate(lines, start=1):
        line = orjson.loads(text)
        plain = to_plain(repeated.redo(line))
        if "effects" in line and plain != line["effects"]:
            yield Deviation(number, line["effects"], plain)
