"""The chart shows the values of the document."""

from typing import Any

import pytest

from benchmarks.chart import Bar, bars, curves
from benchmarks.figures import KUBE, YUNIKORN, Figure
from benchmarks.report import document, plain
from benchmarks.session import Session


def read_back(*figures: Figure) -> dict[str, Any]:
    """The document as it is read from the file."""
    return plain(document(figures, Session(), quick=False))


def test_a_bar_reports_whether_the_peer_ran_at_the_same_time() -> None:
    figure = Figure("cluster/gang-1000", "s", [2.0, 2.0], less_is_better=True, rivals={KUBE: [4.0, 2.4]})
    assert bars(read_back(figure)) == [
        Bar("cluster/gang-1000", KUBE, 1.6, here=True, spread=(1.2, 2.0)),
        Bar("cluster/gang-1000", YUNIKORN, 7.75, here=False, spread=(7.75, 7.75)),
    ]


def test_the_floor_reports_nothing_about_schedulers() -> None:
    assert bars(read_back(Figure("cluster/floor-5000", "s", [4.0], less_is_better=True))) == []


def test_a_fact_of_other_work_makes_no_bar() -> None:
    """The gates of kube-scheduler's CI are the least of a whole scheduler; ours is the core alone."""
    assert bars(read_back(Figure("shapes/basic", "/CPU s", [80_000.0]))) == []


def test_a_curve_is_the_cost_against_that_of_the_fewest() -> None:
    few, many = (
        Figure(f"growth/nodes/{n}", "us", [cost], less_is_better=True) for n, cost in ((500, 20.0), (15_000, 30.0))
    )
    assert curves(read_back(many, few)) == {"nodes": [(500.0, 1.0), (15_000.0, pytest.approx(1.5))]}


def test_a_rate_that_falls_is_a_cost_that_grows() -> None:
    few, many = (Figure(f"growth/queues/{n}", "/s", [rate]) for n, rate in ((10, 40_000.0), (1000, 20_000.0)))
    assert curves(read_back(few, many)) == {"queues": [(10.0, 1.0), (1000.0, pytest.approx(2.0))]}


def test_small_loads_make_curves_too() -> None:
    assert list(curves(read_back(Figure("growth/nodes/500 (quick)", "us", [1.0], less_is_better=True)))) == ["nodes"]


def test_other_figures_are_no_curve() -> None:
    assert curves(read_back(Figure("core/500", "/s", [1.0]), Figure("growth/nodes/ratio", "x", [1.0]))) == {}
