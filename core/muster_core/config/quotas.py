"""Validates quotas, guarantees and limits of queues."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from muster_core.config.document import Findings, amounts, as_written, below, valid_amounts
from muster_core.config.schema import LimitForm, QueueForm
from muster_core.model.config import QueueConfig, QuotaLimit
from muster_core.model.errors import ConfigurationError
from muster_core.model.resources import NOTHING, UNLIMITED, Limit, Resources


def resources(form: QueueForm, path: str, above: Limit, notes: Findings) -> tuple[Limit, Resources]:
    """Returns maximum and guarantee of a queue whose ancestors allow `above`. Errors are added to `notes`."""
    spot = below(path, "resources")
    own_max = Limit(valid_amounts(form.resources.max, below(spot, "max"), notes))
    guaranteed = Resources(valid_amounts(form.resources.guaranteed, below(spot, "guaranteed"), notes))
    notes.resources(form.resources.max, below(spot, "max"))
    notes.resources(form.resources.guaranteed, below(spot, "guaranteed"))
    for name, bound in own_max.items():
        over = above.get(name)
        if over is not None and bound > over:
            rule = f"exceeds the max of a parent queue, {as_written(name, over)}"
            fix = "lower it, or raise the max of the parent"
            notes.wrong(
                ConfigurationError(below(below(spot, "max"), name), _written(form.resources.max, name), rule, fix)
            )
    for name in above.narrowed(own_max).excess(guaranteed):
        where, rule = below(below(spot, "guaranteed"), name), "exceeds the max of the queue or of a parent queue"
        value = _written(form.resources.guaranteed, name)
        notes.wrong(ConfigurationError(where, value, rule, "lower guaranteed, or raise max"))
    return own_max, guaranteed


def _written(texts: Mapping[str, str] | None, name: str) -> str:
    return (texts or {}).get(name, "")


def applications(form: QueueForm, path: str, above: int, notes: Findings) -> int:
    """Returns how many applications may run; 0 = unlimited. Errors are added to `notes`.

    YuniKorn also accepts 0, although its documentation forbids it.
    """
    spot, most = below(path, "maxapplications"), form.maxapplications
    if above and not most:
        value, rule = None if most is None else "0", "must be set because a parent queue sets it"
        notes.wrong(ConfigurationError(spot, value, rule, f"write 1 to {above}"))
    if above and most and most > above:
        rule = f"exceeds the maximum of the parent queue, {above}"
        notes.wrong(ConfigurationError(spot, str(most), rule, "lower it"))
    if most == 0:
        notes.odd(spot, "0 means unlimited")
    return most or 0


def check_children(children: Sequence[QueueConfig], guaranteed: Resources, most: Limit, path: str) -> None:
    """Checks that the guarantees of all children fit into the parent. Raises ConfigurationError."""
    total = NOTHING
    for child in children:
        total += _promised(child)
    bounds = (("guaranteed", Limit(dict(guaranteed.items()))), ("max", most))
    for what, bound in bounds:
        for name in bound.excess(total):
            raise ConfigurationError(
                path,
                f"{as_written(name, total[name])} of {name}",
                f"is the sum of the guarantees of the children and exceeds the {what} of the parent "
                f"({as_written(name, bound.get(name) or 0)})",
                f"lower the guarantees, or raise the {what}",
            )


def _promised(queue: QueueConfig) -> Resources:
    """Returns the guarantee of the queue, or the sum of its children's guarantees if that is larger, per resource."""
    total = NOTHING
    for child in queue.children:
        total += _promised(child)
    return Resources({name: max(queue.guaranteed[name], total[name]) for name in {*queue.guaranteed, *total}})


_EVERYBODY: Final = "*"
_USER: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9:#/_.@-]*[$]?")
_GROUP: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9:_.-]*")


@dataclass(frozen=True, slots=True)
class LimitBound:
    """Upper bound of a limit; `max_applications` 0 = unlimited."""

    max: Limit = UNLIMITED
    max_applications: int = 0

    def narrowed(self, other: LimitBound) -> LimitBound:
        """The smaller of both bounds for every resource and for applications."""
        counts = [count for count in (self.max_applications, other.max_applications) if count]
        return LimitBound(self.max.narrowed(other.max), min(counts, default=0))


UNBOUND: Final = LimitBound()


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The limits of the ancestors by user and group."""

    users: Mapping[str, LimitBound] = field(default_factory=lambda: MappingProxyType({}))
    groups: Mapping[str, LimitBound] = field(default_factory=lambda: MappingProxyType({}))


def is_user(name: str) -> bool:
    """Whether this is a valid user name."""
    return _USER.fullmatch(name) is not None


def is_group(name: str) -> bool:
    """Whether this is a valid group name."""
    return _GROUP.fullmatch(name) is not None


def limits(
    forms: Sequence[LimitForm], path: str, queue: LimitBound, above: Ceilings, notes: Findings
) -> tuple[tuple[QuotaLimit, ...], Ceilings]:
    """Returns the limits of a queue whose quota is `queue`, and the ceilings for its children. Errors are added to
    `notes`.
    """
    users = _Names("users", _USER, above.users)
    groups = _Names("groups", _GROUP, above.groups)
    found = []
    for index, form in enumerate(forms):
        spot = below(path, index)
        with notes.collecting():
            notes.resources(form.maxresources, below(spot, "maxresources"))
            limit = _limit(form, spot)
            _check_within(form, LimitBound(limit.max, limit.max_applications), queue, "maximum of the queue", spot)
            users.add(form, form.users, spot)
            groups.add(form, form.groups, spot)
            found.append(limit)
    return tuple(found), Ceilings(users.ceilings(), groups.ceilings())


def _limit(form: LimitForm, path: str) -> QuotaLimit:
    if not form.users and not form.groups:
        raise ConfigurationError(path, None, "names no user or group", "name users or groups, or '*' for all")
    spot = below(path, "maxresources")
    bounds = amounts(form.maxresources, spot)
    if not form.maxapplications and not bounds:
        raise ConfigurationError(path, None, "sets no limit", "add maxapplications or maxresources")
    if bounds and not any(bounds.values()):
        raise ConfigurationError(spot, "0", "is the maximum of every resource", "set at least one resource above 0")
    return QuotaLimit(
        users=tuple(form.users),
        groups=tuple(form.groups),
        max=Limit(bounds),
        max_applications=form.maxapplications,
        description=form.limit,
    )


def _check_within(form: LimitForm, wanted: LimitBound, most: LimitBound, maximum: str, path: str) -> None:
    if most.max_applications and wanted.max_applications > most.max_applications:
        raise ConfigurationError(
            below(path, "maxapplications"),
            str(form.maxapplications),
            f"exceeds the {maximum}, {most.max_applications}",
            "lower it",
        )
    for name, amount in wanted.max.items():
        over = most.max.get(name)
        if over is not None and amount > over:
            raise ConfigurationError(
                below(below(path, "maxresources"), name),
                (form.maxresources or {})[name],
                f"exceeds the {maximum}, {as_written(name, over)}",
                "lower it",
            )


class _Names:
    """Names of users or groups in all limits of one queue."""

    def __init__(self, key: str, form: re.Pattern[str], above: Mapping[str, LimitBound]) -> None:
        self._key = key
        self._form = form
        self._above = above
        self._seen: dict[str, LimitBound] = {}

    def add(self, form: LimitForm, names: Sequence[str], path: str) -> None:
        """Checks the names of the next limit against the syntax and all previous names."""
        bound = LimitBound(Limit(amounts(form.maxresources, path)), form.maxapplications)
        for index, name in enumerate(names):
            self._check(name, names, below(below(path, self._key), index))
            above = self._above.get(name) or self._above.get(_EVERYBODY) or UNBOUND
            _check_within(form, bound, above, f"limit of {name!r} in a parent queue", path)
            self._seen[name] = bound.narrowed(above)

    def ceilings(self) -> Mapping[str, LimitBound]:
        """Returns the ceilings for the children of the queue."""
        return {**self._above, **self._seen}

    def _check(self, name: str, names: Sequence[str], spot: str) -> None:
        if name == _EVERYBODY and len(names) > 1:
            raise ConfigurationError(spot, name, "is combined with other names", "use a separate entry")
        if name != _EVERYBODY and not self._form.fullmatch(name):
            raise ConfigurationError(
                spot, name, "is not a user or group name", "use letters, digits and _ . : -, a letter first"
            )
        if name in self._seen:
            raise ConfigurationError(spot, name, "has two limits in the same queue", "keep one of the two")
        if _EVERYBODY in self._seen:
            raise ConfigurationError(spot, name, "comes after '*'", "move the entry of '*' to the end")
        if name == _EVERYBODY and self._key == "groups" and not self._seen:
            raise ConfigurationError(spot, name, "needs a named group before it", "limit a group by name first")
