"""A new configuration by UpdateConfiguration: put in force, or refused and said; partitions and groups go with it."""

import asyncio
import threading
from collections.abc import Mapping

import pytest

from muster_core.model.config import GroupResolver, GroupsAnswer
from muster_core.model.ids import ApplicationId, partition_id
from muster_core.runtime.loop import LoopSettings
from muster_core.runtime.service import Scheduler
from muster_core.runtime.user_groups import Groups
from muster_si import keys, muster_pb2, si_pb2
from muster_si.errors import Refused
from tests.unit.core import messages
from tests.unit.core.conftest import Bench, FakeClock, Notebook

ONE = "partitions: [{name: default, queues: [{name: a, submitacl: '*'}]}]"
TWO = "partitions: [{queues: [{name: a, submitacl: '*'}]}, {name: gpu, queues: [{name: a, submitacl: '*'}]}]"
LDAP = "partitions: [{queues: [{name: a, submitacl: '*'}], usergroupresolver: {type: ldap}}]"


def update(text: str, extra: Mapping[str, str] | None = None) -> si_pb2.UpdateConfigurationRequest:
    return si_pb2.UpdateConfigurationRequest(rmID=messages.RM, config=text, extraConfig=extra)


GROUPS = """
partitions:
  - usergroupresolver: {type: ldap}
    placementrules: [{name: provided, filter: {type: deny, groups: [contractors]}}]
    queues: [{name: a, submitacl: '*'}]
"""


def rejected(bench: Bench) -> dict[str, str]:
    answers = [item for item in bench.rm.received if isinstance(item, si_pb2.ApplicationResponse)]
    return {one.applicationID: one.reason for answer in answers for one in answer.rejected}


def effects(bench: Bench) -> list[str]:
    callbacks = [item for item in bench.rm.received if isinstance(item, muster_pb2.Callback)]
    return [record.message for callback in callbacks for record in callback.events.events]


async def submit(bench: Bench, name: str, **fields: object) -> None:
    defaults: dict[str, object] = {"queueName": "root.a", "tags": {}}
    await bench.core.update_application(messages.applications(messages.an_application(name, **defaults | fields)))
    await bench.wait_until_idle()


async def test_an_invalid_configuration_is_reported_and_the_old_one_stays_active(bench: Bench) -> None:
    await bench.register(**{"queues.yaml": ONE})
    with pytest.raises(Refused, match=r"'b\.c' is not a queue name"):
        await bench.core.update_configuration(update("partitions: [{queues: [{name: b.c}]}]"))
    await bench.wait_until_idle()
    [message] = effects(bench)
    assert message.startswith("the new queues are rejected, the previous ones remain active: ")
    assert "b.c" in message
    await submit(bench, "one")
    assert rejected(bench) == {}
    assert bench.core.dispatcher.sessions[messages.RM].loaded.text == ONE


SHORT = {keys.EXTRA_PLACEHOLDER_TIMEOUT: "7s", "event.maxStreams": "3"}


async def in_force(bench: Bench) -> tuple[float, int]:
    """The placeholder timeout in seconds, and the value of `event.maxStreams`."""
    await bench.wait_until_idle()
    [manager] = bench.core.loop.scheduler_state.managers.values()
    return manager.configuration.timing.placeholder_timeout_ns / 1e9, bench.core.dispatcher.settings.most_streams


@pytest.mark.parametrize("text", ["", "  \n", "# nothing\n---\n"])
async def test_an_empty_file_keeps_the_active_queues_and_the_settings_next_to_it_apply(bench: Bench, text: str) -> None:
    await bench.register(**{"queues.yaml": ONE})
    await bench.core.update_configuration(update(text, SHORT))
    assert await in_force(bench) == (7.0, 3)
    assert effects(bench) == ["queues.yaml is empty or missing: the active queues stay"]
    await submit(bench, "none", queueName="root.other", tags={"namespace": "ns"})
    assert "root.other" in rejected(bench)["none"]
    session = bench.core.dispatcher.sessions[messages.RM]
    assert (session.loaded.text, session.loaded.extra) == (ONE, SHORT)


async def test_settings_apply_although_the_queues_next_to_them_are_rejected(bench: Bench) -> None:
    await bench.register(**{"queues.yaml": ONE})
    with pytest.raises(Refused, match=r"config: queues\.yaml:1: .*'b\.c' is not a queue name"):
        await bench.core.update_configuration(update("partitions: [{queues: [{name: b.c}]}]", SHORT))
    assert await in_force(bench) == (7.0, 3)
    await submit(bench, "one")
    assert rejected(bench) == {}


async def test_queues_apply_although_the_settings_next_to_them_are_rejected(bench: Bench) -> None:
    await bench.register(**{"queues.yaml": ONE})
    await bench.core.update_configuration(update(ONE, SHORT))
    with pytest.raises(Refused, match=rf"config: {keys.EXTRA_PLACEHOLDER_TIMEOUT}: 'soon' is not a duration"):
        await bench.core.update_configuration(
            update(ONE.replace("name: a", "name: b"), {keys.EXTRA_PLACEHOLDER_TIMEOUT: "soon"})
        )
    assert await in_force(bench) == (7.0, 3)
    [message] = effects(bench)
    assert message.startswith("the new settings are rejected, the previous ones remain active: ")
    await submit(bench, "one", queueName="root.b")
    assert rejected(bench) == {}


async def test_an_empty_file_is_accepted_when_no_configuration_is_active(bench: Bench) -> None:
    await bench.register()
    await bench.core.update_configuration(update(""))
    await bench.core.update_configuration(update(ONE))
    await submit(bench, "one")
    assert rejected(bench) == {}


async def test_an_added_partition_is_usable_and_a_removed_one_is_rejected_with_a_reason(bench: Bench) -> None:
    await bench.register(**{"queues.yaml": ONE})
    await submit(bench, "early", partitionName="gpu")
    await bench.core.update_configuration(update(TWO))
    await submit(bench, "there", partitionName="gpu")
    gpu = bench.core.loop.scheduler_state.partitions[partition_id(messages.RM, "gpu")]
    assert list(gpu.applications) == [ApplicationId("there")]
    await bench.core.update_configuration(update(ONE))
    await submit(bench, "late", partitionName="gpu")
    assert "is not known" in rejected(bench)["early"]
    assert "is no longer configured" in rejected(bench)["late"]
    assert set(rejected(bench)) == {"early", "late"}


async def test_groups_are_resolved_before_scheduling_and_later_messages_wait() -> None:
    turn = threading.Event()

    def slow(user: str) -> GroupsAnswer:
        turn.wait(10)
        return GroupsAnswer(("dev", user))

    core = Scheduler(LoopSettings(), FakeClock(), groups=Groups({GroupResolver.LDAP: slow}, timeout_s=10))
    task = asyncio.create_task(core.run())
    bench = Bench(core, FakeClock(), Notebook())
    await bench.register(**{"queues.yaml": LDAP})
    nobody = si_pb2.UserGroupInformation(user="kim")
    added = messages.applications(messages.an_application("one", queueName="root.a", ugi=nobody))
    removed = si_pb2.ApplicationRequest(
        rmID=messages.RM, remove=[si_pb2.RemoveApplicationRequest(applicationID="one", partitionName="default")]
    )
    calls = [asyncio.create_task(core.update_application(message)) for message in (added, removed)]
    await asyncio.sleep(0)
    turn.set()
    await asyncio.gather(*calls)
    await bench.wait_until_idle()
    [partition] = core.loop.scheduler_state.partitions.values()
    [gone] = partition.applications.values()
    assert gone.removed
    assert gone.spec.groups == ("dev", "kim")
    core.close()
    await task


async def test_a_changed_resolver_counts_from_the_next_application_on(bench: Bench) -> None:
    await bench.register(**{"queues.yaml": ONE})
    plain = si_pb2.UserGroupInformation(user="kim")
    await submit(bench, "one", ugi=plain)
    testing = update(LDAP.replace("ldap", "test"))
    testing.extraConfig[keys.EXTRA_TEST_GROUPS] = "true"
    await bench.core.update_configuration(testing)
    await submit(bench, "two", ugi=plain)
    [partition] = bench.core.loop.scheduler_state.partitions.values()
    groups = {name: app.spec.groups for name, app in partition.applications.items()}
    assert groups == {"one": ("kim",), "two": ("kim", "testgroup")}


async def test_an_application_waits_for_a_directory_that_is_down_and_continues_when_it_is_back() -> None:
    is_down = True

    def directory(user: str) -> GroupsAnswer:
        return (
            GroupsAnswer(problem="down", is_silent=True)
            if is_down
            else GroupsAnswer(("contractors" if user == "kim" else "dev",))
        )

    time = FakeClock()
    groups = Groups({GroupResolver.LDAP: directory}, now_s=lambda: time() / 1e9, retry_s=0.0)
    core = Scheduler(LoopSettings(), time, groups=groups)
    task = asyncio.create_task(core.run())
    bench = Bench(core, time, Notebook())
    try:
        await bench.register(**{"queues.yaml": GROUPS})
        for name in ("kim", "ann"):
            await submit(bench, f"of-{name}", ugi=si_pb2.UserGroupInformation(user=name))
        [partition] = core.loop.scheduler_state.partitions.values()
        assert set(partition.undecided) == {"of-kim", "of-ann"}
        assert not partition.applications
        is_down = False
        time.now += 60_000_000_000  # a recently failed directory is not queried
        await bench.rm.until(lambda: bool(rejected(bench)) and bool(partition.applications))
        assert set(partition.applications) == {"of-ann"}
        assert "its filter excludes user kim" in rejected(bench)["of-kim"]
    finally:
        core.close()
        await task


# -- A long configuration is parsed outside of the loop; later messages of its sender are processed after it.


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
