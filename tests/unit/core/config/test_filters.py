"""Filters of placement rules: names, one name, or one expression."""

import pytest

from muster_core.config.load import load
from muster_core.model.config import RuleFilter
from tests.unit.core.config.tree import unplaced

PATH = "partitions[0].placementrules[0].filter"


def of(text: str) -> tuple[RuleFilter | None, tuple[str, ...]]:
    """Return the filter and its problems."""
    loaded = load(
        "partitions: [{queues: [{name: a}], placementrules: [{name: user, create: true, filter: " + text + "}]}]", {}
    )
    return loaded.configuration.partitions[0].rules[0].filter, unplaced(loaded.warnings)


@pytest.mark.parametrize(
    "text, found",
    [
        ("{}", RuleFilter()),
        ("{type: ALLOW}", RuleFilter()),
        ("{type: deny, users: [ann]}", RuleFilter(allow=False, users=frozenset({"ann"}))),
        ("{users: [ann, bob], groups: [devs]}", RuleFilter(True, frozenset({"ann", "bob"}), frozenset({"devs"}))),
        ("{users: ['^dev-']}", RuleFilter(user_expression="^dev-")),
        ("{groups: ['a|b'], users: ['.*']}", RuleFilter(user_expression=".*", group_expression="a|b")),
        ("{users: [machine$]}", RuleFilter(user_expression="machine$")),
        ("{users: [machine$, ann]}", RuleFilter(users=frozenset({"machine$", "ann"}))),
        ("{users: [a.b]}", RuleFilter(users=frozenset({"a.b"}))),
    ],
)
def test_one_entry_may_be_an_expression_and_several_are_names(text: str, found: RuleFilter) -> None:
    assert of(text) == (found, ())


def test_invalid_or_duplicate_entries_are_ignored_with_a_warning() -> None:
    found, effects = of("{users: [ann, '^b', ann], groups: ['a/b', devs]}")
    assert found == RuleFilter(users=frozenset({"ann"}), groups=frozenset({"devs"}))
    assert effects == (
        f"{PATH}.users[1]: '^b' is not a user name and is ignored",
        f"{PATH}.users[2]: 'ann' is listed twice",
        f"{PATH}.groups[0]: 'a/b' is not a group name and is ignored",
    )
