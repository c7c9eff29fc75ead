"""A ConfigMap is stored only if the resulting configuration is valid for the operator's parser and the core."""

import asyncio
import base64
import gzip
from collections.abc import Mapping
from typing import Any

import pytest

from muster_operator.config.settings import Configuration, parse
from muster_operator.webhook.cluster import ConfigurationCheck
from muster_operator.webhook.context import MOST_WARNINGS, WARNING_LIMIT, AdmissionAnswer, Operation, Review, Submitter
from muster_si import muster_pb2
from muster_si.errors import SessionLost
from tests.unit.operator.webhook.cluster_peer import Peer, a_session

CONFIG_MAPS = "/api/v1/namespaces/muster/configmaps"
RUN_AS_USER = "service.placeholderRunAsUser"
Recorded = muster_pb2.ValidateConfigurationResponse


class Core:
    """The other side of the wire, which is tested where both sides may be imported (tests/unit/contract)."""

    def __init__(self, recorded: Recorded | Exception | None = None) -> None:
        self.recorded, self.asked = recorded, list[muster_pb2.ValidateConfigurationRequest]()

    async def validate_configuration(self, request: muster_pb2.ValidateConfigurationRequest) -> Recorded:
        self.asked.append(request)
        if isinstance(self.recorded, Exception):
            raise self.recorded
        return self.recorded or Recorded()

    async def update_config(self, request: muster_pb2.UpdateConfigRequest) -> muster_pb2.UpdateConfigResponse:
        raise NotImplementedError

    async def scheduler_state(self, request: muster_pb2.SchedulerStateRequest) -> muster_pb2.SchedulerState:
        raise NotImplementedError

    async def autoscaling_metrics(self, request: muster_pb2.AutoScalingMetricsRequest) -> muster_pb2.AutoScalingMetrics:
        raise NotImplementedError


def a_config_map(name: str, entries: Mapping[str, str], packed: Mapping[str, str] | None = None) -> dict[str, Any]:
    binary = {
        f"{key}.gz": base64.b64encode(gzip.compress(text.encode())).decode() for key, text in (packed or {}).items()
    }
    return {"kind": "ConfigMap", "metadata": {"name": name}, "data": dict(entries), "binaryData": binary}


async def validated(
    new: dict[str, Any],
    core: Core,
    existing: tuple[dict[str, Any], ...] = (),
    *,
    namespace: str = "muster",
    present: Configuration | None = None,
) -> AdmissionAnswer:
    """The answer for a ConfigMap, with these existing ones."""
    peer = Peer()
    for one in existing:
        peer.put(f"{CONFIG_MAPS}/{one['metadata']['name']}", one)
    review = Review(Operation.UPDATE, "ConfigMap", namespace, new["metadata"]["name"], Submitter("ann"), new)
    async with a_session(peer) as session:
        check = ConfigurationCheck(session, "muster", core, lambda: present or parse({}), core_s=0.2)
        return await check.answer(review)


async def test_the_core_validates_the_resulting_configuration() -> None:
    core = Core()
    defaults = a_config_map("muster-defaults", {"queues.yaml": "old", "placeholderTimeout": "1s", RUN_AS_USER: "7"})
    new = a_config_map("muster-configs", {RUN_AS_USER: "8"}, {"queues.yaml": "packed"})
    assert (await validated(new, core, (defaults,))).is_allowed
    [asked] = core.asked
    assert asked.config == "packed"
    assert asked.extraConfig[RUN_AS_USER] == "8"


async def test_a_rejection_contains_the_findings_of_the_core() -> None:
    core = Core(Recorded(findings=["queues.yaml:4: one", "queues.yaml:9: two"]))
    answer = await validated(a_config_map("muster-configs", {"queues.yaml": "x"}), core)
    assert answer.refusal == "queues.yaml:4: one; queues.yaml:9: two"


async def test_an_invalid_value_is_rejected_also_without_a_core() -> None:
    for core in (Core(), Core(SessionLost("nobody there"))):
        answer = await validated(a_config_map("muster-configs", {RUN_AS_USER: "root"}), core)
        assert RUN_AS_USER in answer.refusal
        slip = "admissionController.filtering.processNamespaces"
        answer = await validated(a_config_map("muster-configs", {slip: "^team-,dev("}), core)
        assert answer.refusal.startswith(f'{slip} = "dev(" is no regular expression')
        assert core.asked == []


@pytest.mark.parametrize("trouble", [SessionLost("nobody there"), TimeoutError()])
async def test_a_configuration_is_accepted_with_a_warning_without_the_core(trouble: Exception) -> None:
    answer = await validated(a_config_map("muster-configs", {"queues.yaml": "x"}), Core(trouble))
    assert answer.is_allowed
    assert "queues.yaml" in answer.warnings[0]


async def test_warnings_are_returned_to_the_user_up_to_a_limit() -> None:
    core = Core(Recorded(warnings=["w" * 1000]))
    entries = {f"service.nonsense{number}": "x" for number in range(50)}
    answer = await validated(a_config_map("muster-configs", entries | {"service.clusterId": "other"}), core)
    assert answer.is_allowed
    assert len(answer.warnings) == MOST_WARNINGS
    assert all(len(warning) <= WARNING_LIMIT for warning in answer.warnings)
    restart = await validated(a_config_map("muster-configs", {"service.clusterId": "other"}), Core())
    assert restart.warnings[0].startswith("service.clusterId = other takes effect after a restart")


async def test_yunikorn_config_maps_are_validated_if_in_force_and_else_get_a_warning() -> None:
    new = a_config_map("yunikorn-configs", {RUN_AS_USER: "root"})
    assert not (await validated(new, Core())).is_allowed
    beside = await validated(new, Core(), (a_config_map("muster-defaults", {}),))
    assert beside.is_allowed
    assert "is not used" in beside.warnings[0]


async def test_the_policy_group_in_force_picks_the_queues() -> None:
    core = Core()
    new = a_config_map("muster-configs", {"queues.yaml": "q", "teams.yaml": "t", "service.policyGroup": "queues"})
    await validated(new, core, present=parse({"service.policyGroup": "teams"}))
    assert [asked.config for asked in core.asked] == ["t"]


@pytest.mark.parametrize("name, namespace", [("other", "muster"), ("muster-configs", "elsewhere")])
async def test_other_config_maps_are_ignored(name: str, namespace: str) -> None:
    core = Core()
    assert await validated(a_config_map(name, {RUN_AS_USER: "root"}), core, namespace=namespace) == AdmissionAnswer()
    assert core.asked == []


async def test_a_slow_core_gives_a_warning_before_the_api_server_times_out() -> None:
    class Slow(Core):
        async def validate_configuration(self, request: muster_pb2.ValidateConfigurationRequest) -> Recorded:
            await asyncio.Event().wait()
            raise AssertionError

    answer = await validated(a_config_map("muster-configs", {"queues.yaml": "x"}), Slow())
    assert answer.is_allowed
    assert "no answer in" in answer.warnings[0]
