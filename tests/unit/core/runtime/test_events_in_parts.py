"""Between the parts of an event about many pods, the process does other work."""

from __future__ import annotations

import asyncio

from muster_core.model.events import ApplicationAdded
from muster_core.runtime.loop import LoopSettings, QueuedMessage
from muster_core.runtime.service import Scheduler
from tests.unit.builders import PARTITION, an_application
from tests.unit.core.scheduling.many_pods import APP, REMOVED, large


async def test_d19_other_tasks_run_between_two_parts_and_later_messages_wait() -> None:
    core = Scheduler(LoopSettings(budget_s=0.0))
    core.loop.scheduler_state = large().scheduler_state
    core.loop.event_queue.post(QueuedMessage([REMOVED, ApplicationAdded(an_application())]))
    task, between = asyncio.create_task(core.run()), 0
    while (app := core.loop.scheduler_state.partitions[PARTITION].applications[APP]).allocations or app.asks:
        between += core.loop.scheduler_state.unfinished is not None
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    core.close()
    await task
    assert between >= 4
    assert not core.loop.scheduler_state.partitions[PARTITION].applications[APP].removed
    events = core.metrics.registry.get_sample_value("muster_core_events_total", {"kind": "ApplicationRemoved"})
    assert events == 1
