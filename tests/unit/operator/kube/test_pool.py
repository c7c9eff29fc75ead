"""Priority, order per pod, bounded concurrency, and events that never delay a bind."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
from msgspec import structs

from muster_operator.kube import write_queue
from muster_operator.kube.write_queue import (
    EventBuffer,
    Limits,
    Pool,
    Throttle,
    WritePriority,
    key_of,
    namespace_of,
    write_priority_of,
)
from muster_operator.model.commands import (
    BindPod,
    CancelCreations,
    Command,
    CreatePlaceholder,
    DeletePod,
    Importance,
    PostEvent,
    Repeat,
    SetCondition,
)
from muster_operator.model.ids import AppId, NodeName, PodUid
from muster_operator.model.pods import PodRef
from tests.unit.operator.kube.commands import a_bind, a_condition, a_create, a_delete, an_event


@dataclass
class Api:
    """Takes commands and holds each until the gate opens."""

    started: list[Command] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    arrivals: asyncio.Queue[Command] = field(default_factory=asyncio.Queue)
    running: set[str] = field(default_factory=set)
    most: int = 0
    dropped: int = 0

    def drop(self) -> None:
        self.dropped += 1

    async def execute(self, command: Command) -> None:
        self.started.append(command)
        self.arrivals.put_nowait(command)
        self.running.add(str(command))
        self.most = max(self.most, len(self.running))
        await self.gate.wait()
        self.running.discard(str(command))


@asynccontextmanager
async def a_pool(api: Api, limits: Limits) -> AsyncIterator[Pool]:
    pool = Pool(api.execute, limits, on_drop=api.drop)
    task = asyncio.create_task(pool.run())
    await asyncio.sleep(0)  # events of the time before it runs are dropped
    try:
        yield pool
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def finished(pool: Pool, api: Api) -> list[Command]:
    api.gate.set()
    async with asyncio.timeout(30):
        await pool.drained()
    return api.started


async def test_binds_go_before_deletes_before_creates_before_patches_before_events() -> None:
    api = Api()
    async with a_pool(api, Limits(writers=1)) as pool:
        commands: list[Command] = [an_event(), a_condition("c"), a_create(), a_delete("d"), a_bind("b")]
        for command in commands:
            pool.submit(command)
        assert await finished(pool, api) == commands[::-1]


async def test_writes_to_one_pod_run_one_at_a_time_in_their_order() -> None:
    api = Api()
    async with a_pool(api, Limits(writers=8)) as pool:
        for command in (a_condition(), a_bind(), a_delete()):
            pool.submit(command)
        await asyncio.sleep(0.01)
        assert api.started == [a_condition()]
        assert await finished(pool, api) == [a_condition(), a_bind(), a_delete()]
        assert api.most == 1


async def test_a_queued_patch_inherits_the_priority_of_the_bind_behind_it() -> None:
    api = Api()
    async with a_pool(api, Limits(writers=1)) as pool:
        pool.submit(a_create())
        pool.submit(a_condition("p"))
        pool.submit(a_bind("p"))
        assert await finished(pool, api) == [a_condition("p"), a_bind("p"), a_create()]


async def test_no_more_writes_are_in_flight_than_allowed() -> None:
    api = Api()
    async with a_pool(api, Limits(writers=3)) as pool:
        for number in range(10):
            pool.submit(a_bind(f"p{number}"))
        await asyncio.sleep(0.01)
        assert len(api.started) == 3
        assert len(await finished(pool, api)) == 10


async def test_a_full_buffer_drops_the_least_important_event_and_counts_it() -> None:
    api = Api()
    async with a_pool(api, Limits(writers=1, events=2)) as pool:
        pool.submit(a_bind())
        await asyncio.sleep(0.01)
        for note, importance in (("problem", Importance.PROBLEM), ("old", Importance.PROGRESS)):
            pool.submit(an_event(note, importance=importance))
        pool.submit(an_event("result", importance=Importance.RESULT))
        notes = [command.note for command in await finished(pool, api) if isinstance(command, PostEvent)]
        assert notes == ["problem", "result"]
        assert api.dropped == 1


async def test_a_queued_event_of_a_series_is_replaced_by_the_newest_one() -> None:
    api = Api()
    async with a_pool(api, Limits(writers=1)) as pool:
        pool.submit(a_bind())
        await asyncio.sleep(0.01)
        for bound in range(5):
            pool.submit(an_event(f"{bound} bound", series="gang"))
        assert await finished(pool, api) == [a_bind(), an_event("4 bound", series="gang")]


async def test_events_leave_writers_free_for_other_writes() -> None:
    api = Api()
    async with a_pool(api, Limits(writers=4, event_writers=2)) as pool:
        for number in range(10):
            pool.submit(an_event(f"note {number}"))
        await asyncio.sleep(0.01)
        assert len(api.started) == 2
        pool.submit(a_bind())
        await asyncio.sleep(0.01)
        assert api.started[-1] == a_bind()
        assert len(await finished(pool, api)) == 11


async def test_an_event_waits_until_no_other_write_is_in_flight_or_recent() -> None:
    api = Api()
    async with a_pool(api, Limits(writers=4, quiet_s=0.03)) as pool:
        pool.submit(a_bind())
        pool.submit(an_event())
        await asyncio.sleep(0.01)
        assert api.started == [a_bind()]
        api.gate.set()
        await asyncio.sleep(0.01)
        assert api.started == [a_bind()]
        assert await finished(pool, api) == [a_bind(), an_event()]


async def test_an_event_that_waited_too_long_is_sent_despite_a_hanging_write() -> None:
    recorder = asyncio.Event()

    async def execute(command: Command) -> None:
        if isinstance(command, PostEvent):
            recorder.set()
        await asyncio.Event().wait()

    pool = Pool(execute, Limits(max_event_delay_s=0.03))
    task = asyncio.create_task(pool.run())
    await asyncio.sleep(0)
    pool.submit(a_bind())
    pool.submit(an_event())
    async with asyncio.timeout(5):  # less than the default
        await recorder.wait()
    task.cancel()


async def test_a_write_in_flight_ends_with_the_pool() -> None:
    """The session is closed next, and a request of a closed session raises."""
    started, ended = asyncio.Event(), asyncio.Event()

    async def execute(_command: Command) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    pool = Pool(execute, Limits())
    task = asyncio.create_task(pool.run())
    await asyncio.sleep(0)
    pool.submit(a_bind())
    async with asyncio.timeout(20):
        await started.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert ended.is_set()


def test_the_oldest_queue_time_follows_events_that_are_taken_dropped_and_added() -> None:
    buffer = EventBuffer(2, lambda: None)
    assert buffer.oldest() == float("inf")
    for at in (100, 101):
        buffer.put(an_event(f"number {at}"), at=at)
        assert buffer.oldest() == 100
    buffer.put(an_event("too many"), at=102)
    assert buffer.oldest() == 101
    buffer.take()
    assert buffer.oldest() == 102
    buffer.take()
    assert buffer.oldest() == float("inf")


def test_an_updated_series_keeps_the_queue_time_of_its_first_event() -> None:
    buffer = EventBuffer(10, lambda: None)
    buffer.put(an_event("1 bound", series="gang"), at=100)
    buffer.put(an_event("other"), at=101)
    buffer.put(an_event("2 bound", series="gang"), at=105)
    assert buffer.oldest() == 100
    assert [(event.note, event.at) for event in (buffer.take(), buffer.take()) if event] == [
        ("2 bound", 105),
        ("other", 101),
    ]


async def test_a_queued_event_keeps_the_time_at_which_it_was_submitted() -> None:
    api = Api()
    async with a_pool(api, Limits()) as pool:
        pool.submit(a_bind())
        await asyncio.sleep(0.01)
        pool.submit(an_event("first"))
        await asyncio.sleep(0.02)
        pool.submit(an_event("second"))
        first, second = (command for command in await finished(pool, api) if isinstance(command, PostEvent))
        assert second.at - first.at > 0.015


async def test_a_rate_limit_spreads_writes_after_the_burst() -> None:
    api = Api()
    api.gate.set()
    async with a_pool(api, Limits(qps=50, burst=5)) as pool:
        began = asyncio.get_running_loop().time()
        for number in range(15):
            pool.submit(a_bind(f"p{number}"))
        await finished(pool, api)
        assert asyncio.get_running_loop().time() - began > 0.15


@pytest.mark.parametrize("kind", ["patches", "events"])
async def test_patches_and_events_leave_part_of_the_burst_to_binds(kind: str) -> None:
    api = Api()
    api.gate.set()
    async with a_pool(api, Limits(qps=0.001, burst=8, quiet_s=0.0)) as pool:
        for number in range(20):
            pool.submit(a_condition(f"c{number}") if kind == "patches" else an_event(f"{number}", name=f"c{number}"))
        await asyncio.sleep(0.05)
        assert len(api.started) == 6
        for number in range(2):
            pool.submit(a_bind(f"p{number}"))
        await asyncio.sleep(0.05)
        assert api.started[6:] == [a_bind("p0"), a_bind("p1")]


@pytest.mark.parametrize("flood", [a_bind, a_delete])
@pytest.mark.parametrize("other", [a_create("other"), a_condition("other"), an_event("other")], ids=type)
async def test_a_flood_of_writes_leaves_each_kind_a_share_of_the_rate(
    flood: Callable[[str], Command], other: Command
) -> None:
    api = Api()
    api.gate.set()
    async with a_pool(api, Limits(qps=0.001, burst=12, quiet_s=0.0, max_event_delay_s=0.0)) as pool:
        for number in range(100):
            pool.submit(flood(f"p{number}"))
        pool.submit(other)
        async with asyncio.timeout(10):
            started = [await api.arrivals.get() for _ in range(12)]
        assert sum(type(command) is type(other) for command in started) == 1


async def test_patches_and_events_are_sent_when_the_bucket_is_refilled() -> None:
    api = Api()
    async with a_pool(api, Limits(qps=400, burst=1, quiet_s=0.0)) as pool:
        for number in range(5):
            pool.submit(a_bind(f"p{number}"))
            pool.submit(a_condition(f"c{number}"))
            pool.submit(an_event(f"{number}"))
        assert len(await finished(pool, api)) == 15


async def test_creates_in_flight_leave_writers_free_for_new_binds() -> None:
    api = Api()
    async with a_pool(api, Limits(writers=8)) as pool:
        for number in range(5000):
            pool.submit(a_create(f"tg-{number}"))
        await asyncio.sleep(0.01)
        assert len(api.started) == 5
        for number in range(3):
            pool.submit(a_bind(f"p{number}"))
        await asyncio.sleep(0.01)
        assert api.started[5:] == [a_bind(f"p{number}") for number in range(3)]
        assert len(await finished(pool, api)) == 5003


async def test_deletes_and_creates_together_fill_the_pool() -> None:
    api = Api()
    async with a_pool(api, Limits(writers=8)) as pool:
        for number in range(20):
            pool.submit(a_create(f"tg-{number}"))
            pool.submit(a_delete(f"old-{number}"))
        await asyncio.sleep(0.01)
        assert len(api.started) == 8
        assert sum(command == a_delete(f"old-{n}") for n in range(20) for command in api.started) == 6
        assert len(await finished(pool, api)) == 40


async def test_a_throttled_priority_waits_and_the_others_continue() -> None:
    api = Api()
    api.gate.set()
    now = 0.0
    throttle = Throttle(clock=lambda: now)
    pool = Pool(api.execute, Limits(quiet_s=0.0), throttle=throttle)
    task = asyncio.create_task(pool.run())
    await asyncio.sleep(0)
    throttle.pause(WritePriority.CREATE, 0.05)
    pool.submit(a_create())
    pool.submit(a_bind())
    pool.submit(an_event())
    await asyncio.sleep(0.01)
    assert api.started == [a_bind(), an_event()]
    now = 1.0
    async with asyncio.timeout(20):
        await pool.drained()  # only the end of the throttle wakes it
    assert api.started[2:] == [a_create()]
    task.cancel()


@pytest.mark.parametrize("looks", range(1, 12))
async def test_a_throttle_that_ends_between_two_clock_reads_is_noticed(looks: int) -> None:
    ticks = itertools.count()
    throttle = Throttle(clock=lambda: next(ticks) / 1000)
    api = Api()
    pool = Pool(api.execute, Limits(), throttle=throttle)
    task = asyncio.create_task(pool.run())
    await asyncio.sleep(0)
    throttle.pause(WritePriority.BIND, looks / 1000)
    pool.submit(a_bind("p0"))
    assert await finished(pool, api) == [a_bind("p0")]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_equal_queued_events_are_merged() -> None:
    api = Api()
    async with a_pool(api, Limits(writers=1)) as pool:
        pool.submit(a_bind())
        await asyncio.sleep(0.01)
        for _ in range(3):
            pool.submit(an_event("no room"))
        pool.submit(an_event("no room", name="other"))
        assert await finished(pool, api) == [a_bind(), an_event("no room"), an_event("no room", name="other")]


async def test_series_of_two_objects_do_not_replace_each_other() -> None:
    api = Api()
    async with a_pool(api, Limits(writers=1)) as pool:
        pool.submit(a_bind())
        await asyncio.sleep(0.01)
        for name in ("p", "q"):
            pool.submit(an_event("1 bound", series="gang", name=name))
        events = [an_event("1 bound", series="gang", name=name) for name in ("p", "q")]
        assert await finished(pool, api) == [a_bind(), *events]


async def test_no_event_of_five_thousand_concurrently_bound_pods_is_dropped() -> None:
    api = Api()
    async with a_pool(api, Limits()) as pool:
        for number in range(5000):
            pool.submit(a_bind(f"p{number}"))
        for number in range(5000):
            pool.submit(an_event("bound", name=f"p{number}"))
        assert len(await finished(pool, api)) == 10_000
        assert api.dropped == 0


async def test_queued_events_do_not_delay_the_shutdown_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_queue, "LAST_EVENTS_S", 0.05)
    api = Api()
    async with a_pool(api, Limits()) as pool:
        for number in range(100):
            pool.submit(an_event(f"note {number}"))
        async with asyncio.timeout(20):
            await pool.drained()  # the gate is shut: none of them ends


async def test_cancelled_binds_are_dropped_while_writes_in_flight_finish() -> None:
    api = Api()
    async with a_pool(api, Limits(writers=2)) as pool:
        for command in (a_bind("a"), a_condition("b"), a_bind("b"), a_delete("b"), a_bind("c"), a_bind("d")):
            pool.submit(command)
        await asyncio.sleep(0.01)
        assert api.started == [a_bind("a"), a_condition("b")]
        assert pool.binds_in_flight == 2  # one of them has the urgency of the bind that waits behind it
        pool.cancel_binds()
        pool.submit(a_bind("e"))
        assert await finished(pool, api) == [a_bind("a"), a_condition("b"), a_bind("e"), a_delete("b")]
        assert pool.binds_in_flight == 0


async def test_a_bind_that_waits_for_the_rate_limit_is_cancelled() -> None:
    api = Api()
    async with a_pool(api, Limits(qps=5, burst=1)) as pool:
        pool.submit(a_bind("a"))
        pool.submit(a_bind("b"))
        pool.submit(a_delete("b"))
        await asyncio.sleep(0.01)
        assert api.started == [a_bind("a")]
        pool.cancel_binds()
        assert await finished(pool, api) == [a_bind("a"), a_delete("b")]


async def test_a_creation_that_waits_for_the_rate_limit_is_cancelled() -> None:
    api = Api()
    async with a_pool(api, Limits(qps=5, burst=1)) as pool:
        pool.submit(a_bind("a"))
        pool.submit(a_create_of("w", "team", 0))
        await asyncio.sleep(0.01)
        assert api.started == [a_bind("a")]
        pool.submit(CancelCreations(AppId("w")))
        assert await finished(pool, api) == [a_bind("a")]


async def test_a_bind_overtakes_a_creation_that_waits_for_the_rate_limit() -> None:
    api = Api()
    api.gate.set()
    async with a_pool(api, Limits(qps=5, burst=1)) as pool:
        pool.submit(a_bind("a"))
        pool.submit(a_create("tg-0"))
        await asyncio.sleep(0.01)
        pool.submit(a_bind("b"))
        assert await finished(pool, api) == [a_bind("a"), a_bind("b"), a_create("tg-0")]


async def test_a_write_behind_a_cancelled_queued_bind_is_executed() -> None:
    api = Api()
    async with a_pool(api, Limits(writers=1)) as pool:
        pool.submit(a_create())
        await asyncio.sleep(0.01)
        pool.submit(a_bind("b"))
        pool.submit(a_delete("b"))
        pool.cancel_binds()
        assert await finished(pool, api) == [a_create(), a_delete("b")]


def of_namespace(namespace: str, name: str) -> PodRef:
    return PodRef(namespace, name, PodUid(f"{namespace}/{name}"))


def a_create_of(app: str, namespace: str, number: int) -> CreatePlaceholder:
    spec = a_create(f"tg-{app}-{number}").spec
    return CreatePlaceholder(replace(spec, app=AppId(app), owner=of_namespace(namespace, "driver")))


FLOODS: dict[str, Callable[[str, int], Command]] = {
    "binds": lambda namespace, number: BindPod(of_namespace(namespace, f"p{number}"), NodeName("n1")),
    "deletes": lambda namespace, number: DeletePod(of_namespace(namespace, f"p{number}"), "released"),
    "creates": lambda namespace, number: a_create_of("app", namespace, number),
    "patches": lambda namespace, number: SetCondition(of_namespace(namespace, f"p{number}"), "Unschedulable", "no"),
}


@pytest.mark.parametrize("kind", FLOODS)
async def test_a_flood_of_one_namespace_does_not_starve_another(kind: str) -> None:
    api, make = Api(), FLOODS[kind]
    async with a_pool(api, Limits(writers=1)) as pool:
        for number in range(1000):
            pool.submit(make("noisy", number))
        theirs = [make("quiet", number) for number in range(10)]
        for command in theirs:
            pool.submit(command)
        started = await finished(pool, api)
    assert [command for command in started if command in theirs] == theirs
    assert max(started.index(command) for command in theirs) <= 2 * len(theirs) + 1
    assert len(started) == 1010


async def test_queued_creations_of_an_application_are_cancelled_together() -> None:
    api = Api()
    async with a_pool(api, Limits(writers=1)) as pool:
        for number in range(500):
            pool.submit(a_create_of("given-up", "ns", number))
        pool.submit(a_create_of("other", "ns", 0))
        await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        pool.submit(CancelCreations(AppId("given-up")))
        assert pool.depths()["writes"] == 1
        assert await finished(pool, api) == [a_create_of("given-up", "ns", 0), a_create_of("other", "ns", 0)]


@pytest.mark.parametrize("is_bind", [True, False])
async def test_a_creation_that_started_before_a_more_urgent_write_of_its_pod_is_not_cancelled(*, is_bind: bool) -> None:
    api = Api()
    create = a_create_of("given-up", "ns", 0)
    pod = of_namespace("ns", create.spec.name)
    async with a_pool(api, Limits(writers=1)) as pool:
        pool.submit(a_bind("first"))
        await asyncio.sleep(0.01)
        pool.submit(create)  # its pod's next write lets it start with that write's priority
        pool.submit(structs.replace(a_bind("x"), pod=pod) if is_bind else DeletePod(pod, "released"))
        found = await finished(pool, api)
        pool.submit(CancelCreations(AppId("given-up")))
        assert create in found
        assert pool.depths()["writes"] == 0


async def test_a_write_behind_a_cancelled_creation_is_executed() -> None:
    api = Api()
    async with a_pool(api, Limits(writers=1)) as pool:
        pool.submit(a_bind("first"))
        await asyncio.sleep(0.01)
        create = a_create_of("given-up", "ns", 0)
        delete = DeletePod(of_namespace("ns", create.spec.name), "released")
        pool.submit(create)
        pool.submit(delete)
        pool.submit(CancelCreations(AppId("given-up")))
        assert await finished(pool, api) == [a_bind("first"), delete]


async def test_cancelled_creations_use_no_memory() -> None:
    """Also while the API server lets none of them through."""
    api, throttle = Api(), Throttle()
    throttle.pause(WritePriority.CREATE, 60)
    pool = Pool(api.execute, Limits(), throttle=throttle)
    queue = pool._queues[WritePriority.CREATE]
    for _ in range(20):
        for number in range(100):
            pool.submit(a_create_of("given-up", "ns", number))
        pool.submit(CancelCreations(AppId("given-up")))
    assert not queue
    assert pool.depths()["writes"] == 0


async def test_queued_creations_are_dropped_when_their_session_ends() -> None:
    api = Api()
    async with a_pool(api, Limits(writers=1)) as pool:
        pool.submit(a_delete("p"))
        await asyncio.sleep(0.01)
        pool.submit(a_create())
        pool.cancel_binds()
        assert await finished(pool, api) == [a_delete("p")]


def noted(namespace: str, number: int) -> PostEvent:
    return structs.replace(
        an_event(f"{number}", name=f"p{number}", importance=Importance.PROGRESS), namespace=namespace
    )


def test_a_noisy_namespace_does_not_evict_events_of_others_from_a_full_buffer() -> None:
    buffer = EventBuffer(100, lambda: None)
    for number in range(10):
        buffer.put(noted("quiet", number), float(number))
    for number in range(1000):
        buffer.put(noted("noisy", number), float(number))
    assert len(buffer) == 100
    taken = list(iter(buffer.take, None))
    theirs = [place for place, event in enumerate(taken) if event.namespace == "quiet"]
    assert len(theirs) == 10
    assert max(theirs) <= 20
    assert [event.note for event in taken if event.namespace == "noisy"][-1] == "999"


def test_a_buffer_that_was_full_and_empty_drops_from_the_namespace_with_most_events() -> None:
    dropped: list[int] = []
    buffer = EventBuffer(4, lambda: dropped.append(len(buffer)))
    for number in range(5):
        buffer.put(noted("a", number), float(number))
    while buffer.take() is not None:
        pass
    for namespace, number in (("b", 0), ("a", 1), ("b", 2), ("b", 3), ("a", 4)):
        buffer.put(noted(namespace, number), float(number))
    left = [event.namespace for _ in range(4) if (event := buffer.take()) is not None]
    assert (sorted(left), len(dropped)) == (["a", "a", "b", "b"], 2)


@pytest.mark.parametrize("command", [a_bind(), a_condition(), a_create(), a_delete()])
def test_a_queued_write_has_the_key_priority_and_namespace_of_its_command(command: Command) -> None:
    job = write_queue._job(command)
    expected = (key_of(command), write_priority_of(command), namespace_of(command))
    assert (job.key, job.write_priority, job.namespace) == expected


def test_dropping_the_writes_of_an_unknown_pod_changes_nothing() -> None:
    pool = Pool(Api().execute, Limits())
    pool.submit(a_bind("p"))
    pool._drop("ns/other", lambda job: True)
    assert pool.depths()["writes"] == 1


async def test_events_of_a_standby_are_not_posted_when_it_becomes_the_leader() -> None:
    api = Api()
    pool = Pool(api.execute, Limits(quiet_s=0.0))
    pool.submit(an_event("configuration rejected"))
    assert pool.depths()["events"] == 1
    task = asyncio.create_task(pool.run([an_event("leads now")]))
    await asyncio.sleep(0)
    assert [command.note for command in await finished(pool, api) if isinstance(command, PostEvent)] == ["leads now"]
    task.cancel()


async def test_a_repetition_is_carried_out_only_if_the_command_is_neither_queued_nor_in_flight() -> None:
    api, repairs = Api(), list[Command]()
    async with a_pool(api, Limits(writers=1)) as pool:
        pool.on_repair = repairs.append
        pool.submit(a_bind("p"))
        pool.submit(a_bind("q"))
        await asyncio.sleep(0)
        for name in ("p", "q", "r"):
            pool.submit(Repeat(a_bind(name)))
        assert await finished(pool, api) == [a_bind("p"), a_bind("q"), a_bind("r")]
    assert repairs == [a_bind("r")]
