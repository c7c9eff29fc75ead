"""Between the parts of an event about many pods, the process does other work."""

import asyncio
from typing import Any

import pytest

from muster_core.model.events import ApplicationAdded
from muster_core.model.resources import NOTHING
from muster_core.runtime.loop import LoopSettings, QueuedMessage
from muster_core.runtime.service import Scheduler
from muster_core.scheduling import invariants
from tests.unit.builders import PARTITION, an_application
from tests.unit.core.scheduling.many_pods import APP, FIRST_SELECTOR, REMOVED, large

#: An unknown event, which makes `step` fail.
NONSENSE: Any = object()


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


async def _completed(core: Scheduler) -> None:
    """Runs the core until no event is left."""
    task = asyncio.create_task(core.run())
    while len(core.loop.event_queue) or core.loop.scheduler_state.unfinished is not None:  # noqa: ASYNC110 - nothing signals this state
        await asyncio.sleep(0)
    core.close()
    await task


@pytest.mark.parametrize("settings", [LoopSettings(budget_s=0.0), LoopSettings(budget_s=0.0, checks=True)])
async def test_a_failure_before_an_event_in_parts_is_no_recovery_of_everything(settings: LoopSettings) -> None:
    """The cycle after the last part places the request of the event."""
    core = Scheduler(settings)
    state = core.loop.scheduler_state = large().scheduler_state
    core.loop.event_queue.post(QueuedMessage([NONSENSE, FIRST_SELECTOR]))
    await _completed(core)
    assert core.loop.scheduler_state is state
    assert invariants.check(state) == []
    app = state.partitions[PARTITION].applications[APP]
    assert FIRST_SELECTOR.spec in [allocation.spec for allocation in app.allocations.values()]


async def test_a_failure_before_an_event_in_parts_is_followed_by_a_check_after_the_last_part() -> None:
    core = Scheduler(LoopSettings(budget_s=0.0))
    state = core.loop.scheduler_state = large().scheduler_state
    state.partitions[PARTITION].queues.root.allocated = NOTHING
    core.loop.event_queue.post(QueuedMessage([NONSENSE, FIRST_SELECTOR]))
    await _completed(core)
    assert core.loop.scheduler_state is not state
