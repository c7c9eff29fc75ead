"""A burst is planned in few passes, and waits for one only while more of it comes."""

import pytest

from muster_core.runtime.loop import LoopSettings
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
