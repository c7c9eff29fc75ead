"""The entries of ConfigMaps become settings, or one line with key, value and fix."""

import base64
import gzip
from functools import partial

import pytest

from muster_operator.config.catalog import MEANINGLESS, SETTINGS, awaiting_restart, setting_warnings
from muster_operator.config.settings import (
    UNPACKED_LIMIT,
    Configuration,
    is_yunikorns,
    merged,
    name_for_pods,
    parse,
    read_config_maps,
    source,
)
from muster_operator.kube.session import KubeSession
from muster_operator.model.errors import BadSetting
from muster_operator.translate.values import Raw
from muster_si import keys
from tests.unit.operator.kube.apiserver import ApiServer, FixedCredentials, reply, serving, status

BASE = "GET /api/v1/namespaces/muster/configmaps/"


def test_no_config_maps_give_the_documented_defaults() -> None:
    configuration = parse({})
    assert configuration == Configuration(extra={keys.EXTRA_BARRIER: "true"})
    assert configuration.cluster_id == "mycluster"
    assert configuration.settings.scheduler_names == {"muster", "yunikorn"}
    assert configuration.settings.placeholder_image == "registry.k8s.io/pause:3.7"


def test_the_policy_group_picks_the_queue_configuration() -> None:
    configuration = parse({"service.policyGroup": "ours", "ours.yaml": "partitions: []", "queues.yaml": "other"})
    assert (configuration.policy_group, configuration.queues) == ("ours", "partitions: []")


def test_a_reload_keeps_the_policy_group_in_force() -> None:
    entries = {"service.policyGroup": "new", "new.yaml": "n", "queues.yaml": "q"}
    configuration = parse(entries, "queues")
    assert (configuration.policy_group, configuration.queues) == ("queues", "q")


def test_unknown_keys_are_passed_to_the_core_but_queue_configurations_are_not() -> None:
    configuration = parse({"event.maxStreams": "7", "queues.yaml": "x", "health.checkInterval": "1s"})
    assert configuration.extra == {
        "event.maxStreams": "7",
        "health.checkInterval": "1s",
        keys.EXTRA_BARRIER: "true",
    }


@pytest.mark.parametrize(
    "key,value",
    [
        ("service.placeholderRunAsUser", "-1"),
        ("applications.sharingGroups", "research"),
        ("applications.sharingGroups", "a=one,two; b=two"),
        ("applications.sharingGroups", "a=One"),
        ("service.placeholderRunAsUser", "root"),
        ("service.disableGangScheduling", "yes please"),
        ("service.enableConfigHotRefresh", "2"),
        ("service.placeholderImage", "pause 3.7"),
        ("service.clusterId", "prod[eu"),
        ("service.clusterId", "prod]eu"),
        ("service.clusterId", "prod eu"),
        ("service.clusterId", "x" * 257),
        ("gang.placement", "direct"),
        ("service.schedulerNames", "muster,,x"),
        ("service.schedulerNames", "Muster Scheduler"),
        ("service.schedulerName", "other"),
        ("kubernetes.qps", "-5"),
        ("kubernetes.qps", "1e3"),
        ("kubernetes.concurrency", "0"),
        ("log.level", "loud"),
        (keys.EXTRA_PLACEHOLDER_TIMEOUT, "fifteen minutes"),
        (keys.EXTRA_WAIT_TIMEOUT, "-1s"),
    ],
)
def test_a_bad_value_is_one_line_that_names_key_value_and_fix(key: str, value: str) -> None:
    with pytest.raises(BadSetting) as caught:
        parse({key: value})
    message = str(caught.value)
    assert key in message
    assert repr(value) in message
    assert "write" in message
    assert "\n" not in message


@pytest.mark.parametrize("name", ["prod(eu)", "prod+eu", "münchen", "a=b", "prod,eu", "x" * 256])
def test_a_cluster_id_may_contain_every_character_but_blanks_and_brackets(name: str) -> None:
    assert parse({"service.clusterId": name}).cluster_id == name


BOTH = frozenset({"muster", "yunikorn"})


@pytest.mark.parametrize(
    "setting, served, of_yunikorn, expected",
    [
        ("", BOTH, False, "muster"),
        ("", BOTH, True, "yunikorn"),
        ("", frozenset({"yunikorn"}), False, "yunikorn"),
        ("", frozenset({"muster"}), True, "muster"),
        ("", frozenset({"b", "a"}), True, "a"),
        ("yunikorn", BOTH, False, "yunikorn"),
        ("muster", BOTH, True, "muster"),
        ("yunikorn", frozenset({"muster"}), False, "muster"),
        (" b ", frozenset({"a", "b", "muster"}), False, "b"),
    ],
)
def test_pods_get_the_configured_scheduler_name_or_a_served_one_of_the_config_maps(
    setting: str, served: frozenset[str], of_yunikorn: object, expected: str
) -> None:
    entries = {"service.schedulerName": setting} if setting else {}
    assert name_for_pods(entries, served, is_yunikorns=bool(of_yunikorn)) == expected


def test_the_scheduler_name_for_pods_is_one_of_the_scheduler_names() -> None:
    entries = {"service.schedulerNames": "batch,other", "service.schedulerName": "batch"}
    assert parse(entries).settings.scheduler_names == {"batch", "other"}
    with pytest.raises(BadSetting, match=r"write one of service.schedulerNames \(batch, other\)"):
        parse(entries | {"service.schedulerName": "muster"})


@pytest.mark.parametrize("value", ["0s", "0", "15m", "1h30m", "1.5h", "250ms"])
def test_durations_use_the_go_format(value: str) -> None:
    assert parse({keys.EXTRA_PLACEHOLDER_TIMEOUT: value}).extra[keys.EXTRA_PLACEHOLDER_TIMEOUT] == value


def test_sharing_groups_are_read_by_namespace() -> None:
    groups = parse({"applications.sharingGroups": " a = one, two; b=three ;"}).settings.sharing_groups
    assert groups == {"one": "a", "two": "a", "three": "b"}


def test_an_empty_value_is_treated_as_absent() -> None:
    assert parse({"kubernetes.qps": " "}).limits.qps == 0


def test_the_burst_defaults_to_the_rate() -> None:
    assert parse({"kubernetes.qps": "1000"}).limits.burst == 1000
    assert parse({"kubernetes.qps": "1000", "kubernetes.burst": "50"}).limits.burst == 50


def test_both_spellings_of_the_instance_type_label_are_read() -> None:
    documented, real = "service.instanceTypeNodeLabelKey", "service.nodeInstanceTypeNodeLabelKey"
    assert parse({documented: "a"}).settings.instance_type_label == "a"
    assert parse({documented: "a", real: "b"}).settings.instance_type_label == "b"


def test_log_levels_are_names_or_numbers() -> None:
    levels = [parse({"log.level": level}).log_levels[""] for level in ("-1", "warn", "FATAL", "0")]
    assert levels == ["DEBUG", "WARNING", "CRITICAL", "INFO"]


def test_subsystem_log_levels_are_read_and_invalid_ones_are_ignored() -> None:
    entries = {"log.shim.client.level": "debug", "log.core.level": "loud", "log.level": " ", "log.format": "json"}
    assert parse(entries).log_levels == {"shim.client": "DEBUG"}


def test_the_config_map_that_sets_the_effective_value_of_a_key_is_named() -> None:
    first = {"metadata": {"name": "defaults", "uid": "1"}, "data": {"a": "1", "b": "1"}}
    second = {"metadata": {"name": "configs", "uid": "2"}, "data": {"b": "2"}, "binaryData": {"q.yaml.gz": ""}}
    found = [source([first, second], key) for key in ("a", "b", "q.yaml", "unset")]
    assert [where and where.name for where in found] == ["defaults", "configs", "configs", "configs"]
    assert source([], "a") is None


def packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode())).decode()


def test_compressed_entries_are_unpacked_and_take_precedence() -> None:
    found = merged(
        [{"data": {"queues.yaml": "plain"}, "binaryData": {"queues.yaml.gz": packed("packed"), "x": "eA=="}}]
    )
    assert found == {"queues.yaml": "packed"}


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("not base64!", id="no base64"),
        pytest.param(base64.b64encode(b"not gzip").decode(), id="no gzip"),
        pytest.param(packed("x")[:-12], id="cut off"),
    ],
)
def test_a_broken_compressed_entry_names_its_key(value: str) -> None:
    with pytest.raises(BadSetting, match=r"queues\.yaml\.gz"):
        merged([{"binaryData": {"queues.yaml.gz": value}}])


def test_an_entry_that_unpacks_beyond_the_size_limit_is_rejected() -> None:
    with pytest.raises(BadSetting):
        merged([{"binaryData": {"queues.yaml.gz": packed("x" * (UNPACKED_LIMIT + 1))}}])


async def entries_of(*config_maps: tuple[str, dict[str, str]]) -> dict[str, str]:
    return merged(await read(*config_maps))


async def read(*config_maps: tuple[str, dict[str, str]]) -> tuple[Raw, ...]:
    server = ApiServer()
    present = dict(config_maps)
    for name in ("muster-defaults", "muster-configs", "yunikorn-defaults", "yunikorn-configs"):
        if name in present:
            server.plan(BASE + name, partial(reply, 200, {"metadata": {"name": name}, "data": present[name]}))
        else:
            server.plan(BASE + name, lambda: status(404, "NotFound"))
    async with serving(server):
        session = KubeSession(FixedCredentials(server.url, ["t"]))
        try:
            return await read_config_maps(session, "muster")
        finally:
            await session.close()


async def test_configs_overlay_defaults() -> None:
    found = await entries_of(("muster-defaults", {"a": "1", "b": "1"}), ("muster-configs", {"b": "2"}))
    assert found == {"a": "1", "b": "2"}


async def test_yunikorns_config_maps_are_read_if_musters_do_not_exist() -> None:
    assert await entries_of(("yunikorn-configs", {"a": "y"})) == {"a": "y"}
    assert await entries_of(("yunikorn-configs", {"a": "y"}), ("muster-defaults", {"a": "m"})) == {"a": "m"}


async def test_the_config_maps_in_use_are_yunikorns_or_musters() -> None:
    assert is_yunikorns(await read(("yunikorn-configs", {"a": "y"})))
    assert not is_yunikorns(await read(("yunikorn-configs", {"a": "y"}), ("muster-defaults", {"a": "m"})))
    assert not is_yunikorns(await read())


async def test_no_config_map_has_to_exist() -> None:
    assert await entries_of() == {}


@pytest.mark.parametrize("written, seconds", [("", 600.0), ("90s", 90.0), ("1h30m", 5400.0), ("1.5m", 90.0)])
def test_the_volume_bind_timeout_is_read_from_yunikorns_setting(written: str, seconds: float) -> None:
    assert parse({"service.volumeBindTimeout": written}).settings.volume_bind_s == seconds


@pytest.mark.parametrize("written", ["0s", "-1m", "soon", "10"])
def test_an_invalid_volume_bind_timeout_is_rejected(written: str) -> None:
    with pytest.raises(BadSetting, match="volumeBindTimeout"):
        parse({"service.volumeBindTimeout": written})


# -- Warnings for the author of a ConfigMap about its keys, and about values that need a restart.


def warnings_of(entries: dict[str, str]) -> list[str]:
    return [finding.line for finding in setting_warnings(entries)]


def test_every_known_key_and_level_gives_no_warning() -> None:
    known = {key: setting.default for key, setting in SETTINGS.items() if "<" not in key}
    levels = {"log.core.scheduler.level": "DEBUG", "log.shim.level": "WARN", "log.admission.webhook.level": "INFO"}
    assert warnings_of(known | levels | {"queues.yaml": "partitions:"}) == []


@pytest.mark.parametrize(
    "key,message",
    [
        ("service.placeholderimage", "is not a setting of Muster; did you mean service.placeholderImage?"),
        ("gang.placeholderTimout", "is not a setting of Muster; did you mean gang.placeholderTimeout?"),
        ("colour", "is not a setting of Muster"),
        ("log.schim.level", "is not a setting of Muster; did you mean log.level?"),
    ],
)
def test_an_unknown_key_is_reported_with_a_similar_known_key(key: str, message: str) -> None:
    assert warnings_of({key: "x"}) == [f"{key} {message}"]


@pytest.mark.parametrize("key", sorted(MEANINGLESS))
def test_a_yunikorn_key_without_effect_is_reported_with_its_alternative(key: str) -> None:
    assert warnings_of({key: "1s"}) == [f"{key} has no effect here: {MEANINGLESS[key]}"]


def test_a_queue_configuration_under_another_name_is_reported_if_none_is_in_force() -> None:
    reads = "is not read: the active queue configuration is"
    assert warnings_of({"queue.yaml": ""}) == [f"queue.yaml {reads} queues.yaml (see service.policyGroup)"]
    assert warnings_of({"queues.yaml": "", "service.policyGroup": "ours"}) == [
        f"queues.yaml {reads} ours.yaml (see service.policyGroup)"
    ]
    assert warnings_of({"queues.yaml": "partitions:", "other.yaml": ""}) == []


def test_only_settings_that_are_read_at_startup_await_a_restart() -> None:
    old = {"service.clusterId": "a", "gang.waitTimeout": "1s"}
    assert [late.line for late in awaiting_restart(old, {"gang.waitTimeout": "2s"})] == [
        "service.clusterId = mycluster takes effect after a restart; the present value is a"
    ]
    assert [late.line for late in awaiting_restart({}, {"service.schedulerName": "yunikorn"})] == [
        "service.schedulerName = yunikorn takes effect after a restart; the present value is the default"
    ]
    assert awaiting_restart({}, {"service.clusterId": " mycluster "}) == []
