"""`admissionController.*` of the ConfigMaps, checked (contract 3). A change is in force at once.

A bad value never stops the operator nor changes what the others say, and a warning names the key, the value and the
fix. Meanwhile the key's default counts; of a list of namespaces only the bad expression is nothing, for its default is
all of them. An entry that is there and empty is an empty list.

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
#: Cannot be found in anything.
_NOTHING: Final = "x^"
_BOOLEANS: Final = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}

T = TypeVar("T")


class _Unfit(Exception):
    """A value means nothing; says why, and what to write."""


@dataclass(frozen=True, slots=True)
class _Reader:
    entries: Mapping[str, str]
    doubts: dict[str, str] = field(default_factory=dict)

    def switch(self, key: str) -> bool:
        """True or false; an empty entry says neither."""
        return self._read(key, _boolean, self.entries.get(key, "").strip() or DEFAULTS[key])

    def namespaces(self, key: str) -> Patterns:
        """A list, in which a bad expression finds nothing."""
        return tuple(self._found(key, part) for part in _parts(self.entries.get(key, DEFAULTS[key])))

    def _found(self, key: str, expression: str) -> Pattern:
        try:
            return _compiled(expression)
        except _Unfit as error:
            self.doubts[key] = f"= {error}; till then it finds no namespace"
            return _compiled(_NOTHING)

    def patterns(self, key: str) -> Patterns:
        """A list; an empty entry is an empty one."""
        return self._read(key, _patterns, self.entries.get(key, DEFAULTS[key]))

    def _read(self, key: str, parser: Callable[[str], T], written: str) -> T:
        try:
            return parser(written)
        except _Unfit as error:
            default = f'"{DEFAULTS[key]}"' if DEFAULTS[key] else "none"
            self.doubts[key] = f"= {error}; till then its default counts, {default}"
            return parser(DEFAULTS[key])


def parse(entries: Mapping[str, str], scheduler_names: frozenset[str]) -> tuple[AdmissionSettings, tuple[str, ...]]:
    """The settings, and a warning for each value that is not used. `scheduler_names`: those that are served."""
    reader = _Reader(entries)
    settings = _settings(reader, scheduler_names)
    return settings, tuple(f"{key} {says}" for key, says in reader.doubts.items())


def doubts(entries: Mapping[str, str]) -> dict[str, str]:
    """By key what is wrong with its value."""
    reader = _Reader(entries)
    _settings(reader, frozenset())
    return reader.doubts


def loose(entries: Mapping[str, str]) -> dict[str, str]:
    """By key which expression trusts more names than it seems to: everybody may call a service account as he likes."""
    found: dict[str, str] = {}
    for key in (SYSTEM_USERS, EXTERNAL_USERS, EXTERNAL_GROUPS):
        for part in _parts(entries.get(key, "")):
            if "^" not in part and r"\A" not in part:
                found[key] = (
                    f'= "{part[:80]}" is found within other names too, of service accounts for one; write ^ and $'
                )
    return found


def _settings(reader: _Reader, scheduler_names: frozenset[str]) -> AdmissionSettings:
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
        scheduler_name=_OWN_NAME if _OWN_NAME in scheduler_names else min(scheduler_names, default=_OWN_NAME),
    )


def _boolean(written: str) -> bool:
    try:
        return _BOOLEANS[written.strip().lower()]
    except KeyError:
        raise _Unfit(f'"{written[:80]}" is neither yes nor no; write true or false') from None


def _patterns(written: str) -> Patterns:
    return tuple(_compiled(part) for part in _parts(written))


def _parts(written: str) -> list[str]:
    return [part.strip() for part in written.split(",") if part.strip()]


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
