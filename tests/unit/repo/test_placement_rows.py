"""docs/compatibility.d/placement.yaml has every rule, tag, resolver and state that the code has, each with a test."""

from typing import Any

import yaml

from muster_core.model.config import GroupResolver
from muster_core.model.states import ApplicationState, ManagerState, NodeState, QueueState
from muster_core.plan import placement
from muster_si import keys
from tests.unit.repo.tree import ROOT

ROWS: dict[str, list[dict[str, Any]]] = yaml.safe_load((ROOT / "docs/compatibility.d/placement.yaml").read_text())


def names(section: str) -> list[str]:
    return [row["name"] for row in ROWS[section]]


def test_the_rules_are_those_that_placement_knows_and_recovery() -> None:
    assert sorted(names("rules")) == sorted([*placement._RULES, "recovery"])


def test_the_resolvers_are_those_of_the_configuration() -> None:
    assert sorted(names("resolvers")) == sorted(resolver.value for resolver in GroupResolver)


def test_the_states_are_those_of_the_life_cycles() -> None:
    tables = {"application": ApplicationState, "queue": QueueState, "node": NodeState, "manager": ManagerState}
    assert {row["name"]: sorted(row["values"]) for row in ROWS["states"]} == {
        name: sorted(state.value for state in states) for name, states in tables.items()
    }


def test_the_tags_are_those_that_choose_or_bound_a_queue() -> None:
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


def test_every_row_names_a_test_that_is_there() -> None:
    def has(test: str) -> bool:
        path, _, name = test.partition("::")
        return f"def {name}(" in (ROOT / path).read_text()

    assert [row["name"] for rows in ROWS.values() for row in rows if not has(row["test"])] == []
