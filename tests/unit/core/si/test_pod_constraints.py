"""`muster/pod-constraints`: inter-pod constraints as canonical JSON, decoded strictly."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_core.model.constraints import (
    NO_INTER_POD_CONSTRAINTS,
    InterPodConstraints,
    PodTerm,
    Target,
    TargetOperator,
    TopologySpreadConstraint,
    WeightedPodTerm,
)
from muster_core.model.specs import NO_PROPERTIES
from muster_core.si import pod_tags
from muster_core.si.values import InvalidField
from muster_si import keys

WEB = {"matchLabels": {"app": "web"}}
TERM = {"topologyKey": "zone", "labelSelector": WEB, "namespaces": ["red"]}
SPREAD = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": WEB}
APP = Target("kubernetes.io/label/app", TargetOperator.IN, ("web",))


def read(**parts: Any) -> InterPodConstraints:
    text = orjson.dumps(parts).decode()
    return pod_tags.read_properties({keys.TAG_POD_CONSTRAINTS: text, keys.TAG_NAMESPACE: "red"}).inter_pod


def test_terms_are_read_with_the_names_of_a_pod_spec() -> None:
    kind = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["one"]}]}
    found = read(
        affinity=[TERM],
        antiAffinity=[{"topologyKey": "host", "labelSelector": {}, "namespaceSelector": kind}],
        preferred=[{"weight": -5, **TERM}],
    )
    plain = PodTerm("zone", (APP,), ("red",))
    assert found == InterPodConstraints(
        affinity=(plain,),
        anti_affinity=(PodTerm("host", (), (), (Target("team", TargetOperator.NOT_IN, ("one",)),)),),
        preferred=(WeightedPodTerm(-5, plain),),
    )


@pytest.mark.parametrize(
    "selector, expected",
    [
        (None, None),  # no pod
        ({}, ()),  # every pod
        ({"matchLabels": {"b": "2", "a": "1"}}, "a=1 b=2"),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, "a"),
        ({"matchLabels": {"b": "2"}, "matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, "b=2 !a"),
    ],
)
def test_a_label_selector_has_the_semantics_of_kubernetes(selector: Any, expected: Any) -> None:
    [term] = read(affinity=[{"topologyKey": "zone", "labelSelector": selector}]).affinity
    if expected in (None, ()):
        assert term.selector == expected
    else:
        assert term.selector is not None
        assert " ".join(map(description, term.selector)) == expected


def description(target: Target) -> str:
    key = target.key.removeprefix("kubernetes.io/label/")
    match target.operator:
        case TargetOperator.IN:
            return f"{key}={'|'.join(target.values)}"
        case TargetOperator.NOT_EXIST:
            return f"!{key}"
        case _:
            return key


def test_spread_constraints_use_the_pod_namespace_and_kubernetes_defaults() -> None:
    assert read(spread=[SPREAD]).spread == (TopologySpreadConstraint("zone", 1, (APP,), "red"),)
    policies = {"nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor", "minDomains": 3}
    found = read(spread=[{**SPREAD, **policies, "whenUnsatisfiable": "ScheduleAnyway", "maxSkew": 2}])
    assert found.spread == (TopologySpreadConstraint("zone", 2, (APP,), "red", False, 3, False, True),)


def test_a_pod_without_constraints_has_no_properties_and_equal_texts_are_parsed_once() -> None:
    assert pod_tags.read_properties({keys.TAG_NAMESPACE: "red"}) is NO_PROPERTIES
    assert read() == NO_INTER_POD_CONSTRAINTS
    assert read(affinity=[TERM]) is read(affinity=[TERM])


@pytest.mark.parametrize(
    "parts, reason",
    [
        ({"near": []}, "the value is wrong: Object contains unknown field `near`"),
        ({"affinity": {"zone": 1}}, "affinity is wrong: Expected `array`, got `object`"),
        ({"affinity": ["zone"]}, "affinity[0] is wrong: Expected `object`, got `str`"),
        ({"affinity": [{"labelSelector": WEB}]}, "affinity[0] is wrong: Object missing required field `topologyKey`"),
        ({"antiAffinity": [{**TERM, "weight": 1}]}, "antiAffinity[0] is wrong: Object contains unknown field `weight`"),
        (
            {"antiAffinity": [{**TERM, "topologyKey": 1}]},
            "antiAffinity[0].topologyKey is wrong: Expected `str`, got `int`",
        ),
        (
            {"antiAffinity": [{**TERM, "namespaces": "red"}]},
            "antiAffinity[0].namespaces is wrong: Expected `array`, got `str`",
        ),
        (
            {"antiAffinity": [{**TERM, "labelSelector": []}]},
            "antiAffinity[0].labelSelector is wrong: Expected `object | null`, got `array`",
        ),
        (
            {"antiAffinity": [{**TERM, "labelSelector": {"labels": {}}}]},
            "antiAffinity[0].labelSelector is wrong: Object contains unknown field `labels`",
        ),
        (
            {"antiAffinity": [{**TERM, "labelSelector": {"matchLabels": {"a": 1}}}]},
            "antiAffinity[0].labelSelector.matchLabels[...] is wrong: Expected `str`, got `int`",
        ),
        (
            {"affinity": [{**TERM, "labelSelector": {"matchExpressions": [{"operator": "In"}]}}]},
            "affinity[0].labelSelector.matchExpressions[0] is wrong: Object missing required field `key`",
        ),
        (
            {"affinity": [{**TERM, "namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Gt"}]}}]},
            "affinity[0].namespaceSelector.matchExpressions[0].operator is wrong: Invalid enum value 'Gt'",
        ),
        ({"preferred": [TERM | {"weight": 101}]}, "preferred[0].weight is wrong: Expected `int` <= 100"),
        (
            {"preferred": [TERM | {"weight": 1, "wait": 1}]},
            "preferred[0] is wrong: Object contains unknown field `wait`",
        ),
        ({"spread": [{**SPREAD, "topologyKey": ""}]}, "spread[0].topologyKey is wrong: Expected `str` of length >= 1"),
        ({"spread": [{**SPREAD, "maxSkew": 0}]}, "spread[0].maxSkew is wrong: Expected `int` >= 1"),
        (
            {"spread": [{**SPREAD, "whenUnsatisfiable": "Perhaps"}]},
            "spread[0].whenUnsatisfiable is wrong: Invalid enum value 'Perhaps'",
        ),
        (
            {"spread": [{**SPREAD, "nodeTaintsPolicy": "No"}]},
            "spread[0].nodeTaintsPolicy is wrong: Invalid enum value 'No'",
        ),
        (
            {"spread": [{**SPREAD, "matchLabelKeys": ["a"]}]},
            "spread[0] is wrong: Object contains unknown field `matchLabelKeys`",
        ),
        ({"affinity": [TERM] * 900}, "the value is longer than 65536 characters"),
    ],
)
def test_an_invalid_constraint_is_rejected_with_the_name_of_the_field(parts: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidField) as unfit:
        read(**parts)
    assert str(unfit.value).startswith(keys.TAG_POD_CONSTRAINTS)
    assert reason in str(unfit.value)


words = st.sampled_from(
    ["affinity", "preferred", "spread", "topologyKey", "labelSelector", "matchLabels", "matchExpressions", "weight"]
)
json = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["In", "zone", ""]),
    lambda inside: st.lists(inside, max_size=2) | st.dictionaries(words, inside, max_size=3),
    max_leaves=8,
)


@given(json)
def test_any_json_is_read_or_refused(value: Any) -> None:
    try:
        found = pod_tags.inter_pod_constraints(orjson.dumps(value).decode(), "red")
    except InvalidField:
        return
    assert isinstance(found, InterPodConstraints)
