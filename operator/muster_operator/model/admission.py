"""What the settings say of admission: which namespaces are served, and whose word about a user counts (contract 3, 7).

Patterns are regular expressions that are searched for, not matched in full, as Go and RE2 read them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol


class Pattern(Protocol):
    """A compiled regular expression."""

    def search(self, text: str, /) -> object | None:
        """Something, if the text contains what is looked for."""


Patterns = tuple[Pattern, ...]
#: Of users who are not named by any setting: nobody.
NO_PATTERNS: Final[Patterns] = ()


@dataclass(frozen=True, slots=True)
class NamespaceRules:
    """`admissionController.filtering.*`. Empty `process` and `label` mean every namespace."""

    process: Patterns = NO_PATTERNS
    bypass: Patterns = NO_PATTERNS
    label: Patterns = NO_PATTERNS
    no_label: Patterns = NO_PATTERNS


@dataclass(frozen=True, slots=True)
class AccessRules:
    """`admissionController.accessControl.*`: who may say for which user a pod is."""

    bypass_auth: bool = False
    trust_controllers: bool = True
    system_users: Patterns = NO_PATTERNS
    external_users: Patterns = NO_PATTERNS
    external_groups: Patterns = NO_PATTERNS


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """All of it. `scheduler_name` is the one that is set on pods of served namespaces."""

    namespaces: NamespaceRules = field(default_factory=NamespaceRules)
    access: AccessRules = field(default_factory=AccessRules)
    unique_app_ids: bool = False
    scheduler_name: str = "muster"
