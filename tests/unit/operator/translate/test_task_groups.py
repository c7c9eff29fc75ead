"""A gang definition is read in any notation, and rejected with the field and the fix."""

import json
from typing import Any

import pytest

from muster_operator.model.pods import GangDefinition, GangProblem, GangSource, Placement, Topology
from muster_operator.translate.gangs.dialects import read_gang
from tests.unit.operator.controller.objects import a_group


def read(text: str, parameters: str = "") -> GangDefinition | GangProblem | None:
    return read_gang(GangSource(text, parameters))


def gang(*groups: Any, parameters: str = "", default: Placement = Placement.RESERVE) -> GangDefinition:
    found = read_gang(GangSource(json.dumps(groups), parameters), default)
    assert isinstance(found, GangDefinition), found
    return found


def problem(text: str) -> str:
    found = read(text)
    assert isinstance(found, GangProblem), found
    return found.message


def problem_of(**changes: Any) -> str:
    return problem(json.dumps([{**a_group(), **changes}]))


def test_an_empty_annotation_defines_no_gang() -> None:
    assert read("") is None
    assert read("  ") is None


def test_the_placeholder_ask_counts_resources_and_pods_of_all_members() -> None:
    found = gang(a_group("driver", 1), a_group("executor", 3, minResource={"cpu": "500m", "nvidia.com/gpu": "1"}))
    assert dict(found.placeholder_ask) == {"vcore": 2500, "memory": 2**30, "nvidia.com/gpu": 3, "pods": 4}


def test_keys_are_case_insensitive_and_unknown_keys_and_nulls_are_ignored() -> None:
    written = {
        "Name": "g",
        "MINMEMBER": 2,
        "minresource": {"cpu": 1},
        "Labels": None,
        "Tolerations": None,
        "Affinity": None,
        "Comment": [],
    }
    found = gang(written).groups[0]
    assert (found.name, found.min_member, dict(found.min_resource)) == ("g", 2, {"vcore": 1000})


def test_vcore_is_cpu() -> None:
    found = gang(a_group(minResource={"vcore": "500m"})).groups[0]
    assert dict(found.min_resource) == {"vcore": 500}
    assert dict(found.requests) == {"cpu": "500m"}


def test_zero_amounts_are_legal() -> None:
    assert dict(gang(a_group(minResource={"cpu": "0m"})).groups[0].min_resource) == {"vcore": 0}


def test_pod_fields_are_kept_unchanged_and_converted_to_constraints() -> None:
    found = gang(
        a_group(
            nodeSelector={"zone": "a"},
            tolerations=[{"key": "gpu", "operator": "Exists", "tolerationSeconds": 5}],
            labels={"team": "x"},
            annotations={"note": "y"},
            topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
        )
    ).groups[0]
    assert json.loads(found.pod_fields)["tolerations"][0]["tolerationSeconds"] == 5
    assert json.loads(found.constraints) == {
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
    }
    assert (dict(found.labels), dict(found.annotations)) == ({"team": "x"}, {"note": "y"})


def test_decimal_numbers_keep_all_digits() -> None:
    found = read('[{"name": "g", "minMember": 1, "minResource": {"cpu": 0.1}}]')
    assert isinstance(found, GangDefinition)
    assert dict(found.groups[0].requests) == {"cpu": "0.1"}


@pytest.mark.parametrize(
    "text, expected",
    [
        ("{", "task-groups: is not JSON (Expecting property name"),
        ("nonsense", "task-groups: is not JSON"),
        ("{}", "task-groups: is an object, not a list; write [...]"),
        ("null", "task-groups: is empty; write a JSON array"),
        ("[]", "task-groups: is empty; write a JSON array"),
        ("[1]", "task-groups[0]: is the number 1, not an object; write {name, minMember, "),
        ("[NaN]", "task-groups: is not JSON (NaN"),
        ("[" * 5000 + "]" * 5000, "task-groups: is nested too deeply"),
        ("[null]", "task-groups[0].name: is missing"),
        ('[{"name": "' + "x" * 300_000 + '"}]', "task-groups: 300014 bytes, more than 32768; define fewer"),
        ("[" + "9" * 5000 + "]", f"task-groups[0]: is the number {'9' * 40}, not an object"),
    ],
)
def test_an_invalid_list_of_groups_is_reported(text: str, expected: str) -> None:
    assert problem(text).startswith(expected)


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({"name": ""}, "task-groups[0].name: is missing or empty; give every group a name"),
        ({"name": None}, "task-groups[0].name: is missing"),
        ({"name": 7}, "task-groups[0].name: is the number 7, not text; write text in quotes"),
        ({"name": "x" * 254}, "task-groups[0].name: has more than 253 bytes"),
        ({"minMember": -3}, "task-groups[0].minMember: is -3"),
        ({"minMember": None}, "task-groups[0].minMember: is missing"),
        (
            {"minMember": "3"},
            'task-groups[0].minMember: is "3", not a whole number; write a whole number',
        ),
        ({"minMember": 2.5}, "task-groups[0].minMember: is the number 2.5, not a whole number"),
        ({"minMember": True}, "task-groups[0].minMember: is true, not a whole number"),
        ({"minMember": 2**31}, "task-groups[0].minMember: is the number 2147483648, which does not fit 32 bits"),
        ({"minMember": 100_001}, "task-groups[0].minMember: 100001 members in total, more than 10000"),
        ({"minResource": None}, "task-groups[0].minResource: is missing"),
        ({"minResource": []}, "task-groups[0].minResource: is a list, not an object"),
        ({"minResource": {"cpu": "-1"}}, "task-groups[0].minResource.cpu: is negative"),
        ({"minResource": {"cpu": "lots"}}, 'task-groups[0].minResource.cpu: "lots" is not a quantity'),
        ({"minResource": {"cpu": "1", "vcore": "1"}}, "task-groups[0].minResource.vcore: cpu and vcore are the same"),
        ({"minResource": {"pods": "1"}}, "task-groups[0].minResource.pods: is counted by itself; remove it"),
        ({"minResource": {"memory": "5Ei"}}, "task-groups[0].minResource.memory: memory of all members together"),
        ({"labels": {"a": 1}}, "task-groups[0].labels.a: is the number 1, not text; write text in quotes"),
        ({"annotations": []}, "task-groups[0].annotations: is a list, not an object"),
        ({"nodeSelector": "zone"}, 'task-groups[0].nodeSelector: is "zone", not an object'),
        ({"tolerations": {"key": "x"}}, "task-groups[0].tolerations: is an object, not a list"),
        ({"tolerations": ["x"]}, 'task-groups[0].tolerations[0]: is "x", not an object; write {key, operator, '),
        ({"affinity": [1]}, "task-groups[0].affinity: is a list, not an object"),
        (
            {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}},
            "task-groups[0].podAffinity[0].topologyKey: is missing",
        ),
        ({"topologySpreadConstraints": "x"}, 'task-groups[0].topologySpreadConstraints: is "x", not a list'),
    ],
)
def test_an_invalid_group_is_reported_with_its_field(changes: dict[str, Any], expected: str) -> None:
    assert problem_of(**changes).startswith(expected)


def test_two_groups_with_the_same_name_are_rejected() -> None:
    assert problem(json.dumps([a_group("g"), a_group("g")])).startswith('task-groups[1].name: "g" is a duplicate name')


def test_all_problems_of_an_annotation_are_reported_up_to_four() -> None:
    both = problem_of(minMember=-1, minResource={"cpu": "100x", "memory": "-1"})
    parts = ("minMember: is -1; ", 'minResource.cpu: "100x" is not a quantity', "minResource.memory: is negative; ")
    assert all(f"task-groups[0].{part}" in both for part in parts)
    many = problem(json.dumps([{**a_group(f"g{index}"), "minMember": -1} for index in range(9)]))
    assert many.count("minMember: is -1") == 4


@pytest.mark.parametrize("written, meant", [("cpuu", "cpu"), ("memroy", "memory"), ("gpu", "nvidia.com/gpu")])
def test_a_misspelt_resource_is_reported_and_the_gang_stays(written: str, meant: str) -> None:
    found = gang({**a_group(), "minResource": {"cpu": "1", "example.com/licence": "1", written: "1"}})
    assert found.warnings == (f"task-groups[0].minResource.{written}: did you mean {meant}?",)
    assert found.groups[0].min_resource[written] > 0


def test_every_problem_ends_in_a_fix() -> None:
    assert problem_of(minMember=-1).count("; ") == 1


def test_parameters_set_the_style_and_timeouts() -> None:
    found = gang(
        a_group(),
        parameters="placeholderTimeoutInSeconds=30  gangSchedulingStyle=Hard gangWaitTimeoutInSeconds=5",
    )
    assert (found.style, found.placeholder_timeout_ms, found.wait_timeout_ms) == ("Hard", 30_000, 5_000)
    assert found.warnings == ()


@pytest.mark.parametrize(
    "parameters, topology",
    [
        ("", Topology()),
        ("topologyKey=topology.kubernetes.io/zone", Topology(("topology.kubernetes.io/zone",), required=False)),
        ("topologyKey=rack topologyMode=required", Topology(("rack",), required=True)),
        ("topologyKey=rack topologyMode=preferred", Topology(("rack",), required=False)),
        ("topologyKeys=rack", Topology(("rack",))),
        (
            "topologyKeys=topology.kubernetes.io/zone>rack>host topologyMode=required",
            Topology(("topology.kubernetes.io/zone", "rack", "host"), required=True),
        ),
    ],
)
def test_topology_parameters_set_the_node_label_and_the_mode(parameters: str, topology: Topology) -> None:
    found = gang(a_group(), parameters=parameters)
    assert (found.topology, found.warnings) == (topology, ())


def test_without_parameters_a_gang_is_soft_with_the_default_timeouts() -> None:
    found = gang(a_group())
    assert (found.style, found.placeholder_timeout_ms, found.wait_timeout_ms) == ("Soft", 0, 0)


@pytest.mark.parametrize(
    "parameters, expected",
    [
        (
            "gangSchedulingStyle=hard",
            'gangSchedulingStyle: "hard" is invalid; Soft is used. Valid values: Soft or Hard',
        ),
        ("placeholderTimeoutInSeconds=ten", 'placeholderTimeoutInSeconds: "ten" is not a number of seconds'),
        ("placeholderTimeoutInSeconds=-1", 'placeholderTimeoutInSeconds: "-1" is not a number'),
        ("gangWaitTimeoutInSeconds=99999999999999999999", "gangWaitTimeoutInSeconds: "),
        (
            "gangPlacement=best",
            'gangPlacement: "best" is invalid; Reserve, the default, is used. Valid values: Reserve, Direct',
        ),
        ("gangPlacement=direct", 'gangPlacement: "direct" is invalid; Reserve, the default, is used'),
        (
            "gangSchedulingStyle",
            'schedulingPolicyParameters: "gangSchedulingStyle" is ignored; write name=value, with spaces ',
        ),
        ("a=b=c", 'schedulingPolicyParameters: "a=b=c" is ignored'),
        (
            "placeholderTimeoutInSeconds=2m,gangSchedulingStyle=Hard",
            'schedulingPolicyParameters: "placeholderTimeoutInSeconds=2m,gangSched…" is ignored; write name',
        ),
        ("=1", 'schedulingPolicyParameters: "=1" is ignored'),
        ("topologyKey=a/b/c", 'topologyKey: "a/b/c" is ignored; write the key of a node label'),
        ("topologyKeys=a>>b", 'topologyKeys: "a>>b" is ignored'),
        (f"topologyKeys={'>'.join('abcdefghi')}", 'topologyKeys: "a>b>c>d>e>f>g>h>i" is ignored; write'),
        ("topologyKeys=a>b topologyKey=a", "topologyKey is ignored, because topologyKeys is set"),
        ("topologyMode=required", "topologyMode is ignored without topologyKey"),
        ("topologyKey=zone topologyMode=hard", 'topologyMode: "hard" is invalid; preferred is used'),
    ],
)
def test_an_invalid_parameter_gives_a_warning_and_the_default_is_used(parameters: str, expected: str) -> None:
    found = gang(a_group(), parameters=parameters)
    assert found.style == "Soft"
    assert len(found.warnings) == 1
    assert found.warnings[0].startswith(expected)


@pytest.mark.parametrize(
    "parameters, expected",
    [
        (
            "placeholderTimeoutSeconds=30",
            "parameter placeholderTimeoutSeconds is ignored; did you mean placeholderTimeoutInSeconds?",
        ),
        ("gangPlacment=Direct", "schedulingPolicyParameters: unknown parameter gangPlacment is ignored; did you mean "),
        ("gangschedulingstyle=Hard", "did you mean gangSchedulingStyle?"),
        ("colour=red", "is ignored; known parameters are gangPlacement, gangSchedulingStyle, gangWaitTimeoutInSeconds"),
        ("x" * 100 + "=1", f"unknown parameter {'x' * 40} is ignored"),
        (" ".join(f"p{n}=1" for n in range(50)), "unknown parameters p0, p1, p10 and 47 more are ignored; known"),
    ],
)
def test_unknown_parameters_are_reported_once_with_a_suggestion(parameters: str, expected: str) -> None:
    found = gang(a_group(), parameters=f"{parameters} topologyKey=zone")
    assert found.topology == Topology(("zone",))
    assert len(found.warnings) == 1
    assert expected in found.warnings[0]


def test_a_group_without_members_adds_nothing_to_the_gang() -> None:
    found = gang(a_group("head", 1), a_group("workers", 0))
    assert [(group.name, group.min_member) for group in found.groups] == [("head", 1), ("workers", 0)]
    assert (found.size, found.warnings) == (1, ())
    assert dict(found.placeholder_ask) == dict(gang(a_group("head", 1)).placeholder_ask)


def test_a_timeout_above_the_maximum_is_ignored_with_a_warning() -> None:
    assert gang(a_group(), parameters="placeholderTimeoutInSeconds=1000000000").placeholder_timeout_ms == 10**12
    too_long = gang(a_group(), parameters="placeholderTimeoutInSeconds=1000000001")
    assert (too_long.placeholder_timeout_ms, len(too_long.warnings)) == (0, 1)


def test_the_last_duplicate_parameter_wins_and_zero_is_the_default_timeout() -> None:
    found = gang(a_group(), parameters=" placeholderTimeoutInSeconds=9\n\tplaceholderTimeoutInSeconds=0 ")
    assert (found.placeholder_timeout_ms, found.warnings) == (0, ())


def test_the_last_spelling_of_a_duplicate_key_wins() -> None:
    text = '[{"name": "g", "minMember": 1, "MinMember": 3, "minResource": {"cpu": 1}}]'
    found = read(text)
    assert isinstance(found, GangDefinition)
    assert found.groups[0].min_member == 3


def test_null_in_a_map_of_texts_is_empty_text_and_the_gang_stays() -> None:
    found = gang(a_group(nodeSelector={"node-role/analysis": None, "disk": "fast"}, labels={"team": None})).groups[0]
    assert json.loads(found.pod_fields)["nodeSelector"] == {"node-role/analysis": "", "disk": "fast"}
    assert dict(found.labels) == {"team": ""}


def test_keys_of_tolerations_are_written_as_kubernetes_spells_them() -> None:
    found = gang(a_group(tolerations=[{"Key": "gpu", "OPERATOR": "Exists"}, {"key": "b", "colour": "red"}])).groups[0]
    assert json.loads(found.pod_fields)["tolerations"] == [{"key": "gpu", "operator": "Exists"}, {"key": "b"}]


def test_an_unknown_key_that_resembles_a_known_one_is_reported() -> None:
    found = gang(a_group(maxMember=3, maxResource={}, colour="red", tolerations=[{"operater": "Exists"}]))
    assert found.warnings == (
        "task-groups[0].maxMember is ignored; did you mean minMember?",
        "task-groups[0].maxResource is ignored; did you mean minResource?",
        "task-groups[0].tolerations[0].operater is ignored; did you mean operator?",
    )
    many = gang({**a_group(), **{f"maxMember{number}": 1 for number in range(1000)}})
    assert len(many.warnings) == 32


def test_text_after_the_definition_is_an_error() -> None:
    assert problem('[{"name": "g", "minMember": 1, "minResource": {}}] {}').startswith("task-groups: is not JSON")


@pytest.mark.parametrize("placement", [*Placement])
def test_an_explicit_gang_placement_overrides_the_default(placement: Placement) -> None:
    found = gang(a_group(), parameters=f"gangPlacement={placement}", default=Placement.DIRECT)
    assert (found.placement, found.warnings) == (placement, ())


def test_the_removed_gang_placement_gives_auto_with_a_warning() -> None:
    found = gang(a_group(), parameters="gangPlacement=Atomic", default=Placement.DIRECT)
    text = "gangPlacement: Atomic was removed; Auto is used. Valid values: Reserve, Direct or Auto"
    assert (found.placement, found.warnings) == (Placement.AUTO, (text,))


def test_a_missing_or_unknown_gang_placement_gives_the_default() -> None:
    assert gang(a_group()).placement is Placement.RESERVE
    assert gang(a_group(), default=Placement.DIRECT).placement is Placement.DIRECT
    unknown = gang(a_group(), parameters="gangPlacement=best", default=Placement.DIRECT)
    assert unknown.placement is Placement.DIRECT
    assert "Direct, the default, is used" in unknown.warnings[0]


def test_the_problem_of_an_invalid_definition_includes_its_misspelt_keys() -> None:
    missing = problem('[{"name": "g", "minMember": 1, "maxMember": 2, "maxResource": {"cpu": "1"}}]')
    assert missing.startswith("task-groups[0].minResource: is missing; ")
    assert missing.endswith(
        "; task-groups[0].maxMember is ignored; did you mean minMember?"
        "; task-groups[0].maxResource is ignored; did you mean minResource?"
    )
