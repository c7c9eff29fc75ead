"""A figure has its ratio to each peer, and shows whether its goals are reached."""

import pytest

from benchmarks.figures import FACTS, KUBE, YUNIKORN, Figure, Ratio


def seconds(*values: float, theirs: tuple[float, ...] = (), ahead: float | None = None) -> Figure:
    """A time of one gang of 1,000, which has facts of both peers."""
    return Figure(
        "cluster/gang-1000",
        "s",
        values,
        5.0,
        less_is_better=True,
        rivals={KUBE: theirs} if theirs else {},
        ahead={} if ahead is None else {KUBE: ahead},
    )


def test_less_time_than_the_peer_is_times_better() -> None:
    assert seconds(2.0, theirs=(6.0,)).ratios()[KUBE].times == pytest.approx(3.0)


def test_a_higher_rate_than_the_peer_is_times_better() -> None:
    assert Figure("core/5000", "/s", [47_600.0]).ratios()[YUNIKORN].times == pytest.approx(10.0)


def test_the_ratio_is_the_median_of_the_turns_and_not_of_the_sides() -> None:
    figure = seconds(1.0, 10.0, 2.0, theirs=(2.0, 10.0, 6.0))  # the machine was slow in the second turn
    assert figure.ratios()[KUBE] == Ratio(peer=6.0, times=2.0, lowest=1.0, highest=3.0, here=True)


def test_a_peer_that_ran_less_often_is_compared_by_medians() -> None:
    assert seconds(1.0, 2.0, 4.0, theirs=(6.0,)).ratios()[KUBE].times == pytest.approx(3.0)


def test_a_peer_of_this_session_replaces_the_fact_and_the_other_stays_one() -> None:
    ratios = seconds(2.0, theirs=(3.0,)).ratios()
    assert ratios[KUBE].here
    assert not ratios[YUNIKORN].here
    assert ratios[YUNIKORN].peer == FACTS["cluster/gang-1000"][YUNIKORN]


def test_a_peer_whose_runs_all_failed_leaves_the_fact() -> None:
    figure = Figure("cluster/gang-1000", "s", [2.0], less_is_better=True, rivals={KUBE: []})
    assert not figure.ratios()[KUBE].here


@pytest.mark.parametrize("values, met", [((4.0, 5.0, 9.0), True), ((4.0, 6.0, 9.0), False)])
def test_the_median_has_to_reach_the_goal(values: tuple[float, ...], met: bool) -> None:  # noqa: FBT001  # a verdict
    assert seconds(*values).is_met is met


def test_both_the_goal_and_the_lead_have_to_be_reached() -> None:
    assert seconds(4.0, theirs=(4.4,), ahead=1.05).is_met is True
    assert seconds(4.0, theirs=(4.1,), ahead=1.05).is_met is False
    assert seconds(6.0, theirs=(9.0,), ahead=1.05).is_met is False


def test_a_lead_over_a_peer_that_did_not_run_is_neither_met_nor_missed() -> None:
    assert Figure("cluster/single-5000", "s", [9.0], less_is_better=True, ahead={KUBE: 1.05}).is_met is None


def test_without_goals_there_is_no_result() -> None:
    assert Figure("si/asks", "/s", [1.0]).is_met is None


def test_every_placement_of_a_gang_has_the_facts_of_that_gang() -> None:
    assert FACTS["cluster/gang-5000-reserve"] == FACTS["cluster/gang-5000"] == {KUBE: 127, YUNIKORN: 93}
