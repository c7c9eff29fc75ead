"""Cycles keep a distance, and leave most of the time to others; who asks alone does not wait."""

import asyncio

import pytest

from muster_core.runtime.loop import CyclePacing, LoopSettings, QueuedMessage
from muster_core.runtime.service import Scheduler
from muster_si import si_pb2
from tests.unit.core import messages
from tests.unit.core.conftest import open_for_asks
from tests.unit.core.runtime.test_bursts import found


@pytest.mark.parametrize(
    "took_s,begins_s",
    [(0.0, 0.004), (0.0005, 0.004), (0.001, 0.005), (0.005, 0.025), (0.010, 0.050), (1.0, 1.040)],
)
def test_the_next_cycle_begins_after_a_pause_that_grows_with_what_the_last_one_took(
    took_s: float, begins_s: float
) -> None:
    pauses = CyclePacing(lambda: None)
    assert pauses.left_s(100.0) == 0
    pauses.cycled(100.0, 100.0 + took_s)
    assert pauses.left_s(100.0) == pytest.approx(begins_s)
    assert pauses.left_s(100.0 + begins_s + 1e-9) == 0


def test_a_cycle_with_nothing_to_try_has_no_shortest_pause() -> None:
    pauses = CyclePacing(lambda: None)
    pauses.cycled(100.0, 100.0001, has_tried=False)
    assert pauses.left_s(100.0) == pytest.approx(0.0005)


async def test_an_application_does_not_delay_its_first_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are on different streams, so that a cycle can run between them."""
    async with open_for_asks(LoopSettings()) as bench:
        await bench.wait_until_idle()
        has_tried: list[bool] = []
        monkeypatch.setattr(bench.core.loop._pauses, "cycled", lambda *_, **found: has_tried.append(found["has_tried"]))
        await bench.core.update_application(messages.applications(messages.an_application("other")))
        await bench.wait_until_idle()
        await bench.core.update_allocation(messages.asks(messages.an_ask("pod")))
        await bench.rm.until(lambda: found(bench.rm) == ["pod"])
        assert has_tried == [False, True]


async def test_asks_that_come_within_a_pause_are_planned_together_at_its_end() -> None:
    async with open_for_asks(LoopSettings()) as bench:
        loop = bench.core.loop
        loop._pauses.begin(loop.event_queue.clock() + 3600)
        for number in range(3):
            await bench.core.update_allocation(messages.asks(messages.an_ask(f"pod-{number}")))
            await bench.wait_until_handled()
        await asyncio.sleep(5 * LoopSettings().budget_s)  # without the pause they would be planned by now
        assert found(bench.rm) == []
        loop._pauses.begin(0.0)
        loop._pauses._over()
        await bench.rm.until(lambda: len(found(bench.rm)) == 3)
        assert len([one for one in bench.rm.received if isinstance(one, si_pb2.AllocationResponse)]) == 1


async def test_an_unfinished_cycle_continues_without_a_pause() -> None:
    async with open_for_asks(LoopSettings()) as bench:
        loop = bench.core.loop
        now_s = loop.event_queue.clock()
        loop._pauses.begin(now_s + 3600)
        assert loop._pauses.holds(now_s)
        loop._unfinished = loop._is_unfinished = True
        await bench.core.update_allocation(messages.asks(messages.an_ask("pod")))
        await bench.rm.until(lambda: found(bench.rm) == ["pod"])
        assert not loop._pauses.is_on


async def test_an_unfinished_cycle_pauses_while_messages_wait() -> None:
    loop = Scheduler(LoopSettings(budget_s=0.0)).loop  # reads one message per iteration
    loop.event_queue.post(QueuedMessage([]))
    loop.event_queue.post(QueuedMessage([]))
    loop._unfinished = loop._is_unfinished = True
    loop._pauses.begin(loop.event_queue.clock() + 3600)
    assert loop._iterate()
    assert loop.scheduler_state.cycles == 0
    loop._iterate()
    assert loop.scheduler_state.cycles == 1
    loop._pauses.stop()


async def test_an_unfinished_cycle_continues_at_the_end_of_the_pause_although_messages_wait() -> None:
    loop = Scheduler(LoopSettings(budget_s=0.0)).loop
    loop.event_queue.post(QueuedMessage([]))
    loop.event_queue.post(QueuedMessage([]))
    loop._unfinished = loop._is_unfinished = True
    loop._iterate()
    assert loop.scheduler_state.cycles == 1
    assert len(loop.event_queue) == 1
