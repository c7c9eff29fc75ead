"""Expressions are searched in names, report their errors, and take bounded time."""

import pytest

from muster_core.model.config import MOST_CHARACTERS, matches, problem


@pytest.mark.parametrize(
    "expression, name, found",
    [
        ("^dev-", "dev-1", True),
        ("^dev-", "my-dev-1", False),
        ("dev", "my-dev-1", True),
        ("a|b", "b", True),
        ("[0-9]+$", "team7", True),
        ("é.", "café!", True),
        ("", "anybody", True),
    ],
)
def test_an_expression_matches_anywhere_in_the_name(expression: str, name: str, *, found: bool) -> None:
    assert problem(expression) == ""
    assert matches(expression, name) is found


@pytest.mark.parametrize(
    "expression, part",
    [
        ("(", "missing"),
        ("[z-a]", "invalid character class range"),
        ("*a", "no argument for repetition"),
        ("(?=a)", "invalid perl operator"),
        ("((a{1000}){1000}){1000}", "invalid repetition size"),
        ("(\\pL{500}){2}", "pattern too large"),
        ("a" * (MOST_CHARACTERS + 1), "longer than"),
    ],
)
def test_an_unusable_expression_reports_the_problem(expression: str, part: str) -> None:
    assert part in problem(expression)


@pytest.mark.timeout(5)
def test_matching_stays_fast_for_every_expression() -> None:
    assert not matches("^(a+)+$", "a" * 100_000 + "b")
    assert not matches("(x+x+)+y", "x" * 100_000)
