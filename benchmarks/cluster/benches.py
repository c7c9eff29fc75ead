"""The workloads of the cluster benchmarks, their schedulers, goals and order.

Goals are seconds from the first create call until the last real pod is bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Contender(StrEnum):
    """The scheduler of a run: Muster with one of its placement modes, kube-scheduler, or none."""

    RESERVE = "Reserve"
    ATOMIC = "Atomic"
    DIRECT = "Direct"
    AUTO = "Auto"
    KUBE = "kube-scheduler"
    NONE = "none"

    @property
    def is_muster(self) -> bool:
        """Whether the scheduler is Muster."""
        return self in (Contender.RESERVE, Contender.ATOMIC, Contender.DIRECT, Contender.AUTO)


@dataclass(frozen=True, slots=True)
class Work:
    """``pods`` in ``gangs`` gangs of equal size, or (0) as single pods. ``quick_*``: the same for a small load.

    ``seldom``: schedulers that need minutes and run it only in the first half of the rounds (rounded down, at least
    once).
    """

    pods: int
    gangs: int
    quick_pods: int
    quick_gangs: int
    seldom: Sequence[Contender] = ()


WORKS: Mapping[str, Work] = {
    "floor-5000": Work(5000, 0, 500, 0),
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
    goal_s: float | None = None
    writes: float | None = None
    ahead: float | None = None
    optional: bool = False

    @property
    def rival(self) -> Contender | None:
        """The peer that runs the same workload."""
        return Contender.KUBE if self.contender.is_muster else None


_GOALS: Mapping[str, tuple[float | None, float | None]] = {
    "gang-100": (1.0, 0.6),
    "gang-1000": (5.0, 2.0),
    "gang-5000": (28.0, 13.0),
    "gangs-50x100": (25.0, 13.0),
    "gangs-500x20": (None, None),
}
"""Goals in seconds with Reserve and with Direct."""
RESERVE_WRITES, DIRECT_WRITES = 5.0, 2.0
"""Writes per member. Reserve: create, bind, delete a placeholder; bind the member; event. Direct, and Auto if all
members exist: bind; event.
"""
EVENTS = 2
"""Events per gang."""
OPTIONAL = (Contender.ATOMIC, Contender.AUTO)
"""Placement modes that run only if they are requested by name."""


def _writes(work: str, each: float | None) -> float | None:
    """Return the maximal writes per pod, including its share of the gang's events."""
    return None if each is None else each + EVENTS * WORKS[work].gangs / WORKS[work].pods


BENCHES: Mapping[str, Bench] = {
    "cluster/floor-5000": Bench("floor-5000", Contender.NONE),
    "cluster/single-5000": Bench("single-5000", Contender.RESERVE, ahead=1 / 0.95),
    **{
        f"cluster/{work}{ending}": Bench(work, contender, goal_s, _writes(work, writes), optional=contender in OPTIONAL)
        for work, (reserve_s, direct_s) in _GOALS.items()
        for ending, contender, goal_s, writes in (
            ("", Contender.RESERVE, reserve_s, RESERVE_WRITES),
            ("-direct", Contender.DIRECT, direct_s, DIRECT_WRITES),
            ("-atomic", Contender.ATOMIC, None, None),
            ("-auto", Contender.AUTO, None, DIRECT_WRITES),
        )
    },
}


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a workload by a scheduler. ``number`` counts the rounds from 0."""

    work: str
    contender: Contender
    number: int

    @property
    def step(self) -> str:
        """Its name, which is the same in every round."""
        return f"cluster/{self.work} {self.contender}"


def ordered_runs(benches: Sequence[Bench], runs: int, *, peers: bool) -> Iterator[Run]:
    """Yield every run, round by round. In a round, all schedulers of a workload run one after the other.

    Their order alternates between workloads and rounds, so that a machine that changes its speed favours no scheduler.
    The last scheduler of a workload starts the next one, which halves the number of scheduler changes.
    """
    works = list(dict.fromkeys(bench.work for bench in benches))
    for number in range(runs):
        for index, work in enumerate(works):
            contenders = _contenders(work, benches, peers=peers)
            some = [Run(work, one, number) for one in contenders if number < _runs(work, one, runs)]
            yield from some if (number + index) % 2 == 0 else reversed(some)


def _contenders(work: str, benches: Sequence[Bench], *, peers: bool) -> list[Contender]:
    same = [bench for bench in benches if bench.work == work]
    rivals = [bench.rival for bench in same if bench.rival is not None] if peers else []
    return list(dict.fromkeys([bench.contender for bench in same] + rivals))


def _runs(work: str, contender: Contender, runs: int) -> int:
    return max(1, runs // 2) if contender in WORKS[work].seldom else runs
