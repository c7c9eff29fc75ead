"""Runs of the same work follow each other directly, and the order favors no scheduler."""

from itertools import pairwise

from benchmarks.cluster.benches import BENCHES, WORKS, Run, Who, turns

GANG = [BENCHES["cluster/gang-1000"], BENCHES["cluster/gang-1000-direct"]]
LONG = [BENCHES["cluster/gang-5000"]]


def test_all_schedulers_run_a_workload_consecutively_in_a_round() -> None:
    some = list(turns(list(BENCHES.values()), 3, peers=True))
    blocks = [(turn.number, turn.work) for turn in some]
    changes = [before for before, after in pairwise(blocks) if before != after]
    assert len(changes) == len(set(changes))


def test_the_peer_runs_once_for_both_placements() -> None:
    assert [turn.who for turn in turns(GANG, 1, peers=True)] == [Who.RESERVE, Who.DIRECT, Who.KUBE]


def test_the_first_scheduler_alternates_between_rounds() -> None:
    assert [(turn.who, turn.number) for turn in turns(GANG[:1], 2, peers=True)] == [
        (Who.RESERVE, 0), (Who.KUBE, 0), (Who.KUBE, 1), (Who.RESERVE, 1),
    ]  # fmt: skip


def test_the_last_scheduler_of_a_workload_starts_the_next() -> None:
    single = BENCHES["cluster/single-5000"]
    some = list(turns([single, GANG[0]], 1, peers=True))
    assert [turn.who for turn in some] == [Who.RESERVE, Who.KUBE, Who.KUBE, Who.RESERVE]


def test_without_peers_only_muster_runs() -> None:
    assert {turn.who for turn in turns(GANG, 2, peers=False)} == {Who.RESERVE, Who.DIRECT}


def test_a_peer_that_takes_minutes_runs_half_as_often() -> None:
    some = list(turns(LONG, 5, peers=True))
    assert sum(turn.who is Who.KUBE for turn in some) == 2
    assert sum(turn.who is Who.RESERVE for turn in some) == 5


def test_a_single_round_includes_every_scheduler() -> None:
    assert [turn.who for turn in turns(LONG, 1, peers=True)] == [Who.RESERVE, Who.KUBE]


def test_the_floor_has_no_peer() -> None:
    assert list(turns([BENCHES["cluster/floor-5000"]], 1, peers=True)) == [Run("floor-5000", Who.NOBODY, 0)]


def test_pods_are_distributed_evenly_over_gangs() -> None:
    for work in WORKS.values():
        assert work.pods % max(1, work.gangs) == 0
        assert work.quick_pods % max(1, work.quick_gangs) == 0
