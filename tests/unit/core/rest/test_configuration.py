"""The configuration in force in JSON and YAML, the check of another, the level of the log."""

import io

import aiohttp
import pytest
import yaml

from muster_core.config.load import DEFAULT_TEXT, checksum
from muster_core.rest.server import RestSettings
from muster_core.runtime.log_level import LogLevel, Threshold
from muster_si import keys, si_pb2
from tests.unit.core import messages
from tests.unit.core.conftest import Bench
from tests.unit.core.rest.conftest import TRUSTING, Serve

TEXT = """\
partitions:
  - name: default
    placementrules:
      - {name: fixed, value: root.a, create: true}
    nodesortpolicy: {type: binpacking, resourceweights: {vcore: 2}}
    queues:
      - name: root
        submitacl: '*'
        queues:
          - name: a
            maxapplications: 3
            properties: {application.sort.policy: fifo}
            resources: {max: {vcore: 10}}
"""


async def register(bench: Bench, text: str = TEXT) -> None:
    request = si_pb2.RegisterResourceManagerRequest(rmID=messages.RM, version="1.0.0", config=text)
    request.extraConfig.update({"log.level": "INFO", "queues.yaml": text, keys.EXTRA_BARRIER: "true"})
    await bench.core.register_resource_manager(request, bench.rm)


async def test_json_configuration_has_yunikorn_field_names(http: aiohttp.ClientSession, bench: Bench) -> None:
    await register(bench)
    async with http.get("/ws/v1/config", headers={"Accept": "application/json"}) as answer:
        found = await answer.json()
    [partition] = found["Partitions"]
    assert partition["PlacementRules"] == [{"Name": "fixed", "Value": "root.a", "Create": True}]
    assert partition["NodeSortPolicy"] == {"Type": "binpacking", "ResourceWeights": {"vcore": 2.0}}
    [root] = partition["Queues"]
    [leaf] = root["Queues"]
    assert (root["SubmitACL"], leaf["MaxApplications"]) == ("*", 3)
    assert leaf["Properties"] == {"application.sort.policy": "fifo"}
    assert leaf["Resources"] == {"Max": {"vcore": "10"}}
    assert (found["Checksum"], found["Extra"]) == (checksum(TEXT), {"log.level": "INFO"})
    assert found["DeadlockDetectionEnabled"] is False


@pytest.mark.parametrize("accept", ["*/*", "application/json, text/plain", "application/x-yaml"])
async def test_other_accept_headers_get_yaml(http: aiohttp.ClientSession, bench: Bench, accept: str) -> None:
    await register(bench)
    async with http.get("/ws/v1/config", headers={"Accept": accept}) as answer:
        assert answer.content_type == "application/x-yaml"
        found = yaml.safe_load(await answer.text())
    assert found["partitions"][0]["placementrules"][0]["create"] is True
    assert (found["checksum"], found["extra"]) == (checksum(TEXT), {"log.level": "INFO"})


async def test_the_default_configuration_applies_if_none_was_sent(http: aiohttp.ClientSession, bench: Bench) -> None:
    async with http.get("/ws/v1/config", headers={"Accept": "application/json"}) as answer:
        assert (await answer.json())["Checksum"] == checksum(DEFAULT_TEXT)
    async with http.get("/ws/v1/config?rmId=nobody") as answer:
        assert answer.status == 404


@pytest.mark.parametrize(
    "text, allowed, reason",
    [
        (TEXT.encode(), True, None),
        (b"partitions: [{name: default, queues: [{name: 'a b'}]}]", False, "name"),
        (b"{", False, "is not YAML"),
        (b"\xff", False, "not UTF-8"),
    ],
)
async def test_validation_always_returns_a_result(
    http: aiohttp.ClientSession, text: bytes, *, allowed: bool, reason: str | None
) -> None:
    async with http.post("/ws/v1/validate-conf", data=text) as answer:
        assert answer.status == 200
        found = await answer.json()
    assert found["allowed"] is allowed
    assert (reason is None) == ("reason" not in found)
    assert reason is None or reason in found["reason"]
    if allowed:
        assert found["checksum"] == checksum(TEXT)


async def test_validation_compares_the_checksum_in_the_text(http: aiohttp.ClientSession) -> None:
    for node_reserved, matches in ((checksum(TEXT), True), ("0" * 64, False)):
        async with http.post("/ws/v1/validate-conf", data=f"{TEXT}checksum: '{node_reserved}'\n") as answer:
            assert (await answer.json())["checksumMatch"] is matches


async def test_an_oversized_body_is_rejected(http: aiohttp.ClientSession) -> None:
    async with http.post("/ws/v1/validate-conf", data=io.BytesIO(b"#" * (5 * 1024 * 1024))) as answer:
        assert answer.status == 413
        assert (await answer.json())["status_code"] == 413


async def test_the_log_level_is_read_and_set(serve: Serve) -> None:
    levels = Threshold(LogLevel.INFO)
    http = await serve(RestSettings(port=0, access=TRUSTING, levels=levels))
    path = "/ws/v1/scheduler/log-level"
    async with http.get(path) as answer:
        assert await answer.json() == {"level": "info"}
    async with http.put(path, json={"level": "warning"}) as answer:
        assert await answer.json() == {"level": "warning"}
    assert levels.level is LogLevel.WARNING
    for body in ('{"level": "loud"}', "{}", '{"level": "info", "for": "ever"}', "[]", "{"):
        async with http.put(path, data=body) as answer:
            assert answer.status == 400
    assert levels.level is LogLevel.WARNING


async def test_the_log_level_cannot_be_set_without_a_level_control(http: aiohttp.ClientSession) -> None:
    async with http.put("/ws/v1/scheduler/log-level", json={"level": "info"}) as answer:
        assert answer.status == 501
