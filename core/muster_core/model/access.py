"""Who may: an access list of users and groups, as a value that answers.

Source: contract 2.8.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Access:
    """`everybody`: the list was `*`. No entry forbids; who is not named is not allowed."""

    everybody: bool = False
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def allows(self, user: str, groups: Iterable[str]) -> bool:
        """Whether the list names the user or one of the groups."""
        return self.everybody or user in self.users or any(group in self.groups for group in groups)


NOBODY: Final = Access()
EVERYBODY: Final = Access(everybody=True)
