"""The comparison of the operator's role with what its operators requested."""

from devcluster.audit import Permission, Use
from tests.e2e.permissions import UNSEEN, differences

BIND = Permission("", "pods/binding", "create")
NAMED = Permission("", "secrets", "get", "muster-signing")
GRANTED = {BIND, NAMED, *UNSEEN}


def used(*permissions: Permission, allowed: bool = True) -> list[Use]:
    return [Use(permission, "muster-operator", allowed) for permission in permissions]


def test_a_role_whose_permissions_are_all_used_has_no_differences() -> None:
    assert differences(GRANTED, used(BIND, NAMED)) == []


def test_an_unused_permission_is_reported() -> None:
    [found] = differences(GRANTED, used(BIND))
    assert "never used" in found
    assert "muster-signing" in found


def test_a_request_that_the_role_does_not_grant_is_reported() -> None:
    refused = used(Permission("", "nodes", "delete", "node-0"), allowed=False)
    [found] = differences(GRANTED, [*used(BIND, NAMED), *refused])
    assert "not granted" in found
    assert "nodes" in found


def test_a_granted_request_that_a_starting_server_rejected_is_not_reported() -> None:
    refused = used(Permission("", "pods/binding", "create", "some-pod"), allowed=False)
    assert differences(GRANTED, [*used(BIND, NAMED), *refused]) == []


def test_a_request_listed_as_never_made_is_reported_when_it_was_made() -> None:
    [found] = differences(GRANTED, used(BIND, NAMED, min(UNSEEN, key=str)))
    assert "listed as never requested" in found
