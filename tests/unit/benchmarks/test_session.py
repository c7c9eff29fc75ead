"""Progress: the estimated remaining time, and the failures."""

import io

import pytest
from rich.console import Console

from benchmarks.session import UNKNOWN_S, Session, minutes


def test_the_remaining_time_uses_earlier_durations() -> None:
    session = Session(known={"slow": 100.0, "quick": 1.0})
    session.plan(["slow", "quick", "quick"])
    assert session.left_s() == pytest.approx(102.0)


def test_an_unknown_step_has_a_default_duration() -> None:
    session = Session()
    session.plan(["new"])
    assert session.left_s() == pytest.approx(UNKNOWN_S)


def test_a_finished_step_corrects_the_remaining_time() -> None:
    session = Session(known={"work": 1000.0})
    session.plan(["work", "work"])
    with session.step("work"):
        pass
    assert session.left_s() < 1.0


def test_a_failed_step_counts_as_done() -> None:
    session = Session()
    session.plan(["work"])
    with pytest.raises(ValueError, match="no"), session.step("work"):
        raise ValueError("no")
    assert session.left_s() == 0


def test_durations_of_unmeasured_steps_are_kept() -> None:
    session = Session(known={"old": 7.0, "work": 100.0})
    with session.step("work"):
        pass
    assert session.medians()["old"] == 7.0
    assert session.medians()["work"] < 1.0


def test_without_a_terminal_each_step_is_a_line_with_what_is_left() -> None:
    output = io.StringIO()
    session = Session(known={"a": 30.0, "b": 600.0})
    session.plan(["a", "b"])
    with session.shown(Console(file=output, width=200)):
        with session.step("a", "run 1 of 1"):
            pass
        session.fail("it hung")
    assert output.getvalue().splitlines() == ["[1/2] a run 1 of 1: about 30 s; 10 min left", "it hung"]
    assert session.failures == ["it hung"]


def test_a_terminal_shows_the_same_information_in_a_bar() -> None:
    output = io.StringIO()
    session = Session(known={"a": 30.0, "b": 600.0})
    session.plan(["a", "b"])
    with session.shown(Console(file=output, width=200, force_terminal=True)), session.step("a"):
        pass
    assert "[1/2] a" in output.getvalue()
    assert "10 min left" in output.getvalue()


def test_a_plan_may_grow() -> None:
    output = io.StringIO()
    session = Session()
    session.plan(["a"])
    with session.step("a"):
        pass
    session.plan(["b", "c"])
    with session.shown(Console(file=output, width=200)), session.step("b"):
        pass
    assert output.getvalue().startswith("[2/3] b")


@pytest.mark.parametrize("seconds, words", [(4.4, "4 s left"), (89.0, "89 s left"), (100.0, "2 min left")])
def test_durations_are_reported_in_readable_units(seconds: float, words: str) -> None:
    assert minutes(seconds) == words
