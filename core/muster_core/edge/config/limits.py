"""Limits of users and groups: their form is checked, they are not enforced yet.

Source: contract 2.7.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from muster_core.edge.config.document import below
from muster_core.edge.config.notes import Notes
from muster_core.edge.config.quantities import amounts
from muster_core.edge.config.schema import LimitForm
from muster_core.model.errors import ConfigurationError

_EVERYBODY: Final = "*"
_USER: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9:#/_.@-]*[$]?")
_GROUP: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9:_.-]*")


def check(forms: Sequence[LimitForm], path: str, notes: Notes) -> None:
    """Raises ConfigurationError for the first entry that means nothing."""
    users = _Names("users", _USER)
    groups = _Names("groups", _GROUP)
    for index, form in enumerate(forms):
        spot = below(path, index)
        if not form.users and not form.groups:
            raise ConfigurationError(spot, "the limit", "is of nobody", "name users or groups, or '*' for everybody")
        users.add(form.users, spot)
        groups.add(form.groups, spot)
        _check_bounds(form, spot)
    if forms:
        notes.idle(path)


def _check_bounds(form: LimitForm, path: str) -> None:
    bounds = amounts(form.maxresources, below(path, "maxresources"))
    if not form.maxapplications and not bounds:
        raise ConfigurationError(path, "the limit", "bounds nothing", "add maxapplications or maxresources")
    if bounds and not any(bounds.values()):
        raise ConfigurationError(below(path, "maxresources"), "0", "is all there is", "leave one resource above 0")


class _Names:
    """The users, or the groups, of all limits of one queue."""

    def __init__(self, key: str, form: re.Pattern[str]) -> None:
        self._key = key
        self._form = form
        self._seen: set[str] = set()

    def add(self, names: Sequence[str], path: str) -> None:
        """Check the next entry's names against the rules and all before them."""
        for index, name in enumerate(names):
            spot = below(below(path, self._key), index)
            if name == _EVERYBODY and len(names) > 1:
                raise ConfigurationError(spot, name, "stands beside other names", "give it an entry of its own")
            if name != _EVERYBODY and not self._form.fullmatch(name):
                raise ConfigurationError(
                    spot, name, "is not a name of a user or group", "use letters, digits and _ . : -, a letter first"
                )
            if name in self._seen:
                raise ConfigurationError(spot, name, "is limited twice in one queue", "keep one of the two")
            if _EVERYBODY in self._seen:
                raise ConfigurationError(spot, name, "comes after '*'", "move the entry of '*' to the end")
            if name == _EVERYBODY and self._key == "groups" and not self._seen:
                raise ConfigurationError(spot, name, "needs a named group before it", "limit a group by name first")
            self._seen.add(name)
