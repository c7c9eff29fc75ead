"""Two commits, measured alternately: the speedup of the second one."""

from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import compare
from benchmarks.compare import Compared, NotComparable, add, table
from benchmarks.session import Session


def a_figure(name: str, median: float, *, less: bool = True) -> dict[str, object]:
    return {"name": name, "unit": "s" if less else "/s", "median": median, "less_is_better": less}


def test_a_round_compares_figures_present_in_both() -> None:
    found: dict[str, Compared] = {}
    add(found, [a_figure("a", 4.0), a_figure("old", 1.0)], [a_figure("a", 2.0), a_figure("new", 1.0)])
    add(found, [a_figure("a", 9.0)], [a_figure("a", 3.0)])
    assert {name: one.times() for name, one in found.items()} == {"a": [2.0, 3.0]}


def test_a_higher_rate_is_better() -> None:
    found: dict[str, Compared] = {}
    add(found, [a_figure("a", 100.0, less=False)], [a_figure("a", 150.0, less=False)])
    assert found["a"].times() == [pytest.approx(1.5)]


def test_nothing_is_compared_with_zero() -> None:
    found: dict[str, Compared] = {}
    add(found, [a_figure("a", 0.0)], [a_figure("a", 1.0)])
    assert found == {}


def test_the_table_shows_the_median_turn_and_the_spread(tmp_path: Path) -> None:
    one = Compared("s", less_is_better=True, before=[4.0, 4.0, 4.0], after=[1.0, 2.0, 4.0])
    with (tmp_path / "out").open("w") as file:
        Console(width=200, file=file).print(table(("one", "two"), {"gang": one}))
    row = next(line for line in (tmp_path / "out").read_text().splitlines() if "gang" in line)
    assert [cell.strip() for cell in row.strip("│").split("│")] == ["gang", "s", "4", "2", "2.00x", "1.00 to 4.00"]


def test_an_unknown_commit_cannot_be_compared() -> None:
    with pytest.raises(NotComparable, match="no-such-commit"):
        compare.compare(("no-such-commit", "HEAD"), ["core/500"], Session(), runs=1, quick=True)
