"""Access lists: everybody, users, groups; names that can be nobody's grant nothing and are told (contract 2.8)."""

import pytest

from muster_core.edge.config.access import access
from muster_core.edge.config.notes import Notes
from muster_core.model.access import EVERYBODY, NOBODY, Access


def users(*names: str) -> Access:
    return Access(users=frozenset(names))


def groups(*names: str) -> Access:
    return Access(groups=frozenset(names))


@pytest.mark.parametrize(
    "text, found",
    [
        ("", NOBODY),
        (" ", NOBODY),
        ("*", EVERYBODY),
        (" * ", EVERYBODY),
        ("ann", users("ann")),
        ("ann,bob", users("ann", "bob")),
        (" devs", groups("devs")),
        ("\tdevs,ops", groups("devs", "ops")),
        ("ann,bob devs,ops", Access(users=frozenset({"ann", "bob"}), groups=frozenset({"devs", "ops"}))),
        ("ann ", users("ann")),
        ("ann   devs  ", Access(users=frozenset({"ann"}), groups=frozenset({"devs"}))),
        (",ann,,ann,", users("ann")),
        ("machine$", users("machine$")),
        ("ann@example.com", users("ann@example.com")),
    ],
)
def test_a_list_is_users_then_groups(text: str, found: Access) -> None:
    notes = Notes()
    assert access(text, "here", notes) == found
    assert notes.lines() == ()


@pytest.mark.parametrize(
    "text, found, said",
    [
        ("a:b,ann", users("ann"), "here.users: 'a:b' is not a name that an access list can have, it is left out"),
        (" a.b", NOBODY, "here.groups: 'a.b' is not a name that an access list can have, it is left out"),
        ("$", NOBODY, "here.users: '$' is not a name that an access list can have, it is left out"),
        ("*,ann", users("ann"), "here.users: '*' beside other names has no effect, write it alone for everybody"),
        ("ann *", users("ann"), "here.groups: '*' beside other names has no effect, write it alone for everybody"),
    ],
)
def test_a_name_that_can_be_nobodys_is_left_out_with_a_word(text: str, found: Access, said: str) -> None:
    notes = Notes()
    assert access(text, "here", notes) == found
    assert notes.lines() == (said,)
