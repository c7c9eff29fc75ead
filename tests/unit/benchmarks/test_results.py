"""Runs become figures: each run of Muster with the runs of its peers."""

from collections import Counter
from typing import cast

import pytest

from benchmarks.cluster.benches import BENCHES, WORKS, Contender, Run
from benchmarks.cluster.results import Results, median_of
from benchmarks.figures import KUBE
from devcluster.api import Json


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
