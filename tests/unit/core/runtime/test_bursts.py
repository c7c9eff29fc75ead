"""A burst is planned in few passes, and waits for one only while more of it comes."""

import asyncio

import pytest

from muster_core.runtime.loop import LoopSettings, QueuedMessage
from muster_core.runtime.service import Scheduler
from muster_si import si_pb2
from tests.unit.core import messages as m
from tests.unit.core.conftest import Notebook, open_for_asks

#: Longer than any test may take.
BUDGET_S = 600.0


@pytest.mark.parametrize("messages", [1, 20])
async def test_a_burst_of_messages_is_scheduled_in_one_cycle(
    messages: int,
) -> None:
    async with open_for_asks(LoopSettings(budget_s=BUDGET_S)) as bench:
        for number in range(messages):
            await bench.core.update_allocation(m.asks(m.an_ask(f"pod-{number}")))
        await bench.rm.until(lambda: len(found(bench.rm)) == messages)
        answers = [one for one in bench.rm.received if isinstance(one, si_pb2.AllocationResponse)]
        assert len(answers) == 1


def found(rm: Notebook) -> list[str]:
    answers = (one for one in rm.received if isinstance(one, si_pb2.AllocationResponse))
    return [new.allocationKey for answer in answers for new in answer.new]


async def _send_slowly(core: Scheduler, messages: int) -> None:
    """Sends empty messages. Each takes several passes of the event loop, as over gRPC."""
    for _ in range(messages):
        for _ in range(4):
            await asyncio.sleep(0)
        core.loop.event_queue.post(QueuedMessage([]))


async def test_the_scheduler_waits_for_messages_that_take_several_passes_of_the_event_loop() -> None:
    core = Scheduler(LoopSettings(budget_s=BUDGET_S))
    core.loop._completed_s = core.loop.event_queue.clock()
    sending = asyncio.create_task(_send_slowly(core, 3))
    await core.loop._let_messages_arrive()
    assert len(core.loop.event_queue) == 3
    await sending


async def test_the_scheduler_waits_for_more_messages_only_for_the_time_budget() -> None:
    core = Scheduler(LoopSettings(budget_s=0.0))
    sending = asyncio.create_task(_send_slowly(core, 3))
    await core.loop._let_messages_arrive()
    assert not sending.done()
    await sending
