"""A long configuration is parsed outside of the loop; later messages of its sender are processed after it."""

import asyncio

from muster_si import si_pb2
from tests.unit.core import messages
from tests.unit.core.conftest import Bench, Notebook


def an_update(queues: int, last: str) -> si_pb2.UpdateConfigurationRequest:
    """A configuration with this number of queues, and one with a name."""
    names = [*(f"q{number}" for number in range(queues)), last]
    tree = ", ".join(f"{{name: {name}, resources: {{max: {{vcore: 1}}}}}}" for name in names)
    text = f"partitions: [{{queues: [{{name: root, submitacl: '*', queues: [{tree}]}}]}}]"
    return si_pb2.UpdateConfigurationRequest(rmID=messages.RM, config=text)


def names(bench: Bench) -> set[str]:
    [partition] = bench.core.loop.scheduler_state.partitions.values()
    return set(partition.queues.by_path)


async def test_other_tasks_run_while_a_configuration_is_parsed(bench: Bench) -> None:
    await bench.register()
    task = asyncio.create_task(bench.core.update_configuration(an_update(1_000, "last")))
    turns = 0
    while not task.done():
        turns += 1
        await asyncio.sleep(0)
    await task
    await bench.wait_until_idle()
    assert "root.last" in names(bench)
    assert turns > 10, "read by the loop itself it has no more than a few"


async def test_the_later_of_two_updates_applies_although_it_is_shorter(bench: Bench) -> None:
    await bench.register()
    updates = (an_update(300, "earlier"), an_update(1, "later"))
    await asyncio.gather(*(bench.core.update_configuration(update) for update in updates))
    await bench.wait_until_idle()
    assert names(bench) == {"root", "root.q0", "root.later"}


async def test_an_application_sent_after_an_update_finds_the_new_queues(bench: Bench) -> None:
    await bench.register()
    update = asyncio.create_task(bench.core.update_configuration(an_update(300, "fresh")))
    await asyncio.sleep(0)
    await bench.core.update_application(messages.applications(messages.an_application(queueName="root.fresh")))
    await bench.wait_until_idle()
    await update
    [partition] = bench.core.loop.scheduler_state.partitions.values()
    assert [app.queue.path for app in partition.applications.values()] == ["root.fresh"]


def a_registration(queues: int, last: str) -> si_pb2.RegisterResourceManagerRequest:
    text = an_update(queues, last).config
    return si_pb2.RegisterResourceManagerRequest(rmID=messages.RM, version="1.0.0", config=text)


async def test_other_tasks_run_while_the_configuration_of_a_registration_is_parsed(bench: Bench) -> None:
    task = asyncio.create_task(bench.core.register_resource_manager(a_registration(1_000, "last"), bench.rm))
    turns = 0
    while not task.done():
        turns += 1
        await asyncio.sleep(0)
    await task
    await bench.wait_until_idle()
    assert "root.last" in names(bench)
    assert turns > 10


async def test_the_later_of_two_registrations_is_in_force_although_it_is_shorter(bench: Bench) -> None:
    earlier, later = Notebook(), Notebook()
    requests = (a_registration(300, "earlier"), earlier), (a_registration(1, "later"), later)
    await asyncio.gather(*(bench.core.register_resource_manager(*request) for request in requests))
    await bench.wait_until_idle()
    assert names(bench) == {"root", "root.q0", "root.later"}
    assert earlier.ends
    assert not later.ends
