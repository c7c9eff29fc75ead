"""deploy/admission-policy.yaml covers the same objects and rules as the webhook."""

import ast
from typing import Any

import yaml

from muster_operator.config.catalog import DEFAULTS, EXTERNAL_GROUPS, EXTERNAL_USERS, SYSTEM_USERS
from muster_operator.model import names
from muster_operator.model.settings import Settings
from muster_operator.webhook.context import CONTROL_PLANE, KINDS, ClusterSnapshot
from tests.unit.repo.tree import ROOT

TEXT = (ROOT / "deploy" / "admission-policy.yaml").read_text()
POLICY, BINDING = (document for document in yaml.safe_load_all(TEXT))
SPEC: dict[str, Any] = POLICY["spec"]
VARIABLES = {entry["name"]: entry["expression"] for entry in SPEC["variables"]}


def test_the_policy_is_bound_and_denies() -> None:
    assert BINDING["spec"] == {"policyName": POLICY["metadata"]["name"], "validationActions": ["Deny"]}
    assert SPEC["failurePolicy"] == "Fail"


def test_the_policy_matches_the_same_kinds_and_operations() -> None:
    rules = SPEC["matchConstraints"]["resourceRules"]
    named = {(group, name) for rule in rules for group in rule["apiGroups"] for name in rule["resources"]}
    ways = {("", name) for name in ("pods/status", "pods/binding", "bindings")}
    assert named == {(kind.group, kind.resource) for kind in KINDS.values()} | ways
    assert all(rule["operations"] == ["CREATE", "UPDATE"] for rule in rules)


def test_the_policy_excludes_the_same_namespaces_and_account() -> None:
    [expression] = SPEC["matchConstraints"]["namespaceSelector"]["matchExpressions"]
    assert (expression["operator"], set(expression["values"])) == (
        "NotIn",
        {CONTROL_PLANE, ClusterSnapshot().own_namespace},
    )
    assert f"'{ClusterSnapshot().account}'" in SPEC["matchConditions"][0]["expression"]


def test_the_policy_has_the_same_defaults() -> None:
    for name, key in (
        ("systemUsers", SYSTEM_USERS),
        ("externalUsers", EXTERNAL_USERS),
        ("externalGroups", EXTERNAL_GROUPS),
    ):
        assert ",".join(ast.literal_eval(VARIABLES[name])) == DEFAULTS[key]
    assert set(ast.literal_eval(VARIABLES["schedulers"])) == Settings().scheduler_names


def test_the_policy_reads_the_same_annotations() -> None:
    users = [text for variable, text in VARIABLES.items() if variable.endswith("odUser")]
    assert len(users) == 2
    assert all(f"[?'{names.ANNOTATION_USER_INFO}']" in text for text in users)
    assert ast.literal_eval(VARIABLES["internal"]) == names.INTERNAL_PREFIX
