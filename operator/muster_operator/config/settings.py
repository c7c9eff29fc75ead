"""Reads and merges the ConfigMaps of Muster, and parses and validates their settings.

Docstrings of the reader functions (`_boolean` and others) are the fixes in error messages.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from muster_operator.kube.session import KubeSession
from muster_operator.kube.write_queue import Limits
from muster_operator.model import names
from muster_operator.model.errors import ApiRefused, BadSetting
from muster_operator.model.pods import Placement
from muster_operator.model.settings import Settings
from muster_operator.translate import values
from muster_operator.translate.values import Raw
from muster_si import keys

#: Names of ConfigMaps. The first pair of which one exists is used; within a pair the second one takes precedence.
PAIRS: Final = (("muster-defaults", "muster-configs"), ("yunikorn-defaults", "yunikorn-configs"))
CONFIG_MAP_NAMES: Final = frozenset(name for pair in PAIRS for name in pair)

#: Maximum bytes of an unpacked entry: enough for thousands of queues, and a limit for compression bombs.
UNPACKED_LIMIT: Final = 16 * 1024 * 1024

#: Suffix of the keys in `binaryData` that are unpacked.
_PACKED: Final = ".gz"


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """Identifies a ConfigMap, for events about its entries."""

    name: str
    uid: str


async def read_config_maps(session: KubeSession, namespace: str, new: Raw | None = None) -> tuple[Raw, ...]:
    """Returns the ConfigMaps in use, by increasing precedence; empty if there are none.

    `new`: a ConfigMap that is used in place of the stored one of its name, for validation.

    Raises:
        ApiRefused: the API server answered with an error.
        Unreachable: there was no answer.
    """
    known = {} if new is None else {values.text(values.mapping(new.get("metadata")).get("name")): new}
    for pair in PAIRS:
        read = [known.get(name) or await _read_config_map(session, namespace, name) for name in pair]
        if found := tuple(config_map for config_map in read if config_map is not None):
            return found
    return ()


def is_yunikorns(config_maps: Sequence[Raw]) -> bool:
    """Whether the ConfigMaps in use have YuniKorn's names."""
    return bool(config_maps) and _source(config_maps[0]).name in PAIRS[1]


def merged(config_maps: Iterable[Raw]) -> dict[str, str]:
    """Merges the entries of several ConfigMaps; later ones take precedence.

    Raises:
        BadSetting: a compressed entry cannot be unpacked.
    """
    entries, problems = merge(config_maps)
    for problem in problems:
        raise problem
    return entries


def merge(config_maps: Iterable[Raw]) -> tuple[dict[str, str], list[BadSetting]]:
    """Like `merged`, but leaves entries out that cannot be unpacked, and returns the reasons."""
    entries: dict[str, str] = {}
    problems: list[BadSetting] = []
    for config_map in config_maps:
        entries.update(config_map.get("data") or {})
        for key, value in (config_map.get("binaryData") or {}).items():
            if key.endswith(_PACKED):
                try:
                    entries[key.removesuffix(_PACKED)] = _unpacked(key, value)
                except BadSetting as problem:
                    problems.append(problem)
    return entries, problems


def source(config_maps: Sequence[Raw], key: str = "") -> ConfigSource | None:
    """The ConfigMap whose value of the key is used. If none has the key, the last one; None if there are none."""
    for config_map in reversed(config_maps):
        written = {*(config_map.get("data") or {}), *(config_map.get("binaryData") or {})}
        if not written.isdisjoint({key, key + _PACKED}):
            return _source(config_map)
    return _source(config_maps[-1]) if config_maps else None


def _source(config_map: Raw) -> ConfigSource:
    metadata = values.mapping(config_map.get("metadata"))
    return ConfigSource(values.text(metadata.get("name")), values.text(metadata.get("uid")))


async def _read_config_map(session: KubeSession, namespace: str, name: str) -> Raw | None:
    """Reads one ConfigMap. Returns None if it does not exist."""
    try:
        return await session.get(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
    except ApiRefused as error:
        if error.status == 404:
            return None
        raise


def _unpacked(key: str, value: str) -> str:
    fix = "write a gzip of UTF-8 text (of at most 16 MiB) under a key that ends in .gz"
    try:
        unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        packed = base64.b64decode(value, validate=True)
        unpacked = unpacker.decompress(packed, UNPACKED_LIMIT)
        if unpacker.unconsumed_tail or not unpacker.eof:
            raise BadSetting(key, f"{len(value)} characters", fix)
        return unpacked.decode()
    except (binascii.Error, zlib.error, UnicodeDecodeError) as error:
        raise BadSetting(key, f"{len(value)} characters", fix) from error


CLUSTER_ID: Final = "service.clusterId"
POLICY_GROUP: Final = "service.policyGroup"

#: Muster only: served scheduler names, separated by commas.
SCHEDULER_NAMES: Final = "service.schedulerNames"

#: The scheduler name that the webhook sets on pods.
SCHEDULER_NAME: Final = "service.schedulerName"

#: Muster only: namespaces whose DaemonSets the core preempts for.
SYSTEM_NAMESPACES: Final = "service.systemNamespaces"
HOT_REFRESH: Final = "service.enableConfigHotRefresh"
DISABLE_GANG: Final = "service.disableGangScheduling"

#: Muster only: namespaces that share application IDs.
SHARING_GROUPS: Final = "applications.sharingGroups"

#: Muster only: placement mode of gangs that do not specify one (docs/internals/semantics.md, 16).
GANG_PLACEMENT: Final = "gang.placement"

#: Muster only: when absent members of a gang with the placement Auto get placeholder pods.
PLACEHOLDERS_FOLLOW: Final = "gang.placeholdersFollowMembers"
MEMBER_QUIET_PERIOD: Final = "gang.memberQuietPeriod"
MEMBER_WAIT: Final = "gang.memberWait"

#: Muster only: class of the ProvisioningRequests of gangs that wait for nodes.
PROVISIONING_REQUEST: Final = "autoscaling.provisioningRequest"
PLACEHOLDER_IMAGE: Final = "service.placeholderImage"
RUN_AS_USER: Final = "service.placeholderRunAsUser"
RUN_AS_GROUP: Final = "service.placeholderRunAsGroup"
FS_GROUP: Final = "service.placeholderFsGroup"

#: YuniKorn's documentation and code use different names. The second one, of the code, takes precedence.
INSTANCE_TYPE_LABELS: Final = ("service.instanceTypeNodeLabelKey", "service.nodeInstanceTypeNodeLabelKey")
VOLUME_BIND_TIMEOUT: Final = "service.volumeBindTimeout"
UNIQUE_APP_IDS: Final = "admissionController.filtering.generateUniqueAppId"
DEVICE_CLAIMS: Final = "kubernetes.deviceClaims"
QPS: Final = "kubernetes.qps"
BURST: Final = "kubernetes.burst"

#: Muster only: maximum number of concurrent requests to the API server.
WRITERS: Final = "kubernetes.concurrency"

#: Muster only: timeouts for the core. The operator only checks that they are durations.
DURATIONS: Final = (
    keys.EXTRA_PLACEHOLDER_TIMEOUT,
    keys.EXTRA_MAX_PLACEHOLDER_TIMEOUT,
    keys.EXTRA_WAIT_TIMEOUT,
    keys.EXTRA_STARVATION_AGE,
    keys.EXTRA_COMPLETING_TIMEOUT,
    keys.EXTRA_CONFIRM_TIMEOUT,
    keys.EXTRA_MANAGER_TIMEOUT,
    keys.EXTRA_RESERVATION_DELAY,
    keys.EXTRA_RESERVATION_TIMEOUT,
    keys.EXTRA_PREEMPTION_INTERVAL,
    keys.EXTRA_SCALE_UP_DELAY,
    keys.EXTRA_EXPIRY,
)

T = TypeVar("T")

#: Levels of zap, YuniKorn's logger, by number and name, as names of Python's logging levels.
_LEVELS: Final = {
    "-1": "DEBUG",
    "0": "INFO",
    "1": "WARNING",
    "2": "ERROR",
    "3": "CRITICAL",
    "4": "CRITICAL",
    "5": "CRITICAL",
    "DEBUG": "DEBUG",
    "INFO": "INFO",
    "WARN": "WARNING",
    "ERROR": "ERROR",
    "DPANIC": "CRITICAL",
    "PANIC": "CRITICAL",
    "FATAL": "CRITICAL",
}

_GO_DURATION: Final = re.compile(r"[+-]?(?:0|(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h))+)")
_PART_OF_DURATION: Final = re.compile(r"([\d.]+)(ns|us|µs|ms|s|m|h)")
_UNITS_S: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Configuration:
    """The parsed ConfigMaps."""

    settings: Settings = field(default_factory=Settings)
    """Settings of controller and translation. Only the placement of gangs is reloaded."""

    cluster_id: str = "mycluster"
    """ID of the resource manager in the core, and `clusterId` in REST."""

    policy_group: str = "queues"
    """Name of the entry with the queue configuration: `<policy_group>.yaml`."""

    queues: str = ""
    """The queue configuration; empty = the core's built-in default."""

    extra: Mapping[str, str] = field(default_factory=dict)
    """All other entries, for the core."""

    limits: Limits = field(default_factory=Limits)
    """Limits of requests to the API server."""

    log_levels: Mapping[str, str] = field(default_factory=dict)
    """Level names of Python's logging by subsystem, "" = all. Others have the level of the command line."""

    withheld: frozenset[str] = frozenset()
    """Configured scheduler names that are not served, because YuniKorn is running or may be running."""

    hot_refresh: bool = True
    """Whether changes of the ConfigMaps take effect without a restart."""


def parse(entries: Mapping[str, str], policy_group: str | None = None) -> Configuration:
    """Parses the merged entries of the ConfigMaps. `policy_group`: the present one, which a reload cannot change.

    Raises:
        BadSetting: a value is invalid. The message names key, value and fix.
    """
    for key in DURATIONS:
        _read(entries, key, "", _duration)
    _check_scheduler_name(entries)
    policy_group = policy_group or _read(entries, POLICY_GROUP, "queues", _word)
    return Configuration(
        settings=_settings(entries),
        cluster_id=_read(entries, CLUSTER_ID, "mycluster", _cluster_id),
        policy_group=policy_group,
        queues=entries.get(f"{policy_group}.yaml", ""),
        extra={key: value for key, value in entries.items() if not key.endswith(".yaml")}
        | {keys.EXTRA_BARRIER: "true"},
        limits=_limits(entries),
        log_levels=_log_levels(entries),
        hot_refresh=_read(entries, HOT_REFRESH, True, _boolean),
    )


def _settings(entries: Mapping[str, str]) -> Settings:
    default = Settings()
    label = default.instance_type_label
    for key in INSTANCE_TYPE_LABELS:
        label = _read(entries, key, label, _text)
    return Settings(
        scheduler_names=_read(entries, SCHEDULER_NAMES, default.scheduler_names, _names),
        placeholder_image=_read(entries, PLACEHOLDER_IMAGE, default.placeholder_image, _word),
        placeholder_run_as_user=_read(entries, RUN_AS_USER, 0, _count),
        placeholder_run_as_group=_read(entries, RUN_AS_GROUP, 0, _count),
        placeholder_fs_group=_read(entries, FS_GROUP, 0, _count),
        disable_gang=_read(entries, DISABLE_GANG, False, _boolean),
        device_claims=_read(entries, DEVICE_CLAIMS, False, _boolean),
        gang_placement=_read(entries, GANG_PLACEMENT, default.gang_placement, _placement),
        placeholders_follow=_read(entries, PLACEHOLDERS_FOLLOW, default.placeholders_follow, _boolean),
        member_quiet_s=_read(entries, MEMBER_QUIET_PERIOD, default.member_quiet_s, _seconds),
        member_wait_s=_read(entries, MEMBER_WAIT, default.member_wait_s, _seconds),
        provisioning_class=_read(entries, PROVISIONING_REQUEST, "", _provisioning_class),
        unique_app_ids=_read(entries, UNIQUE_APP_IDS, False, _boolean),
        sharing_groups=_read(entries, SHARING_GROUPS, default.sharing_groups, _sharing_groups),
        system_namespaces=_read(entries, SYSTEM_NAMESPACES, default.system_namespaces, _namespaces),
        instance_type_label=label,
        volume_bind_s=_read(entries, VOLUME_BIND_TIMEOUT, default.volume_bind_s, _seconds),
    )


def name_for_pods(entries: Mapping[str, str], served: frozenset[str], *, is_yunikorns: bool) -> str:
    """The scheduler name that the webhook sets on pods. `is_yunikorns`: the entries are from YuniKorn's ConfigMaps."""
    wanted = _read(entries, SCHEDULER_NAME, names.YUNIKORN if is_yunikorns else names.MUSTER, _word)
    return next((name for name in (wanted, names.MUSTER) if name in served), min(served, default=names.MUSTER))


def _check_scheduler_name(entries: Mapping[str, str]) -> None:
    served = _read(entries, SCHEDULER_NAMES, Settings().scheduler_names, _names)
    name = _read(entries, SCHEDULER_NAME, min(served), _word)
    if name not in served:
        raise BadSetting(SCHEDULER_NAME, name, f"write one of {SCHEDULER_NAMES} ({', '.join(sorted(served))})")


def _log_levels(entries: Mapping[str, str]) -> dict[str, str]:
    """Log levels by subsystem: `log.level` as "", `log.<subsystem>.level` as its subsystem, without invalid ones."""
    found: dict[str, str] = {}
    for key, value in entries.items():
        subsystem = subsystem_of(key)
        if subsystem == "":
            _read(entries, key, "", _level)
        if subsystem is not None and (level := _level(value.strip())):
            found[subsystem] = level
    return found


def subsystem_of(key: str) -> str | None:
    """The subsystem whose log level a key sets: "" = all; None = the key is not a log level."""
    if key == keys.SETTING_LOG_LEVEL:
        return ""
    if key.startswith(keys.SETTING_LOG_PREFIX) and key.endswith(keys.SETTING_LOG_SUFFIX):
        return key.removeprefix(keys.SETTING_LOG_PREFIX).removesuffix(keys.SETTING_LOG_SUFFIX) or None
    return None


def _limits(entries: Mapping[str, str]) -> Limits:
    """`Differs:` no rate limit unless one is set (YuniKorn: 1000); requests in flight are bounded instead."""
    qps = _read(entries, QPS, 0, _count)
    return Limits(
        writers=_read(entries, WRITERS, Limits().writers, _at_least_one),
        qps=qps,
        burst=_read(entries, BURST, qps, _count),
    )


def _read(entries: Mapping[str, str], key: str, default: T, reader: Callable[[str], T | None]) -> T:
    """Parses the value of a key. A reader returns None for an invalid value, and its docstring is the fix.

    Raises:
        BadSetting: the value is invalid.
    """
    text = entries.get(key)
    if text is None or not text.strip():
        return default
    value = reader(text.strip())
    if value is None:
        fix = (reader.__doc__ or "").rstrip(".")
        raise BadSetting(key, text, f"{fix[:1].lower()}{fix[1:]}")
    return value


def _boolean(text: str) -> bool | None:
    """Write true or false."""
    return {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}.get(text.lower())


def _count(text: str) -> int | None:
    """Write a whole number that is not negative."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else None


def _at_least_one(text: str) -> int | None:
    """Write a whole number from 1 on."""
    return _count(text) or None


def _placement(text: str) -> Placement | None:
    """Write Reserve, Direct or Auto."""
    if text == keys.PLACEMENT_REMOVED:  # reported by the catalog
        return Placement.AUTO
    return next((placement for placement in Placement if placement.value == text), None)


def _provisioning_class(text: str) -> str | None:
    """Write check-capacity.autoscaling.x-k8s.io or best-effort-atomic-scale-up.autoscaling.x-k8s.io, or nothing."""
    return text if text in names.PROVISIONING_CLASSES else None


def _text(text: str) -> str | None:
    """Write a text."""
    return text


def _word(text: str) -> str | None:
    """Write a name without blanks."""
    return text if not re.search(r"\s", text) else None


def _cluster_id(text: str) -> str | None:
    """Write a name of at most 256 characters without blanks and without the brackets [ and ]."""
    return text if re.fullmatch(r"[^\s\[\]]{1,256}", text) else None


def _names(text: str) -> frozenset[str] | None:
    """Write scheduler names separated by commas, such as muster,yunikorn."""
    names = [name.strip() for name in text.split(",")]
    return frozenset(names) if all(_NAME.fullmatch(name) for name in names) else None


def _namespaces(text: str) -> frozenset[str] | None:
    """Write namespaces separated by commas, such as kube-system,monitoring."""
    names = [name.strip() for name in text.split(",")]
    return frozenset(names) if all(_LABEL.fullmatch(name) for name in names) else None


def _sharing_groups(text: str) -> dict[str, str] | None:
    """Write <group>=<namespace>,<namespace> for each group, with ; between groups; a namespace is in one group."""
    found: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(";"))):
        group, _, listed = entry.partition("=")
        names = [name.strip() for name in listed.split(",")]
        if not all(_LABEL.fullmatch(name) for name in (group.strip(), *names)) or found.keys() & set(names):
            return None
        found |= dict.fromkeys(names, group.strip())
    return found


def _level(text: str) -> str | None:
    """Write DEBUG, INFO, WARN, ERROR, DPANIC, PANIC, FATAL or a number from -1 to 5."""
    return _LEVELS.get(text.upper())


def _duration(text: str) -> str | None:
    """Write a duration such as 30s, 15m or 1h30m that is not negative."""
    return text if _GO_DURATION.fullmatch(text) and not text.startswith("-") else None


def _seconds(text: str) -> float | None:
    """Write a duration such as 30s, 15m or 1h30m that is longer than 0s."""
    if _duration(text) is None:
        return None
    return sum(float(number) * _UNITS_S[unit] for number, unit in _PART_OF_DURATION.findall(text)) or None
