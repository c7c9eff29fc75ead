"""The scheduler task: back-pressure, timers, recovery barriers, and what happens when something fails."""

import asyncio
from contextlib import suppress
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from muster_core.model.effects import TimerSet
from muster_core.model.events import Event, NodeAdded, Timer, TimerFired, TimerKind
from muster_core.model.ids import AllocationKey, ApplicationId, NodeId, PartitionId, RmId, partition_id
from muster_core.model.limits import LONGEST_STALL_S
from muster_core.model.resources import Resources
from muster_core.model.specs import NodeSpec
from muster_core.model.states import ManagerState
from muster_core.runtime.loop import CyclePacing, LoopSettings, QueuedMessage, SteadyClock
from muster_core.runtime.service import Scheduler
from muster_core.runtime.sessions import TimerHeap
from muster_core.scheduling import failures
from muster_si import keys, muster_pb2, si_pb2
from muster_si.errors import RefusalCode, Refused, SessionLost
from tests.unit.builders import resources
from tests.unit.core import messages
from tests.unit.core.conftest import Bench, FakeClock, Notebook, open_for_asks
from tests.unit.core.messages import RM
from tests.unit.core.runtime.test_bursts import found

#: An unknown event, which makes `step` fail.
NONSENSE = cast("Event", object())


async def test_senders_wait_while_the_event_queue_is_full() -> None:
    core = Scheduler(LoopSettings(event_queue_length=2))
    for _ in range(2):
        await core.loop.event_queue.put(QueuedMessage([]))
    third = asyncio.create_task(core.loop.event_queue.put(QueuedMessage([])))
    await asyncio.sleep(0)
    assert not third.done()
    running = asyncio.create_task(core.run())
    await third
    core.close()
    await running


async def test_many_timers_that_are_due_at_once_do_not_delay_other_tasks() -> None:
    core = Scheduler(LoopSettings(budget_s=0.0))
    deadlines = core.dispatcher.deadlines
    for number in range(50):
        deadlines.set(
            TimerSet(
                Timer(TimerKind.WAIT, messages.RM, PartitionId("p"), ApplicationId("a"), AllocationKey(""), number), 0
            )
        )
    running = asyncio.create_task(core.run())
    await core.loop.event_queue.put(QueuedMessage([]))
    seen: set[int] = set()
    while len(deadlines):
        seen.add(len(deadlines))
        await asyncio.sleep(0)
    assert len(seen) > 10
    core.close()
    await running


async def test_an_event_that_fails_is_counted_and_the_core_continues(bench: Bench) -> None:
    await bench.register()
    await bench.core.loop.event_queue.put(QueuedMessage([NONSENSE]))
    await bench.core.update_application(messages.applications(messages.an_application()))
    await bench.rm.until(lambda: any(isinstance(item, si_pb2.ApplicationResponse) for item in bench.rm.received))
    assert bench.metric("muster_core_failures_total") == 1
    assert bench.rm.ends == []


async def test_an_inconsistent_state_is_discarded_and_the_resource_manager_must_register_again(bench: Bench) -> None:
    await bench.register()
    await bench.core.update_node(messages.nodes(messages.a_node()))
    await bench.wait_until_idle()
    [partition] = bench.core.loop.scheduler_state.partitions.values()
    partition.queues.root.allocated = Resources({"vcore": 7})
    with capture_logs() as logged:
        await bench.core.loop.event_queue.put(QueuedMessage([NONSENSE]))
        await bench.rm.until(lambda: bool(bench.rm.ends))
    [story] = [line["story"] for line in logged if line["event"].startswith("inconsistent scheduler state")]
    assert any(line.split()[1:3] == ["NODE", "node-1"] for line in story), story
    last = bench.rm.received[-1]
    assert isinstance(last, muster_pb2.Callback)
    assert "inconsistent" in last.reregister.reason
    assert bench.core.loop.scheduler_state.partitions == {}
    with pytest.raises(SessionLost):
        await bench.wait_until_idle()
    bench.rm = Notebook()
    await bench.register()
    await bench.wait_until_idle()
    assert len(bench.core.loop.scheduler_state.partitions) == 1


async def test_the_log_of_a_failed_attempt_has_the_story_of_its_application(bench: Bench) -> None:
    await bench.register()
    await bench.core.update_application(messages.applications(messages.an_application()))
    await bench.wait_until_idle()
    [partition] = bench.core.loop.scheduler_state.partitions.values()
    [app] = partition.applications.values()
    with capture_logs() as logged:
        failures.application_failed(partition, app, RuntimeError("bug"), bench.clock())
        await bench.core.loop.event_queue.put(QueuedMessage([]))
        await bench.wait_until_idle()
    [line] = [line for line in logged if line["event"].startswith("scheduling attempt failed")]
    assert [text.split()[1:] for text in line["story"]] == [["APP", app.id, "APP_NEW"]]


async def test_a_failing_callback_ends_only_its_own_session(bench: Bench) -> None:
    await bench.register()
    other = Notebook()
    await bench.core.register_resource_manager(
        si_pb2.RegisterResourceManagerRequest(rmID="other", version="1.0.0"), other
    )
    bench.rm.broken = RuntimeError("outbox")
    with pytest.raises(SessionLost, match="callback failed"):
        await loses_its_session(bench)
    await bench.core.barrier(muster_pb2.BarrierRequest(rmID="other"))
    assert bench.core.loop.scheduler_state.managers[messages.RM].state is ManagerState.PAUSED
    assert bench.core.loop.scheduler_state.managers[RmId("other")].state is ManagerState.RUNNING


async def test_a_failing_callback_does_not_hide_an_earlier_failure_of_the_core(bench: Bench) -> None:
    await bench.register()
    await bench.wait_until_idle()
    state = bench.core.loop.scheduler_state
    [partition] = state.partitions.values()
    partition.queues.root.allocated = Resources({"vcore": 7})
    bench.rm.broken = RuntimeError("outbox")
    bench.core.loop.event_queue.post(QueuedMessage([NONSENSE]))
    with pytest.raises(SessionLost):
        await loses_its_session(bench)
    assert bench.core.loop.scheduler_state is not state


async def loses_its_session(bench: Bench) -> None:
    """Cause a callback. The session ends in this call, or a few calls later if the core is slow."""
    await bench.core.update_application(messages.applications(messages.an_application()))
    for _ in range(100):
        await bench.wait_until_handled()


async def iterate(bench: Bench) -> None:
    """Wake the scheduling loop and wait for an iteration that starts after that."""
    wake_up = bench.core.loop.event_queue.wake_up
    wake_up.set()
    while wake_up.is_set():  # noqa: ASYNC110 - the loop clears it immediately before an iteration
        await asyncio.sleep(0)


async def test_a_resource_manager_that_does_not_reconnect_in_time_is_stopped(bench: Bench) -> None:
    await bench.register()
    await bench.core.update_node(messages.nodes(messages.a_node()))
    await bench.wait_until_idle()
    scheduler_state = bench.core.loop.scheduler_state
    timeout_ns = scheduler_state.managers[messages.RM].configuration.timing.manager_timeout_ns
    await bench.core.connection_lost(messages.RM, bench.rm)
    await iterate(bench)
    assert scheduler_state.managers[messages.RM].state is ManagerState.PAUSED
    assert len(scheduler_state.partitions) == 1
    bench.clock.now += timeout_ns - 1
    await iterate(bench)
    assert scheduler_state.managers[messages.RM].state is ManagerState.PAUSED
    bench.clock.now += 1
    await iterate(bench)
    assert scheduler_state.managers[messages.RM].state is ManagerState.STOPPED
    assert scheduler_state.partitions == {}


async def test_the_loss_of_an_outdated_callback_is_ignored(bench: Bench) -> None:
    await bench.register()
    await bench.core.connection_lost(messages.RM, Notebook())
    await bench.wait_until_idle()
    assert bench.core.loop.scheduler_state.managers[messages.RM].state is ManagerState.RUNNING


async def test_a_recovery_barrier_waits_for_the_counted_requests_of_every_stream(bench: Bench) -> None:
    await bench.register(**{keys.EXTRA_BARRIER: "true"})
    request = muster_pb2.BarrierRequest(rmID=messages.RM, applicationRequests=1, nodeRequests=1, allocationRequests=1)
    barrier = asyncio.create_task(bench.core.barrier(request))
    await bench.core.update_allocation(messages.asks(messages.an_ask()))
    await bench.core.update_node(messages.nodes(messages.a_node()))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not barrier.done()
    assert bench.core.loop.scheduler_state.managers[messages.RM].is_recovering
    await bench.core.update_application(messages.applications(messages.an_application()))
    await barrier
    assert not bench.core.loop.scheduler_state.managers[messages.RM].is_recovering


async def test_without_a_declared_recovery_barrier_requests_are_placed_immediately(bench: Bench) -> None:
    await bench.register()
    await bench.core.update_node(messages.nodes(messages.a_node()))
    await bench.core.update_application(messages.applications(messages.an_application()))
    await bench.core.update_allocation(messages.asks(messages.an_ask()))
    await bench.rm.until(lambda: any(isinstance(message, si_pb2.AllocationResponse) for message in bench.rm.received))
    assert not bench.core.loop.scheduler_state.managers[messages.RM].is_recovering


async def test_a_recovery_barrier_ends_with_its_session(bench: Bench) -> None:
    await bench.register()
    barrier = asyncio.create_task(bench.core.barrier(muster_pb2.BarrierRequest(rmID=messages.RM, nodeRequests=1)))
    for _ in range(3):
        await asyncio.sleep(0)
    bench.rm = Notebook()
    await bench.register()
    with pytest.raises(SessionLost, match="registered again"):
        await barrier


async def test_a_recovery_barrier_with_a_negative_count_is_rejected(bench: Bench) -> None:
    await bench.register()
    with pytest.raises(Refused) as refused:
        await bench.core.barrier(muster_pb2.BarrierRequest(rmID=messages.RM, nodeRequests=-1))
    assert refused.value.code is RefusalCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    "request_, reason",
    [
        (si_pb2.RegisterResourceManagerRequest(version="1.0.0"), "rmID is missing"),
        (si_pb2.RegisterResourceManagerRequest(rmID="x" * 257, version="1.0.0"), "rmID is longer"),
        (si_pb2.RegisterResourceManagerRequest(rmID="a]b", version="1.0.0"), "rmID 'a]b' contains a bracket"),
        (si_pb2.RegisterResourceManagerRequest(rmID="prod[eu", version="1.0.0"), r"rmID 'prod\[eu' contains a bracket"),
        (si_pb2.RegisterResourceManagerRequest(rmID="x", version="1", policyGroup="g" * 257), "policyGroup is longer"),
    ],
)
async def test_a_registration_is_refused(
    bench: Bench, request_: si_pb2.RegisterResourceManagerRequest, reason: str
) -> None:
    with pytest.raises(Refused, match=reason):
        await bench.core.register_resource_manager(request_, bench.rm)


@pytest.mark.parametrize("rm", ["prod(eu)", "prod+eu", "münchen", "a=b", "prod,eu", "prod eu"])
async def test_the_id_of_a_resource_manager_may_contain_every_character_but_brackets(bench: Bench, rm: str) -> None:
    await bench.core.register_resource_manager(
        si_pb2.RegisterResourceManagerRequest(rmID=rm, version="1.0.0"), bench.rm
    )
    await bench.core.barrier(muster_pb2.BarrierRequest(rmID=rm))
    assert list(bench.core.loop.scheduler_state.partitions) == [f"[{rm}]default"]


async def test_the_policy_group_names_the_configuration_among_the_extra_keys(bench: Bench) -> None:
    text = "partitions: [{name: gpu, queues: [{name: root, submitacl: '*'}]}]"
    request = si_pb2.RegisterResourceManagerRequest(
        rmID=messages.RM, version="v1.9.3", policyGroup="mine", extraConfig={"mine.yaml": text}
    )
    await bench.core.register_resource_manager(request, bench.rm)
    await bench.wait_until_idle()
    assert list(bench.core.loop.scheduler_state.partitions) == ["[rm-1]gpu"]


async def test_an_update_of_the_configuration_is_put_in_force(bench: Bench) -> None:
    await bench.register()
    text = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: fresh}]}]}]"
    extra = {"mine.yaml": text, keys.EXTRA_STARVATION_AGE: "3s"}
    await bench.core.update_configuration(
        si_pb2.UpdateConfigurationRequest(rmID=messages.RM, policyGroup="mine", extraConfig=extra)
    )
    await bench.wait_until_idle()
    [partition] = bench.core.loop.scheduler_state.partitions.values()
    assert "root.fresh" in partition.queues.by_path
    assert partition.timing.starvation_age_ns == 3_000_000_000


async def test_shutting_down_ends_every_session(bench: Bench) -> None:
    await bench.register()
    bench.core.close()
    assert bench.rm.ends == ["the scheduler shuts down"]


async def test_asks_allocated_together_are_reported_in_one_message(bench: Bench) -> None:
    await bench.register()
    names = [f"app-{number}" for number in range(3)]
    await bench.core.update_application(messages.applications(*(messages.an_application(name) for name in names)))
    await bench.core.update_node(messages.nodes(messages.a_node()))
    await bench.core.update_allocation(
        messages.asks(messages.an_ask("a", applicationID="app-0"), messages.an_ask("b", applicationID="app-0"))
    )
    await bench.rm.until(lambda: any(isinstance(item, si_pb2.AllocationResponse) for item in bench.rm.received))
    [answer] = [item for item in bench.rm.received if isinstance(item, si_pb2.AllocationResponse)]
    assert {allocation.allocationKey for allocation in answer.new} == {"a", "b"}


# -- Deadlines ring in time and in order, once, and never early.


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


# -- Cycles keep a distance, and leave most of the time to others; who asks alone does not wait.


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


# -- The loop is supervised: failures start a recovery, and liveness fails when the loop is blocked.


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
