"""docs/reference/compatibility.yaml has every rule, tag and resolver that the code has."""

from muster_core.model.config import GroupResolver
from muster_core.queues import placement_rules
from muster_si import keys
from tools import compatibility


def names(section: str) -> list[str]:
    return compatibility.load().section(section).names


def test_the_rules_match_placement_and_recovery() -> None:
    assert sorted(names("rules")) == sorted([*placement_rules._RULES, "recovery"])


def test_the_resolvers_match_the_configuration() -> None:
    assert sorted(names("resolvers")) == sorted(resolver.value or "none" for resolver in GroupResolver)


def test_the_tags_match_those_that_select_or_limit_a_queue() -> None:
    assert sorted(names("tags")) == sorted(
        (
            keys.APP_TAG_NAMESPACE,
            keys.APP_TAG_PARENT_QUEUE,
            keys.APP_TAG_RESOURCE_QUOTA,
            keys.APP_TAG_RESOURCE_GUARANTEED,
            keys.APP_TAG_RESOURCE_MAX_APPS,
            keys.APP_TAG_CREATE_FORCE,
        )
    )
