"""A new configuration by UpdateConfiguration: put in force, or refused and said; partitions and groups go with it."""

import asyncio
import threading

import pytest

from muster_core.edge.groups.answers import Answer
from muster_core.edge.groups.lookup import Groups
from muster_core.edge.loop import LoopSettings
from muster_core.edge.scheduler import Scheduler
from muster_core.model.config import GroupResolver
from muster_core.model.ids import ApplicationId, partition_id
from muster_si import muster_pb2, si_pb2
from muster_si.errors import Refused
from tests.unit.core.edge import messages as m
from tests.unit.core.edge.conftest import Bench, Clock, Notebook

ONE = "partitions: [{name: default, queues: [{name: a, submitacl: '*'}]}]"
TWO = "partitions: [{queues: [{name: a, submitacl: '*'}]}, {name: gpu, queues: [{name: a, submitacl: '*'}]}]"
LDAP = "partitions: [{queues: [{name: a, submitacl: '*'}], usergroupresolver: {type: ldap}}]"


def update(text: str) -> si_pb2.UpdateConfigurationRequest:
    return si_pb2.UpdateConfigurationRequest(rmID=m.RM, config=text)


def rejected(bench: Bench) -> dict[str, str]:
    answers = [item for item in bench.rm.heard if isinstance(item, si_pb2.ApplicationResponse)]
    return {one.applicationID: one.reason for answer in answers for one in answer.rejected}


def said(bench: Bench) -> list[str]:
    callbacks = [item for item in bench.rm.heard if isinstance(item, muster_pb2.Callback)]
    return [record.message for callback in callbacks for record in callback.events.events]


async def submit(bench: Bench, name: str, **fields: object) -> None:
    defaults: dict[str, object] = {"queueName": "root.a", "tags": {}}
    await bench.core.update_application(m.applications(m.an_application(name, **defaults | fields)))
    await bench.settle()


async def test_a_bad_configuration_leaves_the_old_one_in_force_and_that_is_said(bench: Bench) -> None:
    await bench.register(**{"queues.yaml": ONE})
    with pytest.raises(Refused, match=r"'b\.c' is not a queue name"):
        await bench.core.update_configuration(update("partitions: [{queues: [{name: b.c}]}]"))
    await bench.settle()
    [message] = said(bench)
    assert message.startswith("the new configuration is refused, the one before stays in force: ")
    assert "b.c" in message
    await submit(bench, "one")
    assert rejected(bench) == {}
    assert bench.core.outlet.sessions[m.RM].config_text == ONE


async def test_a_partition_that_comes_is_known_and_one_that_goes_is_refused_with_a_reason(bench: Bench) -> None:
    await bench.register(**{"queues.yaml": ONE})
    await submit(bench, "early", partitionName="gpu")
    await bench.core.update_configuration(update(TWO))
    await submit(bench, "there", partitionName="gpu")
    gpu = bench.core.loop.world.partitions[partition_id(m.RM, "gpu")]
    assert list(gpu.applications) == [ApplicationId("there")]
    await bench.core.update_configuration(update(ONE))
    await submit(bench, "late", partitionName="gpu")
    assert "is not known" in rejected(bench)["early"]
    assert "is not configured any more" in rejected(bench)["late"]
    assert set(rejected(bench)) == {"early", "late"}


async def test_groups_are_found_before_the_world_hears_and_later_messages_wait() -> None:
    turn = threading.Event()

    def slow(user: str) -> Answer:
        turn.wait(10)
        return Answer(("dev", user))

    core = Scheduler(LoopSettings(), Clock(), groups=Groups({GroupResolver.LDAP: slow}, patience_s=10))
    task = asyncio.create_task(core.run())
    bench = Bench(core, Clock(), Notebook())
    await bench.register(**{"queues.yaml": LDAP})
    nobody = si_pb2.UserGroupInformation(user="kim")
    added = m.applications(m.an_application("one", queueName="root.a", ugi=nobody))
    removed = si_pb2.ApplicationRequest(
        rmID=m.RM, remove=[si_pb2.RemoveApplicationRequest(applicationID="one", partitionName="default")]
    )
    calls = [asyncio.create_task(core.update_application(message)) for message in (added, removed)]
    await asyncio.sleep(0)
    turn.set()
    await asyncio.gather(*calls)
    await bench.settle()
    [partition] = core.loop.world.partitions.values()
    assert not partition.applications
    [gone] = partition.history
    assert gone.spec.groups == ("dev", "kim")
    core.close()
    await task


async def test_a_changed_resolver_counts_from_the_next_application_on(bench: Bench) -> None:
    await bench.register(**{"queues.yaml": ONE})
    plain = si_pb2.UserGroupInformation(user="kim")
    await submit(bench, "one", ugi=plain)
    await bench.core.update_configuration(update(LDAP.replace("ldap", "test")))
    await submit(bench, "two", ugi=plain)
    [partition] = bench.core.loop.world.partitions.values()
    groups = {name: app.spec.groups for name, app in partition.applications.items()}
    assert groups == {"one": ("kim",), "two": ("kim", "testgroup")}
