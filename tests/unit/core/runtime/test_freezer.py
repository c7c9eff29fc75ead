"""What came to stay is out of the garbage collector's sight, and only where the process is the core's own."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from muster_core.model.effects import AllocationResponse, NewAllocation
from muster_core.model.ids import AllocationId, NodeId
from muster_core.model.records import EventRecorded, Notice
from muster_core.runtime.loop import GarbageCollectorFreezer, size
from tests.unit.builders import RM, an_ask


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()
    gc.freeze()  # as tests/conftest.py left it


def test_recovered_objects_are_frozen() -> None:
    GarbageCollectorFreezer(is_on=True).recovered()
    assert gc.get_freeze_count() > 0


def test_objects_of_the_start_are_frozen() -> None:
    GarbageCollectorFreezer(is_on=True).started()
    assert gc.get_freeze_count() > 0


def test_objects_are_frozen_after_many_events_and_not_after_a_few() -> None:
    freezer = GarbageCollectorFreezer(is_on=True)
    freezer.count(999)
    assert gc.get_freeze_count() == 0
    freezer.count(1)
    assert gc.get_freeze_count() > 0
    gc.unfreeze()
    freezer.count(999)
    assert gc.get_freeze_count() == 0


class Cycle:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.me = self


def test_garbage_of_an_earlier_recovery_is_collected() -> None:
    freezer = GarbageCollectorFreezer(is_on=True)
    freezer.registered()
    garbage = Cycle()
    left = weakref.ref(garbage)
    freezer.recovered()
    del garbage
    gc.collect()
    assert left() is not None
    freezer.registered()
    freezer.recovered()
    assert left() is None


def test_garbage_of_an_interrupted_first_recovery_is_collected() -> None:
    freezer = GarbageCollectorFreezer(is_on=True)
    freezer.registered()
    garbage = Cycle()
    left = weakref.ref(garbage)
    freezer.count(1_000)
    del garbage
    freezer.registered()
    freezer.recovered()
    assert left() is None


def test_a_disabled_freezer_freezes_nothing() -> None:
    freezer = GarbageCollectorFreezer(is_on=False)
    freezer.started()
    freezer.recovered()
    freezer.count(100_000)
    assert gc.get_freeze_count() == 0


def test_allocations_count_as_events_do() -> None:
    new = NewAllocation(an_ask("r0"), AllocationId("a"), NodeId("n"))
    answer = AllocationResponse(RM, new=(new,) * 999)
    assert size([answer]) == 1_000
    assert size([EventRecorded(RM, Notice.QUEUE, "root.a")]) == 1
