"""Every setting that the ConfigMaps can hold: key, default, when a change counts, meaning (contract 3).

The one list of them: `muster config show` prints it, docs/reference/settings.md is made from it; a ConfigMap and
not here is told to its author, with the key that was probably meant.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from muster_operator.link.config import admission
from muster_operator.link.config import settings as read
from muster_operator.link.config.settings import subsystem_of
from muster_si import keys

#: Ends the keys of queue configurations.
QUEUES: Final = ".yaml"
#: How alike two keys have to be for one to be meant by the other.
ALIKE: Final = 0.75


class Takes(StrEnum):
    """When a changed value is in force."""

    AT_ONCE = "at once"
    AT_START = "at start"


@dataclass(frozen=True, slots=True)
class Setting:
    """`default` is written as the ConfigMap would have it; `meaning` is one line for people.

    `is_list`: an empty value is an empty list; of others it is as if the entry were not there.
    """

    key: str
    default: str
    takes: Takes
    meaning: str
    is_list: bool = False

    def is_set(self, entries: Mapping[str, str]) -> bool:
        """Whether the entries say anything about it."""
        return bool(entries.get(self.key, "").strip()) or (self.is_list and self.key in entries)

    def value(self, entries: Mapping[str, str]) -> str:
        """What counts with these entries, or the default."""
        return entries[self.key].strip() if self.is_set(entries) else self.default


@dataclass(frozen=True, slots=True)
class Finding:
    """What the author of an entry should know of it."""

    key: str
    line: str


def _about(key: str, says: str) -> Finding:
    return Finding(key, f"{key} {says}")


def _at_once(key: str, default: str, meaning: str) -> Setting:
    return Setting(key, default, Takes.AT_ONCE, meaning)


def _at_start(key: str, default: str, meaning: str) -> Setting:
    return Setting(key, default, Takes.AT_START, meaning)


CLOCKS: Final = (
    _at_once(
        read.GANG_PLACEMENT,
        "Reserve",
        "how gangs without `gangPlacement` get their places: `Reserve`, `Atomic` or `Direct`; it counts for those that "
        "begin from then on",
    ),
    _at_once(
        keys.EXTRA_PLACEHOLDER_TIMEOUT,
        "15m",
        "how long placeholders are waited for, where the application does not say `placeholderTimeoutInSeconds`",
    ),
    _at_once(
        keys.EXTRA_MAX_PLACEHOLDER_TIMEOUT,
        "24h",
        "longest placeholder timeout: a longer `placeholderTimeoutInSeconds` is reduced to it",
    ),
    _at_once(
        keys.EXTRA_WAIT_TIMEOUT,
        "0s",
        "how long a gang waits for its turn before it ends as its style says; `0s` = for ever",
    ),
    _at_once(
        keys.EXTRA_STARVATION_AGE,
        "10m",
        "from what age on head room is kept for a waiting gang, before younger applications",
    ),
    _at_once(
        keys.EXTRA_COMPLETING_TIMEOUT,
        "30s",
        "how long an application without pods stays Completing before it is Completed",
    ),
    _at_once(keys.EXTRA_CONFIRM_TIMEOUT, "2m", "how long a release may stay unconfirmed before its swap is given up"),
    _at_once(keys.EXTRA_MANAGER_TIMEOUT, "5m", "how long the core keeps what it knows of an operator that is gone"),
    _at_once(
        keys.EXTRA_RESERVATION_DELAY,
        "2s",
        "how long a pod that no node has room for waits before a node is reserved for it",
    ),
    _at_once(keys.EXTRA_RESERVATION_TIMEOUT, "1h", "how long that node stays reserved"),
    _at_once(keys.EXTRA_PREEMPTION_INTERVAL, "15s", "how long a pod waits between two attempts to preempt"),
    _at_once(
        keys.EXTRA_EMPTY_NODE_INTERVAL,
        "0s",
        "how often at most a node that could be emptied is recommended, while nothing waits; `0s` = never",
    ),
    _at_once(keys.EXTRA_EXPIRY, "72h", "how long an ended application can be looked at"),
)

OPERATOR: Final = (
    _at_start(read.CLUSTER_ID, "mycluster", "the name of the cluster towards the core and in REST"),
    _at_start(read.POLICY_GROUP, "queues", "the entry with the queues is `<policyGroup>.yaml`"),
    _at_start(read.SCHEDULER_NAMES, "muster,yunikorn", "pods with one of these as `schedulerName` are scheduled here"),
    _at_start(
        read.SHARING_GROUPS,
        "",
        "namespaces that share application IDs: `<group>=<namespace>,<namespace>`, separated by `;`; empty = every "
        "application has pods of one namespace only",
    ),
    _at_once(read.HOT_REFRESH, "true", "`false`: later changes wait for a restart"),
    _at_start(read.DISABLE_GANG, "false", "task groups are ignored"),
    _at_start(read.PLACEHOLDER_IMAGE, "registry.k8s.io/pause:3.7", "the image of placeholder pods"),
    _at_start(read.RUN_AS_USER, "0", "`runAsUser` of placeholders; 0 = the image decides"),
    _at_start(read.RUN_AS_GROUP, "0", "`runAsGroup` of placeholders; 0 = the image decides"),
    _at_start(read.FS_GROUP, "0", "`fsGroup` of placeholders; 0 = none"),
    _at_start(
        read.INSTANCE_TYPE_LABELS[1], "node.kubernetes.io/instance-type", "the label of nodes that names their type"
    ),
    _at_start(
        read.INSTANCE_TYPE_LABELS[0],
        "node.kubernetes.io/instance-type",
        "the same, as YuniKorn's documentation spells it",
    ),
    _at_start(
        read.VOLUME_BIND_TIMEOUT,
        "10m",
        "how long a pod that was given its node waits until its claims are bound, before it is given another one",
    ),
    _at_start(read.QPS, "0", "writes to the API server a second; 0 = as many as it takes"),
    _at_start(read.BURST, "0", "how many of them at once after a quiet time"),
    _at_start(read.WRITERS, "64", "requests to the API server in flight at once"),
)


def _rules(key: str, meaning: str) -> Setting:
    """A setting of admission; the texts are regular expressions with commas between them, unless it is a switch."""
    default = admission.DEFAULTS[key]
    return Setting(key, default, Takes.AT_ONCE, meaning, is_list=default not in {"true", "false"})


ADMISSION: Final = (
    _rules(admission.PROCESS_NAMESPACES, "namespaces whose pods become Muster's; empty = all"),
    _rules(admission.BYPASS_NAMESPACES, "and those of them whose pods do not"),
    _rules(admission.LABEL_NAMESPACES, "namespaces in which pods without an application get one written; empty = all"),
    _rules(admission.NO_LABEL_NAMESPACES, "and those of them in which they do not"),
    _at_start(read.UNIQUE_APP_IDS, "false", "a pod without an application gets one of its own"),
    _rules(admission.BYPASS_AUTH, "`true`: everybody may write everybody's name into `user.info`"),
    _rules(
        admission.TRUST_CONTROLLERS,
        "`false`: `systemUsers` do not count; unless `externalUsers` has them, workloads with an owner make no pods",
    ),
    _rules(admission.SYSTEM_USERS, "users that make pods for others: the controllers of Kubernetes, operators"),
    _rules(admission.EXTERNAL_USERS, "other users that may write everybody's name"),
    _rules(admission.EXTERNAL_GROUPS, "groups whose members may"),
)

LEVELS: Final = "log.<subsystem>.level"
TELLING: Final = (
    _at_once(keys.SETTING_EVENT_TRACKING, "true", "changes are noted for REST; off keeps what was noted"),
    _at_once(keys.SETTING_EVENT_RING, "100000", "how many are kept; fewer drops the oldest"),
    _at_once(keys.SETTING_EVENT_RING_OTHER, "100000", "the same, as YuniKorn's documentation spells it"),
    _at_once(keys.SETTING_EVENT_REQUESTS, "1000", "how many wait for the operator"),
    _at_once(keys.SETTING_EVENT_RESPONSE, "10000", "the most in one answer"),
    _at_once(keys.SETTING_EVENT_STREAMS, "100", "streams of events at once"),
    _at_once(keys.SETTING_EVENT_STREAMS_PER_HOST, "15", "of one client"),
    _at_once(keys.SETTING_HEALTH_INTERVAL, "30s", "between two checks of the core's health; `0s` = none"),
    _at_once(
        keys.SETTING_LOG_LEVEL,
        "INFO",
        "DEBUG, INFO, WARN, ERROR, DPANIC, PANIC, FATAL or -1 to 5; not set: what the command line says",
    ),
    _at_once(LEVELS, "", "the same for a part of Muster; not set: as the one above it, `core.rest` as `core`"),
)

#: What the names of subsystems begin with: parts of the core, of the operator, of its admission (contract 3.1).
SUBSYSTEMS: Final = frozenset({"admission", "core", "deprecation", "kubernetes", "shim"})

#: By heading, in the order in which people read them.
CATALOGUE: Final[Mapping[str, tuple[Setting, ...]]] = MappingProxyType(
    {
        "Gangs and clocks": CLOCKS,
        "Operator": OPERATOR,
        "Admission": ADMISSION,
        "Events, health and logs": TELLING,
    }
)
SETTINGS: Final[Mapping[str, Setting]] = MappingProxyType(
    {setting.key: setting for group in CATALOGUE.values() for setting in group}
)

#: Keys of YuniKorn that mean nothing here, and why nothing is missing.
MEANINGLESS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "admissionController.filtering.defaultQueue": "write a placement rule of the name fixed instead",
        "admissionController.webHook.amServiceName": "the operator's option `--webhook-service` says it",
        "admissionController.webHook.schedulerServiceAddress": "the operator asks its own core",
        "service.dispatchTimeout": "nothing is dispatched through a channel that could be full",
        "service.eventChannelCapacity": "nothing is dispatched through a channel that could be full",
        "service.operatorPlugins": "there are no plug-ins of this kind, nor any longer in YuniKorn",
        "service.schedulingInterval": "a cycle runs when something changed, not by a clock",
    }
)


def doubts(entries: Mapping[str, str]) -> list[Finding]:
    """What is odd about these entries: keys, and values that are not worth a refusal. Others are judged elsewhere."""
    loose = [_about(key, says) for key, says in admission.loose(entries).items()]
    return [*_unknown(entries), *_without_effect(entries), *_idle_queues(entries), *unfit(entries), *loose]


def unfit(entries: Mapping[str, str]) -> list[Finding]:
    """Values that cannot be used, and without which the operator goes on; nobody should be able to store one."""
    return [_about(key, says) for key, says in admission.doubts(entries).items()]


def awaiting_restart(old: Mapping[str, str], new: Mapping[str, str]) -> list[Finding]:
    """The settings that differ and are read at the start only."""
    return [
        _about(setting.key, f"= {setting.value(new)} counts after a restart; now it is {setting.value(old)}")
        for setting in SETTINGS.values()
        if setting.takes is Takes.AT_START and setting.value(old) != setting.value(new)
    ]


def _unknown(entries: Iterable[str]) -> list[Finding]:
    return [_about(key, f"is not a setting of Muster{_meant(key)}") for key in sorted(entries) if not _is_known(key)]


def _is_known(key: str) -> bool:
    part = (subsystem_of(key) or "").partition(".")[0]
    return key in SETTINGS or key in MEANINGLESS or key.endswith(QUEUES) or part in SUBSYSTEMS


def _meant(key: str) -> str:
    """The known key that it looks like, as a question."""
    lower = {known.lower(): known for known in SETTINGS}
    found = difflib.get_close_matches(key.lower(), lower, n=1, cutoff=ALIKE)
    return f"; is {lower[found[0]]} meant?" if found else ""


def _without_effect(entries: Iterable[str]) -> list[Finding]:
    return [_about(key, f"has no effect here: {MEANINGLESS[key]}") for key in sorted(entries) if key in MEANINGLESS]


def _idle_queues(entries: Mapping[str, str]) -> list[Finding]:
    """Queue configurations that are not read, where none is: a file of a slightly wrong name."""
    in_force = f"{SETTINGS[read.POLICY_GROUP].value(entries)}{QUEUES}"
    if in_force in entries:
        return []
    says = f"is not read: the queue configuration in force is {in_force} (see {read.POLICY_GROUP})"
    return [_about(key, says) for key in sorted(entries) if key.endswith(QUEUES)]
