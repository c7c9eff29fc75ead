"""The queue of a stream is bounded, keeps the order of waiting senders, and informs them when it closes."""

import asyncio

import pytest

from muster_si import si_pb2
from muster_si.errors import SessionLost
from muster_si.transport.batching import Parcel, parcel
from muster_si.transport.outbox import Outbox


def a_parcel(key: str, size: int = 0) -> Parcel:
    ask = si_pb2.AllocationAsk(allocationKey=key, tags={"padding": "x" * size})
    return parcel(si_pb2.AllocationRequest(rmID="rm", asks=[ask]))


def keys_in(batch: bytes | None) -> list[str]:
    assert batch is not None
    return [ask.allocationKey for ask in si_pb2.AllocationRequest.FromString(batch).asks]


def an_outbox(limit_bytes: int = 10_000) -> Outbox:
    return Outbox(limit_bytes, batch_items=200, batch_bytes=100_000)


async def run_all_tasks() -> None:
    """Let every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_message_is_taken_immediately_and_queued_messages_are_taken_together() -> None:
    outbox = an_outbox()
    taking = asyncio.create_task(outbox.take())
    await run_all_tasks()
    outbox.try_put(a_parcel("a"))
    assert keys_in(await taking) == ["a"]
    outbox.try_put(a_parcel("b"))
    outbox.try_put(a_parcel("c"))
    assert keys_in(await outbox.take()) == ["b", "c"]
    assert (outbox.taken, outbox.batches, outbox.bytes) == (3, 2, 0)


async def test_a_full_outbox_rejects_a_message_and_keeps_its_contents() -> None:
    outbox = an_outbox()
    assert outbox.try_put(a_parcel("a", 9_000))
    assert not outbox.try_put(a_parcel("b", 9_000))
    assert outbox.bytes < 10_000
    assert keys_in(await outbox.take()) == ["a"]
    assert outbox.try_put(a_parcel("b", 9_000))


async def test_empty_messages_fill_an_outbox_too() -> None:
    outbox, empty = an_outbox(), parcel(si_pb2.AllocationRequest())
    accepted = 0
    while outbox.try_put(empty):
        accepted += 1
        assert accepted < 1000
    assert accepted > 10


async def test_a_message_over_the_limit_is_accepted_by_an_empty_outbox() -> None:
    outbox = an_outbox(limit_bytes=100)
    await outbox.put(a_parcel("a", 5_000))
    assert keys_in(await outbox.take()) == ["a"]


async def test_waiting_puts_are_served_in_order() -> None:
    outbox = an_outbox()
    puts = [asyncio.create_task(outbox.put(a_parcel(str(number), 6_000))) for number in range(5)]
    await run_all_tasks()
    assert [put.done() for put in puts] == [True, False, False, False, False]
    late = asyncio.create_task(outbox.put(a_parcel("small")))
    await run_all_tasks()
    assert not late.done(), "a small message must not overtake a large one that waits"
    order: list[str] = []
    while len(order) < 6:
        order += keys_in(await outbox.take())
        await run_all_tasks()
    assert order == ["0", "1", "2", "3", "4", "small"]


async def test_a_cancelled_put_does_not_block_the_others() -> None:
    outbox = an_outbox()
    await outbox.put(a_parcel("a", 9_000))
    impatient = asyncio.create_task(outbox.put(a_parcel("b", 9_000)))
    patient = asyncio.create_task(outbox.put(a_parcel("c", 9_000)))
    await run_all_tasks()
    impatient.cancel()
    assert keys_in(await outbox.take()) == ["a"]
    await patient
    assert keys_in(await outbox.take()) == ["c"]


async def test_closing_ends_waiting_puts_with_the_reason_and_delivers_the_rest() -> None:
    outbox = an_outbox()
    await outbox.put(a_parcel("a", 9_000))
    waiting = asyncio.create_task(outbox.put(a_parcel("b", 9_000)))
    await run_all_tasks()
    outbox.close("the connection broke")
    with pytest.raises(SessionLost, match="the connection broke"):
        await waiting
    with pytest.raises(SessionLost, match="the connection broke"):
        await outbox.put(a_parcel("c"))
    assert keys_in(await outbox.take()) == ["a"]
    assert await outbox.take() is None


async def test_closing_ends_a_waiting_take() -> None:
    outbox = an_outbox()
    taking = asyncio.create_task(outbox.take())
    await run_all_tasks()
    outbox.close("done")
    assert await taking is None


async def test_a_message_count_is_converted_to_a_batch_count() -> None:
    outbox = an_outbox()
    counting = asyncio.create_task(outbox.batches_holding(3))
    for key in ("a", "b"):
        outbox.try_put(a_parcel(key))
    await outbox.take()
    await run_all_tasks()
    assert not counting.done(), "the third message was not sent yet"
    outbox.try_put(a_parcel("c"))
    await outbox.take()
    assert await counting == 2


async def test_waiting_for_a_count_ends_when_the_outbox_is_closed() -> None:
    outbox = an_outbox()
    counting = asyncio.create_task(outbox.batches_holding(1))
    await run_all_tasks()
    outbox.close("the connection broke")
    with pytest.raises(SessionLost, match="the connection broke"):
        await counting
