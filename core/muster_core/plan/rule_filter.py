"""Whether a placement rule is for this user: its filter's answer.

Names are compared as they are, case counts; an expression is searched for in
the user's name, and in one group at a time. A filter that names nobody means
everybody: allowed by `allow`, passed over by `deny`. Groups that are not known (None)
leave a filter that reads them undecided, unless the user's name decides it. Source: contract 2.10.
"""

from __future__ import annotations

from collections.abc import Sequence

from muster_core.model import expressions
from muster_core.model.config import RuleFilter


def admits(found: RuleFilter | None, user: str, groups: Sequence[str] | None) -> bool | None:
    """Whether the rule is to be asked for this user; None = that depends on groups that are not known."""
    if found is None:
        return True
    matched = _matches(found, user, groups)
    return None if matched is None else matched is found.allow


def _matches(found: RuleFilter, user: str, groups: Sequence[str] | None) -> bool | None:
    if not (found.users or found.groups or found.user_expression or found.group_expression):
        return True
    if user in found.users or _is_in(found.user_expression, user):
        return True
    if groups is None:
        return None if found.groups or found.group_expression else False
    return any(group in found.groups or _is_in(found.group_expression, group) for group in groups)


def _is_in(expression: str, name: str) -> bool:
    return bool(expression) and expressions.matches(expression, name)
