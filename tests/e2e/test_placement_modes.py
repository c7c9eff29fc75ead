"""The placements of a test follow from the gangs that it creates, itself or in the functions that it calls."""

from collections.abc import Callable

import pytest

from devcluster.api import Json
from tests.e2e.manifests import Group, a_gang, a_member, a_pod
from tests.e2e.placement_modes import EVERY, NONE, placements_of

GROUPS = [Group("workers", 2)]


def names_no_placement() -> list[Json]:
    return a_gang("any", GROUPS)


def names_one_placement() -> list[Json]:
    return a_gang("any", GROUPS, placement="Reserve")


def names_it_in_a_string() -> Json:
    return a_member("any", "workers", "w", GROUPS, "gangPlacement=Direct")


def has_no_string() -> Json:
    return a_member("any", "workers", "w", GROUPS)


def creates_no_gang() -> Json:
    return a_pod("any")


def calls_another() -> Callable[[], list[Json]]:
    def inside() -> list[Json]:
        return names_one_placement() + names_no_placement()

    return inside


class Builder:
    """A class whose methods create gangs."""

    def pods(self) -> list[Json]:
        return names_no_placement()


@pytest.mark.parametrize(
    "what, placements",
    [
        (names_no_placement, EVERY),
        (names_one_placement, NONE),
        (names_it_in_a_string, NONE),
        (has_no_string, EVERY),
        (creates_no_gang, NONE),
        (calls_another, EVERY),
        (calls_another(), EVERY),
        (Builder, EVERY),
    ],
)
def test_a_test_without_an_explicit_placement_runs_in_every_placement(what: object, placements: frozenset[str]) -> None:
    assert placements_of([what]) == placements
