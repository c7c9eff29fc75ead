"""Deadlines ring in time and in order, once, and never early."""

from hypothesis import given
from hypothesis import strategies as st

from muster_core.model.effects import TimerSet
from muster_core.model.events import Timer, TimerFired, TimerKind
from muster_core.model.ids import AllocationKey, ApplicationId, PartitionId
from muster_core.runtime.sessions import TimerHeap
from tests.unit.core.messages import RM


def a_clock(number: int) -> Timer:
    return Timer(TimerKind.WAIT, RM, PartitionId("p"), ApplicationId("a"), AllocationKey(""), number)


def test_no_timer_fires_early() -> None:
    deadlines = TimerHeap()
    assert (deadlines.next_ns(), deadlines.due(10**30)) == (None, None)
    deadlines.set(TimerSet(a_clock(1), 100))
    assert (deadlines.next_ns(), deadlines.due(99)) == (100, None)
    assert deadlines.due(100) == TimerFired(a_clock(1))
    assert (deadlines.due(100), len(deadlines)) == (None, 0)


def test_timers_with_equal_deadlines_fire_in_the_order_they_were_set() -> None:
    deadlines = TimerHeap()
    for number in (3, 1, 2):
        deadlines.set(TimerSet(a_clock(number), 5))
    rung = [deadlines.due(5) for _ in range(3)]
    assert [event.timer.generation for event in rung if event] == [3, 1, 2]


def test_a_cleared_timer_never_fires() -> None:
    deadlines = TimerHeap()
    deadlines.set(TimerSet(a_clock(1), 5))
    deadlines.clear()
    assert deadlines.due(10) is None


@given(st.lists(st.integers(0, 50)), st.integers(0, 50))
def test_exactly_the_timers_with_a_past_deadline_fire(moments: list[int], now: int) -> None:
    deadlines = TimerHeap()
    for number, moment in enumerate(moments):
        deadlines.set(TimerSet(a_clock(number), moment))
    rung = []
    while (event := deadlines.due(now)) is not None:
        rung.append(moments[event.timer.generation])
    assert rung == sorted(moment for moment in moments if moment <= now)
    assert len(deadlines) == len(moments) - len(rung)
