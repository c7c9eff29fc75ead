"""Arguments select benchmarks: a family, a full name, or part of a name."""

import pytest

from benchmarks.families import FAMILIES, chosen, measured, options_of, planned
from benchmarks.figures import Options
from benchmarks.session import Session


def test_no_argument_selects_everything_except_optional_benchmarks() -> None:
    found = chosen(None)
    assert list(found) == list(FAMILIES)
    assert "cluster/gang-100-reserve" in found["cluster"]
    assert "cluster/gang-100-direct" not in found["cluster"]


def test_the_name_of_a_family_means_that_family_alone() -> None:
    assert list(chosen(["core"])) == ["core"]


def test_a_complete_name_selects_only_that_benchmark() -> None:
    assert chosen(["cluster/gang-100"]) == {"cluster": ["cluster/gang-100"]}


def test_a_part_of_names_means_all_of_them_the_optional_ones_too() -> None:
    assert chosen(["gang-1000-"]) == {"cluster": ["cluster/gang-1000-reserve", "cluster/gang-1000-direct"]}


def test_an_unknown_word_means_nothing() -> None:
    assert chosen(["no such thing"]) == {}


def test_every_name_begins_with_its_family() -> None:
    assert [name for key, family in FAMILIES.items() for name in family.names if not name.startswith(f"{key}/")] == []


def test_the_measured_benchmarks_match_the_plan() -> None:
    session = Session()
    options = Options(1, quick=True, session=session)
    names = chosen(["core/500"])
    session.plan(planned(names, options))
    [figure] = measured("core", names["core"], options)
    assert figure.name == "core/500"
    assert list(session.took) == ["core/500"]
    assert session.left_s() == 0


def test_what_is_slow_and_steady_is_measured_half_as_often_but_at_least_once() -> None:
    assert [options_of("operator", Options(runs)).runs for runs in (1, 3, 5)] == [1, 1, 2]
    assert options_of("both", Options(3)).runs == 3


@pytest.mark.parametrize("key", list(FAMILIES))
def test_every_family_plans_its_steps(key: str) -> None:
    assert planned({key: list(FAMILIES[key].names)}, Options())
