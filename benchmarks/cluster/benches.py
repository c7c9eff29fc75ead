"""The workloads of the cluster benchmarks, their schedulers, goals and order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Contender(StrEnum):
    """The scheduler of a run: Muster with one of its placement modes (Auto: the default), kube-scheduler, none, or a
    program that binds each pod to any node."""

    AUTO = "Auto"
    RESERVE = "Reserve"
    DIRECT = "Direct"
    KUBE = "kube-scheduler"
    NONE = "none"
    FLOOR = "floor"

    @property
    def is_muster(self) -> bool:
        """Whether the scheduler is Muster."""
        return self in (Contender.AUTO, Contender.RESERVE, Contender.DIRECT)


@dataclass(frozen=True, slots=True)
class Work:
    """``pods`` in ``gangs`` gangs of equal size, or (0) as single pods. ``quick_*``: the same for a small load.

    ``repeats``: loads per round and scheduler, an odd number; the result of the round has the median of each value.
    ``seldom``: schedulers that need minutes and run it only in the first half of the rounds (rounded down, at least
    once).
    """

    pods: int
    gangs: int
    quick_pods: int
    quick_gangs: int
    repeats: int = 1
    seldom: Sequence[Contender] = ()


ONCE = Work(0, 0, 0, 0)
"""A work of another family, which has no loads of its own and runs once per round."""
WORKS: Mapping[str, Work] = {
    "floor-5000": Work(5000, 0, 500, 0),
    "single-400": Work(400, 0, 100, 0, repeats=15),
    "single-5000": Work(5000, 0, 500, 0),
    "gang-100": Work(100, 1, 100, 1),
    "gang-1000": Work(1000, 1, 200, 1),
    "gang-5000": Work(5000, 1, 400, 1, seldom=[Contender.KUBE]),
    "gangs-50x100": Work(5000, 50, 500, 5),
    "gangs-500x20": Work(10_000, 500, 500, 25, seldom=list(Contender)),
}


@dataclass(frozen=True, slots=True)
class Bench:
    """One benchmark: a workload, Muster's placement mode, and the peer of the same session.

    ``writes``: maximal writes per pod of Muster's account. ``ahead``: required ratio to the peer. ``optional``: runs
    only if requested by name.
    """

    work: str
    contender: Contender
    writes: float | None = None
    ahead: float | None = None
    optional: bool = False

    @property
    def rival(self) -> Contender | None:
        """The peer that runs the same workload."""
        return Contender.KUBE if self.contender.is_muster else None


SINGLE_TIME = 0.65
"""Maximal time for single pods as a part of kube-scheduler's."""
_GANG_TIMES: Mapping[str, float] = {
    "gang-100": 0.6,
    "gang-1000": 0.33,
    "gang-5000": 0.1,
    "gangs-50x100": 0.24,
    "gangs-500x20": 0.12,
}
"""The same for gangs in the default placement."""
DIRECT_WRITES, RESERVE_WRITES = 2.0, 4.0
"""Maximal writes per member. Direct, and Auto if all members exist: bind; event. Reserve also creates, binds and
deletes a placeholder, and its goal is one write less than that.
"""
EVENTS = 2
"""Events per gang."""


def _writes(work: str, each: float) -> float:
    """Return the maximal writes per pod, including its share of the gang's events."""
    return each + EVENTS * WORKS[work].gangs / WORKS[work].pods


def _gang_benches(work: str, time: float) -> dict[str, Bench]:
    """Return a workload in each placement mode, the default without a suffix."""
    direct, reserve = _writes(work, DIRECT_WRITES), _writes(work, RESERVE_WRITES)
    return {
        f"cluster/{work}": Bench(work, Contender.AUTO, direct, ahead=1 / time),
        f"cluster/{work}-reserve": Bench(work, Contender.RESERVE, reserve),
        f"cluster/{work}-direct": Bench(work, Contender.DIRECT, direct, optional=True),
    }


BENCHES: Mapping[str, Bench] = {
    "cluster/floor-5000": Bench("floor-5000", Contender.NONE),
    "cluster/single-400": Bench("single-400", Contender.AUTO, ahead=1.0),
    "cluster/single-5000": Bench("single-5000", Contender.AUTO, ahead=1 / SINGLE_TIME),
    **{name: bench for work, time in _GANG_TIMES.items() for name, bench in _gang_benches(work, time).items()},
}


@dataclass(frozen=True, slots=True)
class Run:
    """One load of a workload with a scheduler. ``number`` counts the rounds from 0, ``repeat`` the loads in a round."""

    work: str
    contender: Contender
    number: int
    repeat: int = 0

    @property
    def step(self) -> str:
        """Its name, which is the same in every round."""
        return f"{self.work if '/' in self.work else f'cluster/{self.work}'} {self.contender}"


def ordered_runs(benches: Sequence[Bench], runs: int, *, peers: bool) -> Iterator[Run]:
    """Yield every load, round by round. In a round, all schedulers of a workload run one after the other.

    Their order alternates between loads, workloads and rounds, so that a machine that changes its speed favours no
    scheduler. The scheduler of the last load also runs the next one, which halves the number of scheduler changes.
    """
    works = list(dict.fromkeys(bench.work for bench in benches))
    for number in range(runs):
        for index, work in enumerate(works):
            contenders = _contenders(work, benches, peers=peers)
            for repeat in range(WORKS[work].repeats):
                some = [Run(work, one, number, repeat) for one in contenders if number < _runs(work, one, runs)]
                yield from some if (number + index + repeat) % 2 == 0 else reversed(some)


def _contenders(work: str, benches: Sequence[Bench], *, peers: bool) -> list[Contender]:
    same = [bench for bench in benches if bench.work == work]
    rivals = [bench.rival for bench in same if bench.rival is not None] if peers else []
    return list(dict.fromkeys([bench.contender for bench in same] + rivals))


def _runs(work: str, contender: Contender, runs: int) -> int:
    return max(1, runs // 2) if contender in WORKS[work].seldom else runs
