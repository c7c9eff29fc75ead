"""Long-lived objects are frozen, and garbage in reference cycles is still found."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from muster_operator.controller.state import Ledger
from muster_operator.model.cluster_events import PodGone
from muster_operator.model.ids import PodUid
from muster_operator.runtime.garbage_collection import EVERY, FULL, YOUNG, GarbageCollectorFreezer
from muster_operator.runtime.inputs import EventReceived
from muster_operator.runtime.loop import Inbox, Loop
from muster_operator.runtime.metrics import Metrics


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    before = gc.get_threshold()
    gc.unfreeze()
    yield
    gc.unfreeze()
    gc.freeze()  # as tests/conftest.py left it
    gc.set_threshold(*before)


class Cycle:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.me = self


def test_the_garbage_collector_is_unchanged_before_the_freezer_begins() -> None:
    before = gc.get_threshold()
    GarbageCollectorFreezer().freeze()
    assert gc.get_freeze_count() == 0
    assert gc.get_threshold() == before


async def test_the_loop_freezes_objects_only_after_enough_events() -> None:
    metrics = Metrics()
    inbox = Inbox(metrics)
    loop = Loop(Ledger(), inbox, lambda _: None, metrics)

    def receive(events: int) -> None:
        for number in range(events):
            inbox.put(EventReceived(PodGone(PodUid(f"uid-{number}"))))
        while len(inbox):
            loop.iterate()

    running = asyncio.create_task(loop.run())
    await asyncio.sleep(0)  # it begins
    receive(EVERY - 1)
    assert gc.get_freeze_count() == 0
    receive(1)
    assert gc.get_freeze_count() > 0
    assert gc.get_threshold()[0] == YOUNG
    running.cancel()


def test_an_unreachable_cycle_is_freed_before_a_freeze() -> None:
    freezer = GarbageCollectorFreezer()
    freezer.begin()
    garbage = Cycle()
    left = weakref.ref(garbage)
    del garbage
    freezer.freeze()
    assert left() is None


def test_a_frozen_cycle_is_freed_by_a_later_full_collection() -> None:
    freezer = GarbageCollectorFreezer()
    freezer.begin()
    garbage = Cycle()
    left = weakref.ref(garbage)
    freezer.freeze()
    del garbage
    gc.collect()
    assert left() is not None
    for _ in range(FULL - 1):
        freezer.freeze()
    assert left() is None
