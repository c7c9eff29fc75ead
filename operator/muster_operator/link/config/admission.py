"""`admissionController.*` of the ConfigMaps, checked (contract 3). A change is in force at once.

A bad value never stops the operator nor changes what the others say: its key's default is used, and a warning names
the key, the value and the fix. An entry that is there and empty is an empty list.

Differs: YuniKorn drops a bad list in silence but for its own log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

import re2

from muster_operator.link.config.settings import UNIQUE_APP_IDS
from muster_operator.model.admission import AccessRules, AdmissionSettings, NamespaceRules, Pattern, Patterns

PROCESS_NAMESPACES: Final = "admissionController.filtering.processNamespaces"
BYPASS_NAMESPACES: Final = "admissionController.filtering.bypassNamespaces"
LABEL_NAMESPACES: Final = "admissionController.filtering.labelNamespaces"
NO_LABEL_NAMESPACES: Final = "admissionController.filtering.noLabelNamespaces"
BYPASS_AUTH: Final = "admissionController.accessControl.bypassAuth"
TRUST_CONTROLLERS: Final = "admissionController.accessControl.trustControllers"
SYSTEM_USERS: Final = "admissionController.accessControl.systemUsers"
EXTERNAL_USERS: Final = "admissionController.accessControl.externalUsers"
EXTERNAL_GROUPS: Final = "admissionController.accessControl.externalGroups"

#: As the ConfigMap would have them.
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

#: The name that is set on pods, if it is served.
_OWN_NAME: Final = "muster"
#: Characters of one expression, and bytes that it may take compiled.
_LONGEST: Final = 1024
_MOST_MEMORY: Final = 1024 * 1024
_BOOLEANS: Final = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}

T = TypeVar("T")


class _Unfit(Exception):
    """A value means nothing; says why, and what to write."""


@dataclass(frozen=True, slots=True)
class _Reader:
    entries: Mapping[str, str]
    warnings: list[str] = field(default_factory=list)

    def read(self, key: str, parser: Callable[[str], T]) -> T:
        """The value of the entry, or of the key's default."""
        written = self.entries.get(key, DEFAULTS[key])
        try:
            return parser(written)
        except _Unfit as error:
            default = f'"{DEFAULTS[key]}"' if DEFAULTS[key] else "none"
            self.warnings.append(f"{key}: {error}; till then its default counts, {default}")
            return parser(DEFAULTS[key])


def parse(entries: Mapping[str, str], scheduler_names: frozenset[str]) -> tuple[AdmissionSettings, tuple[str, ...]]:
    """The settings, and a warning for each value that is not used. `scheduler_names`: those that are served."""
    reader = _Reader(entries)
    settings = AdmissionSettings(
        namespaces=NamespaceRules(
            process=reader.read(PROCESS_NAMESPACES, _patterns),
            bypass=reader.read(BYPASS_NAMESPACES, _patterns),
            label=reader.read(LABEL_NAMESPACES, _patterns),
            no_label=reader.read(NO_LABEL_NAMESPACES, _patterns),
        ),
        access=AccessRules(
            bypass_auth=reader.read(BYPASS_AUTH, _boolean),
            trust_controllers=reader.read(TRUST_CONTROLLERS, _boolean),
            system_users=reader.read(SYSTEM_USERS, _patterns),
            external_users=reader.read(EXTERNAL_USERS, _patterns),
            external_groups=reader.read(EXTERNAL_GROUPS, _patterns),
        ),
        unique_app_ids=reader.read(UNIQUE_APP_IDS, _boolean),
        scheduler_name=_OWN_NAME if _OWN_NAME in scheduler_names else min(scheduler_names, default=_OWN_NAME),
    )
    return settings, tuple(reader.warnings)


def _boolean(written: str) -> bool:
    try:
        return _BOOLEANS[written.strip().lower()]
    except KeyError:
        raise _Unfit(f'"{written[:80]}" is neither yes nor no; write true or false') from None


def _patterns(written: str) -> Patterns:
    return tuple(_compiled(part.strip()) for part in written.split(",") if part.strip())


def _compiled(expression: str) -> Pattern:
    if len(expression) > _LONGEST:
        raise _Unfit(f'"{expression[:40]}..." is longer than {_LONGEST} characters; write a shorter expression')
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MOST_MEMORY
    try:
        compiled: Pattern = re2.compile(expression, options)
    except re2.error as error:
        said = error.args[0] if error.args else "no reason"
        reason = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        fix = "write expressions of RE2 with commas between them, and none inside one"
        raise _Unfit(f'"{expression[:80]}" is no regular expression ({reason}); {fix}') from None
    return compiled
