"""What came to stay is out of the garbage collector's sight, and garbage in cycles is still found."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from muster_operator.runtime.loop import EVERY, FULL, YOUNG, Collector


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    before = gc.get_threshold()
    gc.unfreeze()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


class Cycle:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.me = self


def test_nothing_is_touched_before_the_process_is_the_operators() -> None:
    before = gc.get_threshold()
    collector = Collector()
    for _ in range(EVERY):
        collector.taken()
    assert gc.get_freeze_count() == 0
    assert gc.get_threshold() == before


def test_what_many_facts_left_is_frozen_and_a_few_are_not_worth_it() -> None:
    collector = Collector()
    collector.begin()
    for _ in range(EVERY - 1):
        collector.taken()
    assert gc.get_freeze_count() == 0
    collector.taken()
    assert gc.get_freeze_count() > 0
    assert gc.get_threshold()[0] == YOUNG


def test_a_cycle_that_died_young_is_freed_and_not_frozen() -> None:
    collector = Collector()
    collector.begin()
    garbage = Cycle()
    left = weakref.ref(garbage)
    del garbage
    for _ in range(EVERY):
        collector.taken()
    assert left() is None


def test_a_cycle_that_died_after_it_was_frozen_is_found_later() -> None:
    collector = Collector()
    collector.begin()
    garbage = Cycle()
    left = weakref.ref(garbage)
    for _ in range(EVERY):
        collector.taken()
    del garbage
    gc.collect()
    assert left() is not None
    for _ in range(EVERY * (FULL - 1)):
        collector.taken()
    assert left() is None
