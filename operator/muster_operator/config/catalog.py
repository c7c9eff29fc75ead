"""Catalog of all settings (key, default, meaning), settings of the admission webhook, and warnings about entries.

Differs: YuniKorn ignores an invalid list of expressions and reports that only in its log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeVar

import re2

from muster_operator.config import settings
from muster_operator.config.settings import UNIQUE_APP_IDS, subsystem_of
from muster_operator.model import names
from muster_operator.model.settings import AccessRules, AdmissionSettings, NamespaceRules, Pattern, Patterns
from muster_si import keys
from muster_si.near_names import nearest

PROCESS_NAMESPACES: Final = "admissionController.filtering.processNamespaces"
BYPASS_NAMESPACES: Final = "admissionController.filtering.bypassNamespaces"
LABEL_NAMESPACES: Final = "admissionController.filtering.labelNamespaces"
NO_LABEL_NAMESPACES: Final = "admissionController.filtering.noLabelNamespaces"
BYPASS_AUTH: Final = "admissionController.accessControl.bypassAuth"
TRUST_CONTROLLERS: Final = "admissionController.accessControl.trustControllers"
SYSTEM_USERS: Final = "admissionController.accessControl.systemUsers"
EXTERNAL_USERS: Final = "admissionController.accessControl.externalUsers"
EXTERNAL_GROUPS: Final = "admissionController.accessControl.externalGroups"

#: Default values as in a ConfigMap.
DEFAULTS: Final[Mapping[str, str]] = {
    PROCESS_NAMESPACES: "",
    BYPASS_NAMESPACES: "^kube-system$",
    LABEL_NAMESPACES: "",
    NO_LABEL_NAMESPACES: "",
    UNIQUE_APP_IDS: "false",
    BYPASS_AUTH: "false",
    TRUST_CONTROLLERS: "true",
    SYSTEM_USERS: "^system:serviceaccount:kube-system:",
    EXTERNAL_USERS: "",
    EXTERNAL_GROUPS: "",
}

#: Maximum characters of an expression, and maximum memory of the compiled one in bytes.
_LONGEST: Final = 1024
_MOST_MEMORY: Final = 1024 * 1024

#: An expression that never matches.
_NOTHING: Final = "x^"
_BOOLEANS: Final = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
T = TypeVar("T")


class _InvalidValue(Exception):
    """A value is invalid. The text has the reason and the fix."""


@dataclass(frozen=True, slots=True)
class _Reader:
    entries: Mapping[str, str]
    warnings: dict[str, str] = field(default_factory=dict)

    def switch(self, key: str) -> bool:
        """Reads a boolean. An empty entry means the default."""
        return self._read(key, _boolean, self.entries.get(key, "").strip() or DEFAULTS[key])

    def namespaces(self, key: str) -> Patterns:
        """Reads a list of expressions for namespaces. An invalid expression matches nothing."""
        return tuple(self._found(key, part) for part in _parts(self.entries.get(key, DEFAULTS[key])))

    def _found(self, key: str, expression: str) -> Pattern:
        try:
            return _compiled(expression)
        except _InvalidValue as error:
            self.warnings[key] = f"= {error}; until then it matches no namespace"
            return _compiled(_NOTHING)

    def patterns(self, key: str) -> Patterns:
        """Reads a list of expressions. An empty entry is an empty list; an invalid one means the default."""
        return self._read(key, _patterns, self.entries.get(key, DEFAULTS[key]))

    def _read(self, key: str, parser: Callable[[str], T], written: str) -> T:
        try:
            return parser(written)
        except _InvalidValue as error:
            default = f'"{DEFAULTS[key]}"' if DEFAULTS[key] else "none"
            self.warnings[key] = f"= {error}; until then the default applies: {default}"
            return parser(DEFAULTS[key])


def parse(entries: Mapping[str, str], scheduler_name: str) -> tuple[AdmissionSettings, tuple[str, ...]]:
    """Returns the settings, and a warning per ignored value. `scheduler_name`: the one that is set on pods."""
    reader = _Reader(entries)
    settings = _settings(reader, scheduler_name)
    return settings, tuple(f"{key} {text}" for key, text in reader.warnings.items())


def admission_warnings(entries: Mapping[str, str]) -> dict[str, str]:
    """Problems of values by key."""
    reader = _Reader(entries)
    _settings(reader)
    return reader.warnings


def loose(entries: Mapping[str, str]) -> dict[str, str]:
    """Warnings by key about unanchored expressions, which also match parts of service account names of any user."""
    found: dict[str, str] = {}
    for key in (SYSTEM_USERS, EXTERNAL_USERS, EXTERNAL_GROUPS):
        for part in _parts(entries.get(key, "")):
            if "^" not in part and r"\A" not in part:
                found[key] = f'= "{part[:80]}" also matches parts of other names, such as service accounts; add ^ and $'
    return found


def _settings(reader: _Reader, scheduler_name: str = names.MUSTER) -> AdmissionSettings:
    return AdmissionSettings(
        namespaces=NamespaceRules(
            process=reader.namespaces(PROCESS_NAMESPACES),
            bypass=reader.namespaces(BYPASS_NAMESPACES),
            label=reader.namespaces(LABEL_NAMESPACES),
            no_label=reader.namespaces(NO_LABEL_NAMESPACES),
        ),
        access=AccessRules(
            bypass_auth=reader.switch(BYPASS_AUTH),
            trust_controllers=reader.switch(TRUST_CONTROLLERS),
            system_users=reader.patterns(SYSTEM_USERS),
            external_users=reader.patterns(EXTERNAL_USERS),
            external_groups=reader.patterns(EXTERNAL_GROUPS),
        ),
        unique_app_ids=reader.switch(UNIQUE_APP_IDS),
        scheduler_name=scheduler_name,
    )


def _boolean(written: str) -> bool:
    try:
        return _BOOLEANS[written.strip().lower()]
    except KeyError:
        raise _InvalidValue(f'"{written[:80]}" is not a boolean; write true or false') from None


def _patterns(written: str) -> Patterns:
    return tuple(_compiled(part) for part in _parts(written))


def _parts(written: str) -> list[str]:
    return [part.strip() for part in written.split(",") if part.strip()]


def _compiled(expression: str) -> Pattern:
    if len(expression) > _LONGEST:
        raise _InvalidValue(f'"{expression[:40]}..." is longer than {_LONGEST} characters; write a shorter expression')
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MOST_MEMORY
    try:
        compiled: Pattern = re2.compile(expression, options)
    except re2.error as error:
        detail = error.args[0] if error.args else "no reason"
        reason = detail.decode(errors="replace") if isinstance(detail, bytes) else str(detail)
        fix = "write expressions of RE2 with commas between them, and none inside one"
        raise _InvalidValue(f'"{expression[:80]}" is no regular expression ({reason}); {fix}') from None
    return compiled


#: Suffix of the keys of queue configurations.
QUEUES: Final = ".yaml"


class Takes(StrEnum):
    """When a changed value takes effect."""

    AT_ONCE = "immediately"
    AT_START = "at startup"


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting. `default` is as in a ConfigMap; `meaning` is one line for the documentation.

    `is_list`: an empty value is an empty list. For other settings an empty value means the default.
    """

    key: str
    default: str
    takes: Takes
    meaning: str
    is_list: bool = False

    def is_set(self, entries: Mapping[str, str]) -> bool:
        """Whether the entries have a value."""
        return bool(entries.get(self.key, "").strip()) or (self.is_list and self.key in entries)

    def value(self, entries: Mapping[str, str]) -> str:
        """The value in the entries, or the default."""
        return entries[self.key].strip() if self.is_set(entries) else self.default


@dataclass(frozen=True, slots=True)
class Finding:
    """A warning about an entry."""

    key: str
    line: str


def _about(key: str, text: str) -> Finding:
    return Finding(key, f"{key} {text}")


def _at_once(key: str, default: str, meaning: str) -> Setting:
    return Setting(key, default, Takes.AT_ONCE, meaning)


def _at_start(key: str, default: str, meaning: str) -> Setting:
    return Setting(key, default, Takes.AT_START, meaning)


TIMEOUTS: Final = (
    _at_once(
        settings.GANG_PLACEMENT,
        "",
        "placement mode of gangs without `gangPlacement`: `Reserve`, `Direct` or `Auto`. If empty: `Reserve` "
        "for pods with the scheduler name `yunikorn` or if `autoscaling.provisioningRequest` is set, otherwise `Auto`. "
        "Changes apply to new gangs",
    ),
    _at_start(
        settings.PLACEHOLDERS_FOLLOW,
        "true",
        "`Reserve`: placeholders request the larger amount of each resource if the present members of their task group "
        "request more than its `minResource`, and have the constraints that all of them have and the task group leaves "
        "out",
    ),
    _at_start(
        settings.MEMBER_QUIET_PERIOD,
        "500ms",
        "`Auto`: until a gang has all its nodes, absent members get placeholder pods when no member has been created "
        "or has ended for this time. `Reserve`: placeholders without a node are replaced when no member has changed "
        "what they request for this time, which doubles with each replacement, at most six times",
    ),
    _at_start(
        settings.MEMBER_WAIT,
        "5s",
        "`Auto`: until a gang has all its nodes, the maximum wait before absent members get placeholder pods. If the "
        "gang has all its nodes, absent members get placeholder pods when no member has been created or has ended for "
        "this time; the maximum wait is then twelve times this value",
    ),
    _at_start(
        settings.PROVISIONING_REQUEST,
        "",
        "a ProvisioningRequest of this class is created for each gang that waits for nodes: "
        "`check-capacity.autoscaling.x-k8s.io` or `best-effort-atomic-scale-up.autoscaling.x-k8s.io`; empty = none",
    ),
    _at_once(
        keys.EXTRA_PLACEHOLDER_TIMEOUT,
        "15m",
        "placeholder timeout of applications without `placeholderTimeoutInSeconds`",
    ),
    _at_once(
        keys.EXTRA_MAX_PLACEHOLDER_TIMEOUT,
        "24h",
        "longest placeholder timeout: a longer `placeholderTimeoutInSeconds` is reduced to it",
    ),
    _at_once(
        keys.EXTRA_WAIT_TIMEOUT,
        "0s",
        "how long a gang can wait for its reservation before its style (`Soft` or `Hard`) applies; `0s` = no limit, "
        "except for a gang that waits for members that nothing creates: it ends after its placeholder timeout",
    ),
    _at_once(
        keys.EXTRA_STARVATION_AGE,
        "10m",
        "minimum age of a waiting gang for which headroom, and in `Auto` and `Direct` nodes, are reserved before "
        "younger applications",
    ),
    _at_once(
        keys.EXTRA_REPAIR_ACROSS_QUEUES,
        "true",
        "whether the replacement of a lost gang member precedes applications of the same priority in other queues, "
        "too; `false` = only in its own queue",
    ),
    _at_once(
        keys.EXTRA_COMPLETING_TIMEOUT,
        "30s",
        "how long an application without pods stays Completing before it is Completed",
    ),
    _at_once(
        keys.EXTRA_CONFIRM_TIMEOUT,
        "2m",
        "how long a deletion can stay unconfirmed before the placeholder replacement is cancelled; for preempted pods, "
        "in addition to their grace period",
    ),
    _at_once(
        keys.EXTRA_MANAGER_TIMEOUT, "5m", "how long the core keeps the state of an operator that has disconnected"
    ),
    _at_once(
        keys.EXTRA_RESERVATION_DELAY,
        "2s",
        "how long a pod that fits on no node waits before a node is reserved for it",
    ),
    _at_once(keys.EXTRA_RESERVATION_TIMEOUT, "1h", "how long a node stays reserved for a pod"),
    _at_once(keys.EXTRA_PREEMPTION_INTERVAL, "15s", "minimum time between two preemption attempts of a pod"),
    _at_once(
        keys.EXTRA_SCALE_UP_DELAY,
        "0s",
        "how long preemption for a pod that fits on no node waits for a cluster autoscaler to add a node",
    ),
    _at_once(
        keys.EXTRA_EMPTY_NODE_INTERVAL,
        "0s",
        "minimum time between recommendations of a node that could be emptied, while no request waits; `0s` = never",
    ),
    _at_once(keys.EXTRA_EXPIRY, "72h", "how long an ended application is visible"),
)

OPERATOR: Final = (
    _at_start(
        settings.CLUSTER_ID, "mycluster", "name of the cluster in the core and in REST, without blanks and brackets"
    ),
    _at_start(settings.POLICY_GROUP, "queues", "name of the entry with the queues: `<policyGroup>.yaml`"),
    _at_start(
        settings.SCHEDULER_NAMES, "muster,yunikorn", "Muster schedules pods with one of these as `schedulerName`"
    ),
    _at_start(
        settings.SCHEDULER_NAME,
        "",
        "the webhook sets this scheduler name on pods; one of `service.schedulerNames`. Not set = `yunikorn` with "
        "`yunikorn-defaults` or `yunikorn-configs`, otherwise `muster`. If the name is not served, another one is set",
    ),
    _at_start(
        settings.SHARING_GROUPS,
        "",
        "namespaces that share application IDs: `<group>=<namespace>,<namespace>`, separated by `;`; empty = every "
        "application has pods of one namespace only",
    ),
    _at_start(
        settings.SYSTEM_NAMESPACES,
        "kube-system",
        "namespaces that ordinary users cannot write, separated by commas; Muster's own is always one. Pods of "
        "DaemonSets in them [preempt on their node](../concepts/preemption.md#daemonset-pods)",
    ),
    _at_once(settings.HOT_REFRESH, "true", "`false`: changes take effect after a restart"),
    _at_start(settings.DISABLE_GANG, "false", "`true`: task groups are ignored"),
    _at_start(
        settings.DEVICE_CLAIMS,
        "false",
        "`true`: pods with ResourceClaims get [devices](../concepts/devices.md) (experimental)",
    ),
    _at_start(settings.PLACEHOLDER_IMAGE, "registry.k8s.io/pause:3.7", "image of placeholder pods"),
    _at_start(settings.RUN_AS_USER, "0", "`runAsUser` of placeholders; 0 = the image decides"),
    _at_start(settings.RUN_AS_GROUP, "0", "`runAsGroup` of placeholders; 0 = the image decides"),
    _at_start(settings.FS_GROUP, "0", "`fsGroup` of placeholders; 0 = none"),
    _at_start(
        settings.INSTANCE_TYPE_LABELS[1], "node.kubernetes.io/instance-type", "node label with the instance type"
    ),
    _at_start(
        settings.INSTANCE_TYPE_LABELS[0],
        "node.kubernetes.io/instance-type",
        "the same, with the name in YuniKorn's documentation",
    ),
    _at_start(
        settings.VOLUME_BIND_TIMEOUT,
        "10m",
        "how long a pod with a chosen node waits until its claims are bound, before another node is chosen",
    ),
    _at_start(settings.QPS, "0", "maximum writes per second, not counting immediate retries; 0 = unlimited"),
    _at_start(settings.BURST, "0", "number of writes that can be sent in a burst after an idle period"),
    _at_start(settings.WRITERS, "64", "maximum concurrent requests to the API server"),
)


def _rules(key: str, meaning: str) -> Setting:
    """A setting of the webhook. Its value is a comma-separated list of regular expressions, or a boolean."""
    default = DEFAULTS[key]
    return Setting(key, default, Takes.AT_ONCE, meaning, is_list=default not in {"true", "false"})


ADMISSION: Final = (
    _rules(PROCESS_NAMESPACES, "namespaces whose pods get Muster as their scheduler; empty = all"),
    _rules(BYPASS_NAMESPACES, "exceptions from `processNamespaces`"),
    _rules(LABEL_NAMESPACES, "namespaces in which pods without an application ID get one; empty = all"),
    _rules(NO_LABEL_NAMESPACES, "exceptions from `labelNamespaces`"),
    _at_start(
        settings.UNIQUE_APP_IDS, "false", "`true`: every pod without an application ID gets a separate application"
    ),
    _rules(BYPASS_AUTH, "`true`: every user can set any user in `user.info`"),
    _rules(
        TRUST_CONTROLLERS,
        "`false`: `systemUsers` is ignored; pods of workloads with a user are rejected, unless `externalUsers` has "
        "their controllers",
    ),
    _rules(SYSTEM_USERS, "users that create pods for others: the controllers of Kubernetes, operators"),
    _rules(EXTERNAL_USERS, "other users that can set any user"),
    _rules(EXTERNAL_GROUPS, "groups whose members can set any user"),
)

LEVELS: Final = "log.<subsystem>.level"

OBSERVABILITY: Final = (
    _at_once(
        keys.SETTING_EVENT_TRACKING,
        "true",
        "`true`: event records are stored for REST; `false`: no new ones are stored, and stored ones remain",
    ),
    _at_once(keys.SETTING_EVENT_RING, "100000", "maximum number of event records; the oldest ones are dropped"),
    _at_once(keys.SETTING_EVENT_RING_OTHER, "100000", "the same, with the name in YuniKorn's documentation"),
    _at_once(keys.SETTING_EVENT_REQUESTS, "1000", "maximum number of events that wait for the operator"),
    _at_once(keys.SETTING_EVENT_RESPONSE, "10000", "maximum number of event records in one response"),
    _at_once(keys.SETTING_EVENT_STREAMS, "100", "maximum number of concurrent event streams"),
    _at_once(keys.SETTING_EVENT_STREAMS_PER_HOST, "15", "maximum number of concurrent event streams of one client"),
    _at_once(keys.SETTING_HEALTH_INTERVAL, "30s", "time between two health checks of the core; `0s` = none"),
    _at_once(
        keys.EXTRA_QUEUE_NAMES,
        "true",
        "`true`: the core has YuniKorn's metrics with the path of a queue in their name (`yunikorn_root_a_queue_…`); "
        "`false`: only `muster_core_queue_containers_total`, which has the label `queue`",
    ),
    _at_once(
        keys.SETTING_LOG_LEVEL,
        "INFO",
        "DEBUG, INFO, WARN, ERROR, DPANIC, PANIC, FATAL or -1 to 5; not set = the level of the command line",
    ),
    _at_once(
        LEVELS,
        "",
        "log level of a part of Muster; not set = that of the next higher part, for example `core` for `core.rest`",
    ),
)

#: First parts of subsystem names, for parts of the core, the operator and the webhook. Some are YuniKorn's.
SUBSYSTEMS: Final = frozenset({"admission", "core", "deprecation", "kubernetes", "shim"})

#: Settings by heading, in the order of the documentation.
CATALOGUE: Final[Mapping[str, tuple[Setting, ...]]] = MappingProxyType(
    {
        "Gangs and timeouts": TIMEOUTS,
        "Operator": OPERATOR,
        "Admission": ADMISSION,
        "Events, health and logs": OBSERVABILITY,
    }
)

SETTINGS: Final[Mapping[str, Setting]] = MappingProxyType(
    {setting.key: setting for group in CATALOGUE.values() for setting in group}
)

#: Settings of YuniKorn without an effect in Muster, and why they are not needed.
MEANINGLESS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "admissionController.filtering.defaultQueue": "use a placement rule `fixed` instead",
        "admissionController.webHook.amServiceName": "use the operator's option `--webhook-service`",
        "admissionController.webHook.schedulerServiceAddress": "the operator connects to its own core",
        "service.dispatchTimeout": "Muster has no dispatch channels of fixed size",
        "service.eventChannelCapacity": "Muster has no dispatch channels of fixed size",
        "service.operatorPlugins": "Muster has no plugins of this kind, and YuniKorn has removed them",
        "service.schedulingInterval": "a cycle runs after a change, not periodically",
    }
)


def setting_warnings(entries: Mapping[str, str]) -> list[Finding]:
    """Warnings about entries: unknown keys, keys without effect, unused queues, ignored values, loose expressions."""
    unanchored = [_about(key, text) for key, text in loose(entries).items()]
    return [
        *_unknown(entries),
        *_without_effect(entries),
        *_removed(entries),
        *_idle_queues(entries),
        *_empty_queues(entries),
        *unfit(entries),
        *unanchored,
    ]


def unfit(entries: Mapping[str, str]) -> list[Finding]:
    """Values that are ignored. The webhook rejects ConfigMaps with such values."""
    return [_about(key, text) for key, text in admission_warnings(entries).items()]


def awaiting_restart(old: Mapping[str, str], new: Mapping[str, str]) -> list[Finding]:
    """Changed settings that take effect at the next start."""
    return [
        _about(
            setting.key,
            f"= {setting.value(new) or 'the default'} takes effect after a restart; "
            f"the present value is {setting.value(old) or 'the default'}",
        )
        for setting in SETTINGS.values()
        if setting.takes is Takes.AT_START and setting.value(old) != setting.value(new)
    ]


def _unknown(entries: Iterable[str]) -> list[Finding]:
    return [_about(key, f"is not a setting of Muster{_meant(key)}") for key in sorted(entries) if not _is_known(key)]


def _is_known(key: str) -> bool:
    part = (subsystem_of(key) or "").partition(".")[0]
    return key in SETTINGS or key in MEANINGLESS or key.endswith(QUEUES) or part in SUBSYSTEMS


def _meant(key: str) -> str:
    """A suggestion of the most similar known key."""
    meant = nearest(key, SETTINGS)
    return f"; did you mean {meant}?" if meant else ""


def _without_effect(entries: Iterable[str]) -> list[Finding]:
    return [_about(key, f"has no effect here: {MEANINGLESS[key]}") for key in sorted(entries) if key in MEANINGLESS]


def _removed(entries: Mapping[str, str]) -> list[Finding]:
    """The placement mode that was removed."""
    if entries.get(settings.GANG_PLACEMENT, "").strip() != keys.PLACEMENT_REMOVED:
        return []
    text = f"= {keys.PLACEMENT_REMOVED} was removed; Auto is used. Valid values: Reserve, Direct or Auto"
    return [_about(settings.GANG_PLACEMENT, text)]


def _idle_queues(entries: Mapping[str, str]) -> list[Finding]:
    """Queue configurations that are not used although there is none with the expected name."""
    active = queues_key(entries)
    if active in entries:
        return []
    text = f"is not read: the active queue configuration is {active} (see {settings.POLICY_GROUP})"
    return [_about(key, text) for key in sorted(entries) if key.endswith(QUEUES)]


def queues_key(entries: Mapping[str, str]) -> str:
    """The name of the queue configuration that is used."""
    return f"{SETTINGS[settings.POLICY_GROUP].value(entries)}{QUEUES}"


def is_empty(queues: str) -> bool:
    """Whether the YAML text has only comments and document markers."""
    return all(line.split("#", 1)[0].strip() in {"", "---", "..."} for line in queues.splitlines())


def _empty_queues(entries: Mapping[str, str]) -> list[Finding]:
    active = queues_key(entries)
    text = "is empty: the active queues stay until a restart, and then the default queues apply; write the partitions"
    return [_about(active, text)] if active in entries and is_empty(entries[active]) else []
