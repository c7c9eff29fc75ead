"""Validates placement rules.

Differs: a filter whose entries are all invalid is rejected. In YuniKorn such a filter matches no user, without a
warning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from muster_core.config.document import Findings, below
from muster_core.config.queues import queue_name
from muster_core.config.quotas import is_group, is_user
from muster_core.config.schema import FilterForm, RuleForm
from muster_core.model.config import PlacementRule, QueueConfig, RuleFilter, problem
from muster_core.model.errors import ConfigurationError
from muster_core.model.ids import ROOT

_TYPES: Final = {"": True, "allow": True, "deny": False}
_SPECIAL: Final = frozenset("^$*+?()[{}|")


def rule_filter(form: FilterForm, path: str, notes: Findings) -> RuleFilter:
    """Returns the filter of a rule. Raises ConfigurationError."""
    allow = _TYPES.get(form.type.lower())
    if allow is None:
        raise ConfigurationError(below(path, "type"), form.type, "is not a type of filter", "write allow or deny")
    users, user_expression = _entries(form.users, is_user, "user", below(path, "users"), notes)
    groups, group_expression = _entries(form.groups, is_group, "group", below(path, "groups"), notes)
    return RuleFilter(allow, users, groups, user_expression, group_expression)


def _entries(
    entries: Sequence[str], is_name: Callable[[str], bool], kind: str, path: str, notes: Findings
) -> tuple[frozenset[str], str]:
    """Returns the names and the regular expression."""
    if len(entries) == 1:
        return _only(entries[0], is_name, kind, below(path, 0))
    names = set()
    for index, entry in enumerate(entries):
        if not is_name(entry):
            notes.odd(below(path, index), f"{entry[:80]!r} is not a {kind} name and is ignored")
        elif entry in names:
            notes.odd(below(path, index), f"{entry!r} is listed twice")
        names |= {entry} if is_name(entry) else set()
    if entries and not names:
        raise ConfigurationError(path, ", ".join(entries), f"has no valid {kind} name", "name one, or remove it")
    return frozenset(names), ""


def _only(entry: str, is_name: Callable[[str], bool], kind: str, path: str) -> tuple[frozenset[str], str]:
    if _SPECIAL.isdisjoint(entry):
        if not is_name(entry):
            raise ConfigurationError(
                path,
                entry,
                f"is neither a {kind} name nor a regular expression",
                "write a name, or an expression: ^dev-",
            )
        return frozenset({entry}), ""
    if why := problem(entry):
        raise ConfigurationError(path, entry, f"is not a regular expression: {why}", "use RE2 syntax, such as ^dev-")
    return frozenset(), entry


_NAMES: Final = ("provided", "user", "fixed", "tag")
_FIXED: Final = "fixed"
_QUALIFIED: Final = f"{ROOT}."


def rules(forms: Sequence[RuleForm], path: str, root: QueueConfig, notes: Findings) -> tuple[PlacementRule, ...]:
    """Returns the rules in their order. Errors are added to `notes`."""
    found = []
    for index, form in enumerate(forms):
        spot = below(path, index)
        with notes.collecting():
            rule = _rule(form, spot, notes)
            _check_fixed_part(rule, spot, root)
            found.append(rule)
    return tuple(found)


def _rule(form: RuleForm, path: str, notes: Findings) -> PlacementRule:
    name = form.name.lower()
    if name not in _NAMES:
        raise ConfigurationError(
            below(path, "name"), form.name, "is not a placement rule", f"choose one of {', '.join(_NAMES)}"
        )
    value = _value(name, form.value, below(path, "value"))
    parent = None if form.parent is None else _rule(form.parent, below(path, "parent"), notes)
    if name == _FIXED and parent is not None and value.startswith(_QUALIFIED):
        raise ConfigurationError(
            below(path, "value"), form.value, "starts at root and has a parent rule too", "remove one of the two"
        )
    who = None if form.filter is None else rule_filter(form.filter, below(path, "filter"), notes)
    return PlacementRule(name, create=form.create, value=value, parent=parent, filter=who)


def _value(name: str, value: str, path: str) -> str:
    if name == _FIXED:
        if not value:
            raise ConfigurationError(path, value, "is required by the rule fixed", "write the path of a queue")
        return ".".join(queue_name(part, path) for part in value.split("."))
    if name == "tag" and not value:
        raise ConfigurationError(path, value, "is required by the rule tag", "write a tag, such as namespace")
    return value


def _check_fixed_part(rule: PlacementRule, path: str, root: QueueConfig) -> None:
    """Checks that the leading fixed rules of a chain name existing queues, or queues that may be created."""
    place: str = ROOT
    for step in _innermost_first(rule):
        if step.name != _FIXED:
            break
        place = _joined(place, step.value)
        _check_place(place, path, root, create=step.create, is_target=step is rule)


def _innermost_first(rule: PlacementRule) -> Iterator[PlacementRule]:
    if rule.parent is not None:
        yield from _innermost_first(rule.parent)
    yield rule


def _joined(place: str, value: str) -> str:
    return value if value == ROOT or value.startswith(_QUALIFIED) else f"{place}.{value}"


def _check_place(place: str, path: str, root: QueueConfig, *, create: bool, is_target: bool) -> None:
    queue = root
    for name in place.split(".")[1:]:
        child = next((child for child in queue.children if child.name == name), None)
        if child is None:
            if not queue.parent:
                raise ConfigurationError(path, place, f"would be below the leaf {queue.name}", "name another queue")
            if not create:
                raise ConfigurationError(path, place, "is not a queue", "add it under queues, or write create: true")
            return
        queue = child
    if is_target and queue.parent:
        raise ConfigurationError(path, place, "is a parent queue and accepts no applications", "name a leaf")
    if not is_target and not queue.parent:
        raise ConfigurationError(path, place, "is a leaf and can have no queue below it", "name a parent queue")
