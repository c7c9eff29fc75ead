"""Limits of users and groups: who is limited to what in a queue and all below it.

A limit may not be wider than what the queue has, nor than what the same user
or group (or `*`, where it is not named) is limited to in a queue above.
Source: contract 2.7.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from muster_core.edge.config.document import below
from muster_core.edge.config.notes import Notes
from muster_core.edge.config.quantities import amounts, as_written
from muster_core.edge.config.schema import LimitForm
from muster_core.model.config import QuotaLimit
from muster_core.model.errors import ConfigurationError
from muster_core.model.resources import UNLIMITED, Limit

_EVERYBODY: Final = "*"
_USER: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9:#/_.@-]*[$]?")
_GROUP: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9:_.-]*")


@dataclass(frozen=True, slots=True)
class Bound:
    """The most that may be limited to; `max_applications` 0 = unlimited."""

    max: Limit = UNLIMITED
    max_applications: int = 0

    def narrowed(self, other: Bound) -> Bound:
        """The tighter of the two in everything."""
        counts = [count for count in (self.max_applications, other.max_applications) if count]
        return Bound(self.max.narrowed(other.max), min(counts, default=0))


UNBOUND: Final = Bound()


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What the limits of the queues above leave to each user and group by name."""

    users: Mapping[str, Bound] = field(default_factory=lambda: MappingProxyType({}))
    groups: Mapping[str, Bound] = field(default_factory=lambda: MappingProxyType({}))


def is_user(name: str) -> bool:
    """Whether a user can have that name."""
    return _USER.fullmatch(name) is not None


def is_group(name: str) -> bool:
    """Whether a group can have that name."""
    return _GROUP.fullmatch(name) is not None


def limits(
    forms: Sequence[LimitForm], path: str, queue: Bound, above: Ceilings, notes: Notes
) -> tuple[tuple[QuotaLimit, ...], Ceilings]:
    """The limits of a queue that may use `queue`, and what they leave to those below. What is wrong is noted."""
    users = _Names("users", _USER, above.users)
    groups = _Names("groups", _GROUP, above.groups)
    found = []
    for index, form in enumerate(forms):
        spot = below(path, index)
        with notes.collecting():
            limit = _limit(form, spot)
            _check_within(form, Bound(limit.max, limit.max_applications), queue, "the queue", spot)
            users.add(form, form.users, spot)
            groups.add(form, form.groups, spot)
            found.append(limit)
    return tuple(found), Ceilings(users.ceilings(), groups.ceilings())


def _limit(form: LimitForm, path: str) -> QuotaLimit:
    if not form.users and not form.groups:
        raise ConfigurationError(path, "the limit", "is of nobody", "name users or groups, or '*' for everybody")
    spot = below(path, "maxresources")
    bounds = amounts(form.maxresources, spot)
    if not form.maxapplications and not bounds:
        raise ConfigurationError(path, "the limit", "bounds nothing", "add maxapplications or maxresources")
    if bounds and not any(bounds.values()):
        raise ConfigurationError(spot, "0", "is all there is", "leave one resource above 0")
    return QuotaLimit(
        users=tuple(form.users),
        groups=tuple(form.groups),
        max=Limit(bounds),
        max_applications=form.maxapplications,
        description=form.limit,
    )


def _check_within(form: LimitForm, wanted: Bound, most: Bound, whose: str, path: str) -> None:
    if most.max_applications and wanted.max_applications > most.max_applications:
        raise ConfigurationError(
            below(path, "maxapplications"),
            str(form.maxapplications),
            f"is more than the {most.max_applications} of {whose}",
            "write at most that",
        )
    for name, amount in wanted.max.items():
        over = most.max.get(name)
        if over is not None and amount > over:
            raise ConfigurationError(
                below(below(path, "maxresources"), name),
                (form.maxresources or {})[name],
                f"is more than the {as_written(name, over)} of {whose}",
                "write at most that",
            )


class _Names:
    """The users, or the groups, of all limits of one queue."""

    def __init__(self, key: str, form: re.Pattern[str], above: Mapping[str, Bound]) -> None:
        self._key = key
        self._form = form
        self._above = above
        self._seen: dict[str, Bound] = {}

    def add(self, form: LimitForm, names: Sequence[str], path: str) -> None:
        """Check the next entry's names against the rules and all before them."""
        bound = Bound(Limit(amounts(form.maxresources, path)), form.maxapplications)
        for index, name in enumerate(names):
            self._check(name, names, below(below(path, self._key), index))
            above = self._above.get(name) or self._above.get(_EVERYBODY) or UNBOUND
            _check_within(form, bound, above, f"{name!r} in a queue above", path)
            self._seen[name] = bound.narrowed(above)

    def ceilings(self) -> Mapping[str, Bound]:
        """What the queue's limits and those above it leave to those below."""
        return {**self._above, **self._seen}

    def _check(self, name: str, names: Sequence[str], spot: str) -> None:
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
