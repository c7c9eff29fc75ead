"""`make test-py` uses the newest of each available CPython, and reports versions that it could not test."""

import argparse
import sys

import pytest

from tools.pythons import (
    Interpreter,
    Outcome,
    chosen,
    interpreter_of,
    is_failure,
    minor,
    summary,
    supported,
    why_not_installed,
)

PASSED, FAILED, UNRUN = Outcome("3", "passed", ""), Outcome("3", "failed", ""), Outcome("3", "not run", "no wheel")


def pythons(*versions: str) -> list[Interpreter]:
    numbers = [[int(part) for part in version.split(".")] for version in versions]
    return [Interpreter((a, b, c), f"/python{a}.{b}.{c}") for a, b, c in numbers]


def test_the_newest_supported_patch_of_each_minor_version_is_used() -> None:
    found = chosen(pythons("3.13.0", "3.11.2", "3.11.7", "3.10.13", "2.7.18", "3.12.1"))
    assert [str(one) for one in found] == ["3.11.7", "3.12.1", "3.13.0"]


def test_a_release_is_preferred_to_a_candidate_of_the_same_version() -> None:
    candidate = Interpreter((3, 15, 1), "/candidate", final=False)
    assert [one.path for one in chosen([*pythons("3.15.0"), candidate])] == ["/python3.15.0"]
    assert chosen([candidate]) == [candidate]


def test_only_the_requested_versions_are_used() -> None:
    assert [str(one) for one in chosen(pythons("3.11.2", "3.12.1"), [minor("3.12")])] == ["3.12.1"]
    with pytest.raises(argparse.ArgumentTypeError, match="is not a version such as"):
        minor("312")


def test_the_python_version_is_read_and_other_programs_are_skipped() -> None:
    found = interpreter_of(sys.executable)
    assert found is not None
    assert found.version == sys.version_info[:3]
    assert interpreter_of("/bin/false") is None
    assert interpreter_of("/nowhere/python3.99") is None


def test_the_supported_versions_match_the_classifiers() -> None:
    assert {(3, 11), (3, 12), (3, 13)} <= set(supported())


@pytest.mark.parametrize(
    "uv_output, message",
    [
        (
            "error: Distribution `grpcio==1.60.0 @ registry+https://pypi.org/simple` can't be installed because it ...",
            "uv.lock has grpcio 1.60.0, which has no wheel for this Python",
        ),
        ("error: the lock is broken\n  caused by: a line", "the lock is broken"),
    ],
)
def test_a_dependency_without_a_wheel_is_reported(uv_output: str, message: str) -> None:
    assert why_not_installed(uv_output) == message


@pytest.mark.parametrize(
    "output, message",
    [
        ("...\n=== 2 failed, 7 passed in 61.30s (0:01:01) ===\n", "2 failed, 7 passed in 61.30s (0:01:01)"),
        ("...\n1234 passed, 2 skipped in 3.21s\n", "1234 passed, 2 skipped in 3.21s"),
        ("ImportError: no conftest", "pytest ended without a summary"),
    ],
)
def test_the_summary_has_the_counts_of_pytest(output: str, message: str) -> None:
    assert summary(output) == message


def test_failed_tests_and_required_versions_that_did_not_run_are_failures() -> None:
    needed = [(3, 11)]
    assert not is_failure({(3, 11): PASSED, (3, 15): UNRUN}, needed, [])
    assert is_failure({(3, 11): PASSED, (3, 15): FAILED}, needed, [])
    assert is_failure({(3, 11): UNRUN}, needed, [])
    assert is_failure({}, needed, [])
    assert is_failure({(3, 11): PASSED}, needed, [(3, 11), (3, 12)])
