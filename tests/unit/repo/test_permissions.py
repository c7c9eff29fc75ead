"""The comparison of the operator's role with what its operators requested."""

from __future__ import annotations

from devcluster.audit import Right, Use
from tests.e2e.permissions import UNSEEN, differences

BIND = Right("", "pods/binding", "create")
NAMED = Right("", "secrets", "get", "muster-signing")
GRANTED = {BIND, NAMED, *UNSEEN}


def used(*rights: Right, allowed: bool = True) -> list[Use]:
    return [Use(right, "muster-operator", allowed) for right in rights]


def test_a_role_of_which_all_is_used_is_right() -> None:
    assert differences(GRANTED, used(BIND, NAMED)) == []


def test_a_permission_that_nothing_used_is_named() -> None:
    [found] = differences(GRANTED, used(BIND))
    assert "never used" in found
    assert "muster-signing" in found


def test_a_request_that_the_role_does_not_permit_is_named() -> None:
    refused = used(Right("", "nodes", "delete", "node-0"), allowed=False)
    [found] = differences(GRANTED, [*used(BIND, NAMED), *refused])
    assert "not granted" in found
    assert "nodes" in found


def test_a_permitted_request_that_a_starting_server_refused_is_not() -> None:
    refused = used(Right("", "pods/binding", "create", "some-pod"), allowed=False)
    assert differences(GRANTED, [*used(BIND, NAMED), *refused]) == []


def test_what_is_listed_as_never_requested_and_was_requested_is_named() -> None:
    [found] = differences(GRANTED, used(BIND, NAMED, *UNSEEN))
    assert "listed as never requested" in found
