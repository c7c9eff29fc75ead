"""Arguments select benchmarks: a family, a full name, or part of a name."""

from itertools import pairwise

import pytest

from benchmarks.cluster.benches import BENCHES, WORKS, Contender, Run, ordered_runs
from benchmarks.cluster.stage import load_of
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


# -- Runs of the same work follow each other directly, and the order favors no scheduler.

GANG = [BENCHES["cluster/gang-1000"], BENCHES["cluster/gang-1000-reserve"]]
LONG = [BENCHES["cluster/gang-5000"]]


def test_all_schedulers_run_a_workload_consecutively_in_a_round() -> None:
    some = list(ordered_runs(list(BENCHES.values()), 3, peers=True))
    blocks = [(run.number, run.work) for run in some]
    changes = [before for before, after in pairwise(blocks) if before != after]
    assert len(changes) == len(set(changes))


def test_the_peer_runs_once_for_both_placements() -> None:
    some = [run.contender for run in ordered_runs(GANG, 1, peers=True)]
    assert some == [Contender.AUTO, Contender.RESERVE, Contender.KUBE]


def test_the_first_scheduler_alternates_between_rounds() -> None:
    assert [(run.contender, run.number) for run in ordered_runs(GANG[:1], 2, peers=True)] == [
        (Contender.AUTO, 0), (Contender.KUBE, 0), (Contender.KUBE, 1), (Contender.AUTO, 1),
    ]  # fmt: skip


def test_the_last_scheduler_of_a_workload_starts_the_next() -> None:
    single = BENCHES["cluster/single-5000"]
    some = list(ordered_runs([single, GANG[0]], 1, peers=True))
    assert [run.contender for run in some] == [Contender.AUTO, Contender.KUBE, Contender.KUBE, Contender.AUTO]


def test_without_peers_only_muster_runs() -> None:
    assert {run.contender for run in ordered_runs(GANG, 2, peers=False)} == {Contender.AUTO, Contender.RESERVE}


def test_a_peer_that_takes_minutes_runs_half_as_often() -> None:
    some = list(ordered_runs(LONG, 5, peers=True))
    assert sum(run.contender is Contender.KUBE for run in some) == 2
    assert sum(run.contender is Contender.AUTO for run in some) == 5


def test_a_single_round_includes_every_scheduler() -> None:
    assert [run.contender for run in ordered_runs(LONG, 1, peers=True)] == [Contender.AUTO, Contender.KUBE]


def test_the_floor_has_no_peer() -> None:
    assert list(ordered_runs([BENCHES["cluster/floor-5000"]], 1, peers=True)) == [Run("floor-5000", Contender.NONE, 0)]


def test_several_loads_of_a_round_alternate_between_the_schedulers() -> None:
    """Both schedulers then have loads at the same time, on a machine that changes its speed."""
    burst, single = BENCHES["cluster/single-400"], BENCHES["cluster/single-5000"]
    some = list(ordered_runs([burst, single], 2, peers=True))
    half = WORKS["single-400"].repeats // 2
    rounds = ["AkkA" * half + "Ak", "kA", "kAAk" * half + "kA", "Ak"]
    assert "".join(run.contender[0] for run in some) == "".join(rounds)
    assert [run.repeat for run in some[:6]] == [0, 0, 1, 1, 2, 2]
    assert len({load_of(run, quick=False).name for run in some}) == len(some)


def test_every_workload_has_an_odd_number_of_loads_per_round() -> None:
    assert all(work.repeats % 2 for work in WORKS.values())


def test_pods_are_distributed_evenly_over_gangs() -> None:
    for work in WORKS.values():
        assert work.pods % max(1, work.gangs) == 0
        assert work.quick_pods % max(1, work.quick_gangs) == 0
