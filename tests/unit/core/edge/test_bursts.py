"""A burst is planned in few passes, and waits for one only while more of it comes."""

import asyncio

import pytest

from muster_core.edge.loop import LoopSettings
from muster_core.edge.scheduler import Scheduler
from muster_si import si_pb2
from tests.unit.core.edge import messages as m
from tests.unit.core.edge.conftest import Bench, Clock, Notebook

#: Longer than any test may take: who waited for it would never end.
BUDGET_S = 600.0


@pytest.mark.parametrize("messages", [1, 20])
async def test_messages_that_follow_each_other_are_planned_together_and_the_last_waits_for_nobody(
    messages: int,
) -> None:
    bench = Bench(Scheduler(LoopSettings(budget_s=BUDGET_S)), Clock(), Notebook())
    running = asyncio.create_task(bench.core.run())
    await bench.register()
    room = m.a_resource(vcore=1_000_000, memory=1 << 40, pods=1000)
    await bench.core.update_node(m.nodes(m.a_node(schedulableResource=room)))
    await bench.core.update_application(m.applications(m.an_application()))
    await bench.settle()
    for number in range(messages):
        await bench.core.update_allocation(m.asks(m.an_ask(f"pod-{number}")))
    await bench.rm.until(lambda: len(found(bench.rm)) == messages)
    answers = [one for one in bench.rm.heard if isinstance(one, si_pb2.AllocationResponse)]
    assert len(answers) == 1
    bench.core.close()
    await running


def found(rm: Notebook) -> list[str]:
    answers = (one for one in rm.heard if isinstance(one, si_pb2.AllocationResponse))
    return [new.allocationKey for answer in answers for new in answer.new]
