"""The loop is supervised: failures start a recovery, and liveness fails when the loop is blocked."""

import asyncio
from contextlib import suppress

import pytest

from muster_core.model.events import NodeAdded
from muster_core.model.ids import NodeId, partition_id
from muster_core.model.limits import LONGEST_STALL_S
from muster_core.model.specs import NodeSpec
from muster_core.runtime.loop import LoopSettings, QueuedMessage, SteadyClock
from muster_core.runtime.service import Scheduler
from muster_si import si_pb2
from muster_si.errors import SessionLost
from tests.unit.builders import resources
from tests.unit.core import messages
from tests.unit.core.conftest import Bench, FakeClock, Notebook
from tests.unit.core.messages import RM


async def test_a_failed_delivery_starts_a_recovery(bench: Bench) -> None:
    await bench.register()
    await bench.wait_until_idle()
    carry = bench.core.dispatcher.carry

    def fail(*_: object) -> None:
        bench.core.dispatcher.carry = carry  # type: ignore[method-assign]  # as it was
        raise OSError(28, "No space left on device")

    bench.core.dispatcher.carry = fail  # type: ignore[method-assign,assignment]  # a disk that is full, once
    with suppress(SessionLost):
        await bench.core.update_node(messages.nodes(messages.a_node()))
    await bench.rm.until(lambda: bool(bench.rm.ends))
    assert "failed while delivering" in bench.rm.ends[0]
    assert bench.core.loop.is_running
    bench.rm = Notebook()
    await bench.register()
    await bench.core.update_node(messages.nodes(messages.a_node()))
    await bench.wait_until_idle()
    assert bench.core.loop.stalled_s() == 0


async def test_the_end_of_the_loop_is_reported_to_its_caller() -> None:
    core = Scheduler(LoopSettings())
    reported: list[bool] = []
    core.loop.on_end = lambda: reported.append(core.loop.is_running)
    task = asyncio.create_task(core.run())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert reported == [False]


async def test_a_loop_with_queued_messages_that_completes_no_iteration_is_stalled() -> None:
    core = Scheduler(LoopSettings())
    assert core.loop.stalled_s() == 0
    core.loop.event_queue.post(QueuedMessage([]))
    core.loop.event_queue._queued[0].posted_s -= 2 * LONGEST_STALL_S
    core.loop._completed_s -= 2 * LONGEST_STALL_S
    assert core.loop.stalled_s() > LONGEST_STALL_S


async def test_a_new_session_receives_no_decisions_of_an_earlier_session() -> None:
    bench = Bench(Scheduler(LoopSettings(budget_s=0)), FakeClock(), Notebook())
    running = asyncio.create_task(bench.core.run())
    await bench.register()
    await bench.core.update_application(messages.applications(messages.an_application()))
    await bench.core.update_allocation(messages.asks(messages.an_ask("pod")))
    await bench.wait_until_idle()
    # A node is added while the resource manager registers again: the old state places the pod.
    spec = NodeSpec(partition_id(RM, "default"), NodeId("n0"), resources(vcore=10_000, memory=1 << 40, pods=100))
    bench.core.loop.event_queue.post(QueuedMessage([NodeAdded(spec)]))
    bench.rm = Notebook()
    await bench.register()
    await bench.wait_until_idle()
    assert [item for item in bench.rm.received if isinstance(item, si_pb2.AllocationResponse)] == []
    assert bench.metric("muster_core_undelivered_total", what="effects of a session that is over") > 0
    bench.core.close()
    await running


def test_a_step_of_the_system_clock_does_not_move_the_core_s_clock() -> None:
    wall, monotonic = FakeClock(), FakeClock(5)
    clock = SteadyClock(wall, monotonic)
    before = clock()
    wall.now += 3_600_000_000_000
    assert clock() == before
    monotonic.now += 7
    assert clock() == before + 7
