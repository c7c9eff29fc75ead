"""Admission settings become rules; an invalid one is reported with key, value and fix, and the default applies."""

import time

import pytest

from muster_operator.config.catalog import DEFAULTS, SETTINGS, admission_warnings, loose, parse
from muster_operator.config.catalog import setting_warnings as doubts_of_all
from muster_operator.model.settings import AdmissionSettings, Patterns
from muster_operator.webhook.context import is_served

FILTER, ACCESS = "admissionController.filtering.", "admissionController.accessControl."
PROCESS, BYPASS, SYSTEM = f"{FILTER}processNamespaces", f"{FILTER}bypassNamespaces", f"{ACCESS}systemUsers"
CONTROLLER = "system:serviceaccount:kube-system:job-controller"


def settings(**entries: str) -> AdmissionSettings:
    return parse({f"admissionController.{key.replace('__', '.')}": value for key, value in entries.items()}, "muster")[
        0
    ]


def finds(patterns: Patterns, name: str) -> bool:
    return any(pattern.search(name) for pattern in patterns)


def test_no_entries_give_the_documented_defaults() -> None:
    found, warnings = parse({}, "muster")
    assert warnings == ()
    assert (found.namespaces.process, found.namespaces.label, found.namespaces.no_label) == ((), (), ())
    assert (found.access.external_users, found.access.external_groups) == ((), ())
    assert finds(found.namespaces.bypass, "kube-system")
    assert not finds(found.namespaces.bypass, "my-kube-system")
    assert finds(found.access.system_users, CONTROLLER)
    assert not finds(found.access.system_users, "system:serviceaccount:dev:kube-system")
    assert (found.access.bypass_auth, found.access.trust_controllers, found.unique_app_ids) == (False, True, False)


def test_a_list_is_split_at_commas_and_its_patterns_are_searched() -> None:
    process = settings(filtering__processNamespaces=" ^dev- ,prod,, ").namespaces.process
    assert [finds(process, name) for name in ("dev-1", "my-dev-1", "a-prod-b", "test")] == [True, False, True, False]


def test_an_empty_list_stays_empty_and_an_empty_boolean_uses_the_default() -> None:
    assert settings(filtering__bypassNamespaces=" ").namespaces.bypass == ()
    assert settings(accessControl__systemUsers="").access.system_users == ()
    assert settings(accessControl__trustControllers="").access.trust_controllers


@pytest.mark.parametrize("written, means", [("true", True), ("T", True), ("0", False), (" False ", False)])
def test_booleans_accept_the_same_spellings_as_other_settings(written: str, *, means: bool) -> None:
    assert settings(accessControl__bypassAuth=written).access.bypass_auth == means


@pytest.mark.parametrize(
    "key, value, message",
    [
        (SYSTEM, "dev(", '"dev(" is no regular expression (missing ): dev()'),
        (SYSTEM, "ok,a{2,3}b)", "with commas between them, and none inside one"),
        (SYSTEM, "(?=x)", "is no regular expression"),
        (SYSTEM, "x" * 2000, "is longer than 1024 characters; write a shorter expression"),
        (SYSTEM, "((a{100}){100}){100}", "is no regular expression"),
        (f"{ACCESS}trustControllers", "yes", '"yes" is not a boolean; write true or false'),
    ],
)
def test_a_bad_value_warns_with_the_key_and_the_fix_and_the_default_applies(key: str, value: str, message: str) -> None:
    found, warnings = parse({key: value}, "muster")
    assert len(warnings) == 1
    assert warnings[0].startswith(f"{key} = ")
    assert message in warnings[0]
    assert f'the default applies: "{DEFAULTS[key]}"' in warnings[0]
    assert len(warnings[0]) < 400
    assert finds(found.access.system_users, CONTROLLER)
    assert found.access.trust_controllers
    assert admission_warnings({key: value}) == {key: warnings[0].removeprefix(f"{key} ")}
    assert warnings[0] in [finding.line for finding in doubts_of_all({key: value})]


@pytest.mark.parametrize("written, served", [("^team-,dev(", {"team-1"}), ("dev(", set())])
def test_a_bad_pattern_in_the_namespace_list_matches_no_namespace(written: str, served: set[str]) -> None:
    """The default of that list is every namespace."""
    found, [warning] = (
        parse({PROCESS: written, BYPASS: "(,^infra$"}, "muster")[0],
        admission_warnings({PROCESS: written}).values(),
    )
    names = ("team-1", "infra", "dev(", "x")
    assert {name for name in names if is_served(name, {}, found.namespaces)} == served
    assert finds(found.namespaces.bypass, "infra")
    assert warning.endswith("until then it matches no namespace")


def test_a_pattern_that_trusts_a_part_of_a_name_is_reported() -> None:
    """Every user who can create a service account could act as Jenkins."""
    key = f"{ACCESS}externalUsers"
    assert finds(
        settings(accessControl__externalUsers="jenkins").access.external_users, "system:serviceaccount:me:jenkins"
    )
    assert list(loose({key: "^ann$,jenkins"})) == [key]
    assert loose({key: r"^ann$,\Abob$", SYSTEM: DEFAULTS[SYSTEM]}) == {}
    assert '"jenkins" also matches parts of other names' in doubts_of_all({key: "jenkins"})[0].line


def test_one_bad_entry_does_not_affect_the_others() -> None:
    found, warnings = parse({BYPASS: "(", f"{ACCESS}externalUsers": "^jenkins$"}, "muster")
    assert len(warnings) == 1
    assert finds(found.access.external_users, "jenkins")


def test_no_expression_takes_exponential_time() -> None:
    """Names are what users choose; this one takes a backtracking engine hours."""
    patterns = settings(accessControl__externalUsers="^(a+)+$").access.external_users
    start = time.process_time()
    assert not finds(patterns, "a" * 50_000 + "!")
    assert time.process_time() - start < 1


def test_the_catalogue_shows_an_empty_list_as_empty() -> None:
    assert SETTINGS[SYSTEM].value({SYSTEM: ""}) == ""
    assert SETTINGS[SYSTEM].value({}) == "^system:serviceaccount:kube-system:"
    trust = SETTINGS[f"{ACCESS}trustControllers"]
    assert trust.value({trust.key: ""}) == "true"
