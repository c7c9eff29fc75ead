"""Calls that only the first version of the Scheduler Interface has, over both transports: placement constraints,
utilization, recommendations and services."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from muster_core.model.ids import ApplicationId, NodeId, RmId, partition_id
from muster_core.model.resources import Resources
from muster_core.runtime.service import Administration
from muster_si import keys, muster_pb2
from muster_si.api import AdministrationAPI
from muster_si.errors import RefusalCode, Refused, SessionLost
from muster_si.transport.administration import AdministrationClient
from tests.unit.contract.cores import RM, CoreWire, Talk, a_core_wire, a_resource
from tests.unit.contract.peers import SETTINGS

GRPC = "grpc"
FEW_CORES = """
partitions:
- name: default
  queues:
  - name: root
    submitacl: "*"
    queues:
    - name: default
      resources: {max: {vcore: 1}}
"""


@pytest.fixture
async def admin(
    core_wire: CoreWire, request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[AdministrationAPI]:
    """The administration API: in-process the core's own, else over the socket."""
    if request.node.callspec.params["core_wire"] != GRPC:
        yield Administration(core_wire.core)
        return
    client = AdministrationClient(f"unix://{tmp_path}/core.sock")
    yield client
    await client.aclose()


def constraint(**parts: Any) -> dict[str, str]:
    return {keys.TAG_PLACEMENT: orjson.dumps({"simpleConstraint": parts}).decode()}


def one_a_host(tag: str, value: str) -> dict[str, Any]:
    target = {"targetOperator": "IN", "targetKey": tag, "targetValues": [value]}
    return {"scope": "si/hostname", "tragetExpressions": [target], "maxCardinality": 1, "required": True}


async def a_running(talk: Talk, *nodes: str) -> None:
    for name in nodes:
        await talk.node(name, attributes={"si/zone": f"zone-of-{name}"})
    await talk.application()
    await talk.accepted()


# -- PlacementConstraint, maxAllocations ----------------------------------------------


async def test_constraints_of_a_manager_without_kubernetes_are_applied(talk: Talk) -> None:
    await a_running(talk, "n1", "n2")
    zone = {"targetExpressions": [{"targetKey": "si/zone", "targetValues": ["zone-of-n2"]}]}
    await talk.ask("here", tags=constraint(nodeAffinityConstraint=zone))
    apart = constraint(allocationAffinityAttribute=one_a_host("role", "web")) | {"role": "web"}
    await talk.ask("w1", tags=apart)
    await talk.ask("w2", tags=apart)
    found = {one.allocationKey: one.nodeID for one in await talk.allocated("here", "w1", "w2")}
    assert found["here"] == "n2"
    assert {found["w1"], found["w2"]} == {"n1", "n2"}


async def test_an_invalid_constraint_is_rejected_with_its_reason(talk: Talk) -> None:
    await a_running(talk, "n1")
    await talk.ask("odd", tags=constraint(nodeAffinityConstraint={"targetExpressions": [{"targetKey": "a"}]}))
    refused = await talk.refused()
    assert (refused.allocationKey, refused.applicationID) == ("odd", "app")
    assert refused.reason == (
        "muster/placement-constraint: simpleConstraint.nodeAffinityConstraint.targetExpressions[0] is wrong:"
        " targetValues do not go with IN"
    )


async def test_an_ask_for_three_allocations_gets_one_key_and_releases_them_one_by_one(talk: Talk) -> None:
    await a_running(talk, "n1")
    await talk.ask("many", maxAllocations=3, tags={"role": "web"})
    await talk.rm.allocations.until(lambda _: len(talk.allocations()) == 3)
    found = talk.allocations()
    assert {one.allocationKey for one in found} == {"many"}
    assert len({one.allocationID for one in found}) == 3
    assert all(one.allocationTags == {"role": "web"} for one in found)
    await talk.release("many", allocationID=found[1].allocationID)
    assert [one.allocationID for one in await talk.released(1)] == [found[1].allocationID]
    await talk.release("many")
    assert {one.allocationID for one in (await talk.released(3))[1:]} == {found[0].allocationID, found[2].allocationID}


# -- UtilizationReport, NodeRecommendation ---------------------------------------------


async def test_valid_utilization_reports_are_stored_and_invalid_ones_are_returned(
    core_wire: CoreWire, talk: Talk
) -> None:
    await a_running(talk, "n1")
    await talk.ask("a")
    [allocation] = await talk.allocated("a")
    report = muster_pb2.UtilizationReport
    answer = await talk.client.update_utilization(
        muster_pb2.UtilizationRequest(
            rmID=RM,
            reports=[
                report(ID="n1", actualUsedResource=a_resource({"vcore": 700})),
                report(ID=allocation.allocationID, applicationID="app", actualUsedResource=a_resource({"vcore": 300})),
                report(ID="n1", actualUsedResource=a_resource({"vcore": -1})),
                report(ID="n1", partitionName="moon"),
                report(ID="unknown"),
            ],
        )
    )
    assert [(one.ID, one.reason) for one in answer.rejected] == [
        ("n1", "actualUsedResource: vcore is negative: -1"),
        ("n1", "partitionName is not known: 'moon'"),
    ]
    await talk.barrier()
    scheduler_state = core_wire.core.loop.scheduler_state
    partition = scheduler_state.partitions[partition_id(RmId(RM), "default")]
    assert partition.nodes.record(NodeId("n1")).utilization == Resources({"vcore": 700})
    [kept] = partition.applications[ApplicationId("app")].allocations.values()
    assert kept.utilization == Resources({"vcore": 300})
    assert scheduler_state.ignored["utilization of an unknown node"] == 1


async def test_utilization_reports_of_another_manager_are_rejected(talk: Talk) -> None:
    with pytest.raises((Refused, SessionLost)):
        await talk.client.update_utilization(muster_pb2.UtilizationRequest(rmID="other"))


async def test_a_node_that_repeatedly_rejects_binds_is_recommended_to_the_manager(talk: Talk) -> None:
    await a_running(talk, "n1")
    await talk.ask("a", "b", "c", tags={keys.TAG_AVOID_NODES: "n1"})
    callbacks = await talk.rm.callbacks.until(
        lambda items: any(item.WhichOneof("kind") == "nodeRecommendations" for item in items)
    )
    [found] = next(
        item.nodeRecommendations for item in callbacks if item.HasField("nodeRecommendations")
    ).recommendations
    assert found.nodeID == "n1"
    assert found.message.startswith("3 pods could not be bound to this node")
    assert not found.recommendedSchedulableResource.resources


# -- AdminService, MetricsService ------------------------------------------------------


async def test_updating_the_configuration_returns_the_old_one(talk: Talk, admin: AdministrationAPI) -> None:
    answer = await admin.update_config(muster_pb2.UpdateConfigRequest(config=FEW_CORES))
    assert (answer.success, answer.oldConfig, answer.reason) == (True, "", "")
    await a_running(talk, "n1")
    await talk.ask("a", vcore=1000)
    await talk.allocated("a")
    await talk.ask("b", vcore=1000)
    again = await admin.update_config(muster_pb2.UpdateConfigRequest(rmID=RM, config="partitions: 7"))
    assert (again.success, again.oldConfig) == (False, FEW_CORES)
    assert "partitions" in again.reason
    await talk.barrier()
    assert [one.allocationKey for one in talk.allocations()] == ["a"]


@pytest.mark.parametrize("named", ["", "nobody"])
async def test_a_configuration_for_an_unknown_manager_is_rejected(named: str, admin: AdministrationAPI) -> None:
    with pytest.raises(Refused) as refused:
        await admin.update_config(muster_pb2.UpdateConfigRequest(rmID=named, config=FEW_CORES))
    assert refused.value.code is (RefusalCode.NOT_FOUND if named else RefusalCode.INVALID_ARGUMENT)


async def test_a_configuration_is_validated_without_a_manager_and_changes_nothing(admin: AdministrationAPI) -> None:
    good = await admin.validate_configuration(muster_pb2.ValidateConfigurationRequest(config=FEW_CORES))
    default = await admin.validate_configuration(muster_pb2.ValidateConfigurationRequest())
    assert not good.findings
    assert not default.findings
    ask = muster_pb2.ValidateConfigurationRequest(
        config="partitions: 7", extraConfig={keys.EXTRA_PLACEHOLDER_TIMEOUT: "soon"}
    )
    bad = await admin.validate_configuration(ask)
    assert len(bad.findings) == 2
    assert "queues.yaml:1" in bad.findings[0]
    assert "soon" in bad.findings[1]
    named = muster_pb2.ValidateConfigurationRequest(
        config="partitions: 7", extraConfig={"service.policyGroup": "rules"}
    )
    assert (await admin.validate_configuration(named)).findings[0].startswith("rules.yaml:1: ")
    state = await admin.scheduler_state(muster_pb2.SchedulerStateRequest())
    assert not state.managers


async def test_the_state_shows_managers_and_partitions_with_counts(talk: Talk, admin: AdministrationAPI) -> None:
    await a_running(talk, "n1")
    await talk.ask("a", "b", vcore=3000)
    await talk.allocated("a")
    state = await admin.scheduler_state(muster_pb2.SchedulerStateRequest(rmID=RM))
    [manager], [partition] = state.managers, state.partitions
    assert (manager.rmID, manager.state, manager.recovering) == (RM, "running", False)
    assert (partition.partitionName, partition.nodes, partition.applications) == ("default", 1, 1)
    assert (partition.allocations, partition.waitingAsks) == (1, 1)
    assert partition.allocated.resources["vcore"].value == 3000
    assert partition.pending.resources["vcore"].value == 3000
    assert partition.capacity.resources["vcore"].value == 4000
    with pytest.raises(Refused, match="not registered"):
        await admin.scheduler_state(muster_pb2.SchedulerStateRequest(rmID="nobody"))


async def test_requests_that_wait_for_nodes_are_reported_to_autoscalers(talk: Talk, admin: AdministrationAPI) -> None:
    await a_running(talk, "n1")
    await talk.ask("a", "b", "c", vcore=3000)
    await talk.allocated("a")
    await talk.barrier()
    found = await admin.autoscaling_metrics(muster_pb2.AutoScalingMetricsRequest(partitionName="default"))
    [one] = found.outstandingRequests
    assert one.requestID == "[rm]default/pods=1,vcore=3000"
    assert one.resource.resources["vcore"].value == 3000
    assert dict(one.tags) == {"partition": "default", "count": "2", "applications": "1"}
    other = await admin.autoscaling_metrics(muster_pb2.AutoScalingMetricsRequest(rmID="other"))
    assert not other.outstandingRequests


async def test_an_administration_call_without_a_scheduler_times_out(tmp_path: Path) -> None:
    client = AdministrationClient(f"unix://{tmp_path}/nothing.sock", settings=replace(SETTINGS, question_timeout_s=0.2))
    with pytest.raises(SessionLost, match=r"no scheduler answered within 0\.2 s"):
        await client.scheduler_state(muster_pb2.SchedulerStateRequest())
    await client.aclose()


async def test_an_administration_call_waits_for_a_starting_scheduler(tmp_path: Path) -> None:
    client = AdministrationClient(f"unix://{tmp_path}/core.sock", settings=replace(SETTINGS, question_timeout_s=10.0))
    early = asyncio.create_task(client.scheduler_state(muster_pb2.SchedulerStateRequest()))
    refused, _ = await asyncio.wait([early], timeout=0.3)
    assert not refused, "nobody listens yet"
    async with a_core_wire(GRPC, tmp_path):
        assert await early == await client.scheduler_state(muster_pb2.SchedulerStateRequest())
    await client.aclose()


# -- several resource managers -----------------------------------------------------------


async def test_two_managers_can_use_the_same_names(core_wire: CoreWire, talk: Talk) -> None:
    second = Talk(core_wire.connect(), rm_id="second")
    await second.register()
    for one in (talk, second):
        await a_running(one, "n1")
        await one.ask("a", vcore=4000)
        [found] = await one.allocated("a")
        assert found.nodeID == "n1"
    await second.node("n1", "DECOMISSION")
    assert len(await second.released(1)) == 1
    await talk.barrier()
    assert talk.releases() == []
