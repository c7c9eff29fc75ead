"""A figure has its ratio to each peer, and shows whether its goals are reached."""

from collections import Counter
from typing import cast

import pytest

from benchmarks.cluster.benches import BENCHES, WORKS, Contender, Run
from benchmarks.cluster.results import Results, median_of
from benchmarks.figures import FACTS, KUBE, YUNIKORN, Figure, Ratio
from devcluster.api import Json


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


# -- Runs become figures: each run of Muster with the runs of its peers.


def a_run(seconds: float, **writes: int) -> Json:
    keys = ("create_s", "first_bound_s", "first_ways_s", "p50_s", "p99_s")
    found: Json = {"pods": 10, "bound_s": seconds, **dict.fromkeys(keys, seconds / 10)}
    found |= {"cpu_s": {"etcd": 1.0}, "resident_mib": {"core": 100.0}, "placeholders": 3}
    return found | ({"writes": Counter(writes)} if writes else {})


def figures_of(name: str, ours: list[Json], theirs: list[Json]) -> dict[str, list[float]]:
    results, bench = Results(), BENCHES[name]
    for contender, runs in ((bench.contender, ours), (Contender.KUBE, theirs)):
        for number, run in enumerate(runs):
            results.add(Run(bench.work, contender, number), run)
    found = results.figures(name, bench)
    return {figure.name: [*figure.values, *figure.rivals.get(KUBE, ())] for figure in found}


def test_times_are_recorded_with_those_of_the_peer() -> None:
    found = figures_of("cluster/gang-100", [a_run(2.0), a_run(3.0)], [a_run(4.0), a_run(5.0)])
    assert found == {"cluster/gang-100": [2.0, 3.0, 4.0, 5.0]}


def test_the_placeholders_of_a_run_are_shown_with_its_time() -> None:
    results, bench = Results(), BENCHES["cluster/gang-100"]
    results.add(Run(bench.work, bench.contender, 0), a_run(2.0))
    assert results.figures("cluster/gang-100", bench)[0].additional["placeholders"] == [3]


def test_writes_are_counted_per_pod() -> None:
    found = figures_of("cluster/gang-100", [a_run(2.0, create=30, delete=20)], [a_run(4.0, create=30)])
    assert found["cluster/gang-100 writes"] == [5.0, 3.0]


def test_a_burst_of_single_pods_has_goals_for_the_first_and_the_middle() -> None:
    results = Results()
    for work in ("single-400", "single-5000"):
        for repeat in range(WORKS[work].repeats):
            results.add(Run(work, Contender.AUTO, 0, repeat), a_run(2.0))
            results.add(Run(work, Contender.KUBE, 0, repeat), a_run(4.0))
    names = ("cluster/single-400", "cluster/single-5000")
    found = {figure.name: figure for name in names for figure in results.figures(name, BENCHES[name])}
    for name in ("cluster/single-400 first 50", "cluster/single-400 p50", "cluster/single-5000 p50"):
        assert [*found[name].values, *found[name].rivals[KUBE]] == [pytest.approx(0.2), pytest.approx(0.4)]
        assert found[name].ahead == {KUBE: 1.0}


def test_a_run_with_several_loads_has_the_median_of_each_value() -> None:
    found = median_of([a_run(2.0, bind=10), a_run(9.0, bind=10), a_run(3.0, bind=10, event=1)])
    assert (found["bound_s"], found["pods"], found["cpu_s"]) == (3.0, 10, {"etcd": 1.0})
    assert found["writes"] == {"bind": 10, "event": 0}


def test_the_loads_of_a_round_become_one_result() -> None:
    results, bench = Results(), BENCHES["cluster/single-400"]
    loads = WORKS[bench.work].repeats
    for number, base in ((0, 1.0), (1, 10.0)):
        for repeat, seconds in enumerate(range(loads, 0, -1)):
            results.add(Run(bench.work, bench.contender, number, repeat), a_run(base * seconds))
    results.add(Run(bench.work, bench.contender, 2), a_run(1.0))  # the other loads of this round failed
    time = results.figures("cluster/single-400", bench)[0]
    assert time.values == [(loads + 1) / 2, 10 * (loads + 1) / 2]
    runs = cast("list[Json]", time.details["runs"])
    assert [run["loads"][0]["bound_s"] for run in runs] == [loads, 10 * loads]


def test_a_workload_that_never_finished_has_no_figure() -> None:
    assert figures_of("cluster/gang-100", [], [a_run(4.0)]) == {}


def test_a_peer_that_never_finished_is_left_out() -> None:
    assert figures_of("cluster/gang-100", [a_run(2.0)], []) == {"cluster/gang-100": [2.0]}
