"""Which placements a test has to be run in follows from the gangs that it makes, itself or by whom it calls."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from devcluster.api import Json
from tests.e2e.conftest import with_pods
from tests.e2e.manifests import Group, a_gang, a_member, a_pod
from tests.e2e.placement_modes import EVERY, NONE, WITH_PODS, placements_of

GROUPS = [Group("workers", 2)]


def says_nothing() -> list[Json]:
    return a_gang("any", GROUPS)


def says_one() -> list[Json]:
    return a_gang("any", GROUPS, placement="Reserve")


def says_that_it_needs_pods() -> list[Json]:
    return a_gang("any", GROUPS, placement=with_pods())


def says_it_in_words() -> Json:
    return a_member("any", "workers", "w", GROUPS, "gangPlacement=Direct")


def says_no_words() -> Json:
    return a_member("any", "workers", "w", GROUPS)


def makes_no_gang() -> Json:
    return a_pod("any")


def calls_another() -> Callable[[], list[Json]]:
    def inside() -> list[Json]:
        return says_one() + says_nothing()

    return inside


class Makes:
    """Somebody whose methods make gangs."""

    def pods(self) -> list[Json]:
        return says_that_it_needs_pods()


@pytest.mark.parametrize(
    "what, placements",
    [
        (says_nothing, EVERY),
        (says_one, NONE),
        (says_that_it_needs_pods, WITH_PODS),
        (says_it_in_words, NONE),
        (says_no_words, EVERY),
        (makes_no_gang, NONE),
        (calls_another, EVERY),
        (calls_another(), EVERY),
        (Makes, WITH_PODS),
    ],
)
def test_who_makes_a_gang_without_saying_how_it_is_placed_counts_in_every_placement(
    what: object, placements: frozenset[str]
) -> None:
    assert placements_of([what]) == placements
