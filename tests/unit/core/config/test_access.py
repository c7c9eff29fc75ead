"""Access lists: everyone, users, groups; invalid names grant nothing and are reported."""

import pytest

from muster_core.config.document import Findings
from muster_core.config.queues import access
from muster_core.model.config import ALLOW_ALL, DENY_ALL, AccessList


def users(*names: str) -> AccessList:
    return AccessList(users=frozenset(names))


def groups(*names: str) -> AccessList:
    return AccessList(groups=frozenset(names))


@pytest.mark.parametrize(
    "text, found",
    [
        ("", DENY_ALL),
        (" ", DENY_ALL),
        ("*", ALLOW_ALL),
        (" * ", ALLOW_ALL),
        ("ann", users("ann")),
        ("ann,bob", users("ann", "bob")),
        (" devs", groups("devs")),
        ("\tdevs,ops", groups("devs", "ops")),
        ("ann,bob devs,ops", AccessList(users=frozenset({"ann", "bob"}), groups=frozenset({"devs", "ops"}))),
        ("ann ", users("ann")),
        ("ann   devs  ", AccessList(users=frozenset({"ann"}), groups=frozenset({"devs"}))),
        (",ann,,ann,", users("ann")),
        ("machine$", users("machine$")),
        ("ann@example.com", users("ann@example.com")),
    ],
)
def test_a_list_is_users_then_groups(text: str, found: AccessList) -> None:
    notes = Findings()
    assert access(text, "here", notes) == found
    assert notes.warnings() == ()


@pytest.mark.parametrize(
    "text, found, effects",
    [
        ("a:b,ann", users("ann"), "here.users: 'a:b' is not a valid name in an access list and is ignored"),
        (" a.b", DENY_ALL, "here.groups: 'a.b' is not a valid name in an access list and is ignored"),
        ("$", DENY_ALL, "here.users: '$' is not a valid name in an access list and is ignored"),
        ("*,ann", users("ann"), "here.users: '*' with other names has no effect; write it alone to match all"),
        (
            "ann *",
            users("ann"),
            "here.groups: '*' with other names has no effect; write it alone to match all",
        ),
    ],
)
def test_an_invalid_name_is_ignored_with_a_warning(text: str, found: AccessList, effects: str) -> None:
    notes = Findings()
    assert access(text, "here", notes) == found
    assert notes.warnings() == (effects,)
