"""Filters of placement rules: a list of names, or one name, or one expression.

Two and more entries are names; what is not one, or comes twice, is told and
left out. A single entry with any of ^$*+?()[{}| is an expression: of RE2, the
grammar that YuniKorn has too, so that none can hang the core.

Differs: a filter whose entries are all left out is refused; in YuniKorn it
matches nobody without a word.

Source: contract 2.10.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from muster_core.edge.config.document import below
from muster_core.edge.config.limits import is_group, is_user
from muster_core.edge.config.notes import Notes
from muster_core.edge.config.schema import FilterForm
from muster_core.model.config import RuleFilter
from muster_core.model.errors import ConfigurationError
from muster_core.model.expressions import problem

_TYPES: Final = {"": True, "allow": True, "deny": False}
_SPECIAL: Final = frozenset("^$*+?()[{}|")


def rule_filter(form: FilterForm, path: str, notes: Notes) -> RuleFilter:
    """Whom the rule is for. Raises ConfigurationError."""
    allow = _TYPES.get(form.type.lower())
    if allow is None:
        raise ConfigurationError(below(path, "type"), form.type, "is not a type of filter", "write allow or deny")
    users, user_expression = _entries(form.users, is_user, "user", below(path, "users"), notes)
    groups, group_expression = _entries(form.groups, is_group, "group", below(path, "groups"), notes)
    return RuleFilter(allow, users, groups, user_expression, group_expression)


def _entries(
    entries: Sequence[str], is_name: Callable[[str], bool], kind: str, path: str, notes: Notes
) -> tuple[frozenset[str], str]:
    """The names, and the expression."""
    if len(entries) == 1:
        return _only(entries[0], is_name, kind, below(path, 0))
    names = set()
    for index, entry in enumerate(entries):
        if not is_name(entry):
            notes.odd(below(path, index), f"{entry[:80]!r} is not a name of a {kind}, it is left out")
        elif entry in names:
            notes.odd(below(path, index), f"{entry!r} is there twice")
        names |= {entry} if is_name(entry) else set()
    if entries and not names:
        raise ConfigurationError(path, ", ".join(entries), f"has no name of a {kind}", "name one, or leave it out")
    return frozenset(names), ""


def _only(entry: str, is_name: Callable[[str], bool], kind: str, path: str) -> tuple[frozenset[str], str]:
    if _SPECIAL.isdisjoint(entry):
        if not is_name(entry):
            raise ConfigurationError(
                path, entry, f"is not a name of a {kind}, nor an expression", "write a name, or one such as ^dev-"
            )
        return frozenset({entry}), ""
    if why := problem(entry):
        raise ConfigurationError(path, entry, f"is not an expression: {why}", "write one of RE2, such as ^dev-")
    return frozenset(), entry
