"""`muster/placement-constraint`: the PlacementConstraint message as canonical JSON, decoded strictly."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_core.model.constraints import UNBOUNDED, AllocationAffinity, PlacementConstraint, Target, TargetOperator
from muster_core.si import pod_tags
from muster_core.si.values import InvalidField
from muster_si import keys

TARGET = {"targetOperator": "IN", "targetKey": "role", "targetValues": ["web"]}
AFFINITY = {"scope": "si/zone", "tragetExpressions": [TARGET], "minCardinality": 1, "maxCardinality": 3}


def text(**parts: Any) -> str:
    return orjson.dumps({"simpleConstraint": parts}).decode()


def affinity(**changed: Any) -> str:
    return text(allocationAffinityAttribute={**AFFINITY, **changed})


def on(*targets: Any) -> str:
    return text(nodeAffinityConstraint={"targetExpressions": list(targets)})


def read(value: str) -> PlacementConstraint:
    found = pod_tags.placement({keys.TAG_PLACEMENT: value})
    assert found is not None
    return found


def test_the_complete_message_is_read_with_its_specified_names() -> None:
    found = read(
        text(
            nodeAffinityConstraint={
                "targetExpressions": [TARGET, {"targetOperator": "NOT_EXIST", "targetKey": "si/rackname"}]
            },
            allocationAffinityAttribute={**AFFINITY, "required": True},
        )
    )
    role = Target("role", TargetOperator.IN, ("web",))
    assert found == PlacementConstraint(
        (role, Target("si/rackname", TargetOperator.NOT_EXIST)), AllocationAffinity("si/zone", (role,), 1, 3, True)
    )


def test_absent_fields_have_the_specified_defaults() -> None:
    correct = {"scope": "a", "targetExpressions": [{"targetKey": "k", "targetValues": ["v"]}], "minCardinality": 1}
    found = read(text(allocationAffinityAttribute=correct)).allocations
    assert found == AllocationAffinity("a", (Target("k", TargetOperator.IN, ("v",)),), 1, UNBOUNDED, False)
    assert pod_tags.placement({}) is None


@pytest.mark.parametrize(
    "value, reason",
    [
        ("{", "the value is not JSON"),
        ("[]", "the value is wrong: Expected `object`, got `array`"),
        ("{}", "the value is wrong: Object missing required field `simpleConstraint`"),
        (text(), "nodeAffinityConstraint or allocationAffinityAttribute is missing: the constraint is empty"),
        (on(), "nodeAffinityConstraint or allocationAffinityAttribute is missing: the constraint is empty"),
        ('{"compositeConstraint": {}}', "the value is wrong: Object contains unknown field `compositeConstraint`"),
        (text(nodeAffinity={}), "simpleConstraint is wrong: Object contains unknown field `nodeAffinity`"),
        (
            on({**TARGET, "targetKey": ""}),
            "targetExpressions[0].targetKey is wrong: Expected `str` of length >= 1",
        ),
        (
            on({**TARGET, "targetKey": "k" * 257}),
            "targetExpressions[0].targetKey is wrong: Expected `str` of length <= 256",
        ),
        (
            on({**TARGET, "targetOperator": "In"}),
            "targetExpressions[0].targetOperator is wrong: Invalid enum value 'In'",
        ),
        (
            on({**TARGET, "targetOperator": 0, "more": 1}),
            "targetExpressions[0].targetOperator is wrong: Expected `str | null`, got `int`",
        ),
        (
            on({**TARGET, "targetOperator": 0}),
            "targetExpressions[0].targetOperator is wrong: Expected `str | null`, got `int`",
        ),
        (
            on({**TARGET, "targetValues": ""}),
            "targetExpressions[0].targetValues is wrong: Expected `array | null`, got `str`",
        ),
        (on({**TARGET, "targetOperator": "EXIST"}), "targetValues do not go with EXIST"),
        (on({**TARGET, "targetValues": []}), "targetValues do not go with IN"),
        (
            on({**TARGET, "targetValues": [1]}),
            "targetExpressions[0].targetValues[0] is wrong: Expected `str`, got `int`",
        ),
        (
            on("role"),
            "targetExpressions[0] is wrong: Expected `object`, got `str`",
        ),
        (
            affinity(scope=""),
            "simpleConstraint.allocationAffinityAttribute.scope is wrong: Expected `str` of length >= 1",
        ),
        (
            affinity(tragetExpressions=[]),
            "either tragetExpressions or targetExpressions must be given",
        ),
        (
            affinity(targetExpressions=[TARGET]),
            "either tragetExpressions or targetExpressions must be given",
        ),
        (affinity(minCardinality=4), "minCardinality is more than maxCardinality: 4 > 3"),
        (
            affinity(minCardinality=-1),
            "simpleConstraint.allocationAffinityAttribute.minCardinality is wrong: Expected `int` >= 0",
        ),
        (
            affinity(maxCardinality=True),
            "simpleConstraint.allocationAffinityAttribute.maxCardinality is wrong: Expected `int`, got `bool`",
        ),
        (
            affinity(maxCardinality=2**31),
            "simpleConstraint.allocationAffinityAttribute.maxCardinality is wrong: Expected `int` <= 2147483647",
        ),
        (affinity(minCardinality=0, maxCardinality=2**31 - 1), "minCardinality or maxCardinality is missing"),
        (
            affinity(required="yes"),
            "simpleConstraint.allocationAffinityAttribute.required is wrong: Expected `bool`, got `str`",
        ),
    ],
)
def test_an_invalid_constraint_is_rejected_with_the_invalid_field(value: str, reason: str) -> None:
    with pytest.raises(InvalidField) as unfit:
        pod_tags.placement({keys.TAG_PLACEMENT: value})
    assert str(unfit.value).startswith(keys.TAG_PLACEMENT)
    assert reason in str(unfit.value)


def test_a_constraint_that_its_own_ask_always_violates_is_rejected() -> None:
    tags = {keys.TAG_PLACEMENT: affinity(minCardinality=0, maxCardinality=0, required=True)}
    assert pod_tags.placement(tags) is not None
    with pytest.raises(InvalidField, match="it fits on no node"):
        pod_tags.placement(tags | {"role": "web"})


json = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["IN", "EXIST", "k", ""]),
    lambda inside: (
        st.lists(inside, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    "simpleConstraint",
                    "nodeAffinityConstraint",
                    "allocationAffinityAttribute",
                    "targetExpressions",
                    "tragetExpressions",
                    "targetKey",
                    "targetOperator",
                    "targetValues",
                    "scope",
                    "minCardinality",
                ]
            ),
            inside,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@given(json)
def test_any_json_is_a_constraint_or_is_refused(value: Any) -> None:
    try:
        found = read(orjson.dumps(value).decode())
    except InvalidField:
        return
    assert found.nodes or found.allocations


def test_the_list_of_nodes_to_avoid_is_limited() -> None:
    assert pod_tags.nodes_to_avoid({keys.TAG_AVOID_NODES: "n1,n2,"}) == {"n1", "n2"}
    with pytest.raises(InvalidField, match="is longer than 65536 characters"):
        pod_tags.nodes_to_avoid({keys.TAG_AVOID_NODES: "n," * 40_000})
