"""What is run on the cluster, who runs it, which goals it has, and in which order all that comes.

Goals: seconds from the first create call to the last real pod bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Who(StrEnum):
    """Who schedules, and how: Muster with one of its placements of gangs (semantics 16), a peer, or nobody."""

    RESERVE = "Reserve"
    ATOMIC = "Atomic"
    DIRECT = "Direct"
    KUBE = "kube-scheduler"
    NOBODY = "nobody"

    @property
    def is_muster(self) -> bool:
        """Whether it is ours."""
        return self in (Who.RESERVE, Who.ATOMIC, Who.DIRECT)


@dataclass(frozen=True, slots=True)
class Work:
    """``pods`` in ``gangs`` gangs of equal size, or (0) as single pods; ``quick_*``: the same, small.

    ``seldom``: who runs it only in the first half of the rounds, rounded down but at least once, for it takes minutes.
    """

    pods: int
    gangs: int
    quick_pods: int
    quick_gangs: int
    seldom: Sequence[Who] = ()


WORKS: Mapping[str, Work] = {
    "floor-5000": Work(5000, 0, 500, 0),
    "single-5000": Work(5000, 0, 500, 0),
    "gang-100": Work(100, 1, 100, 1),
    "gang-1000": Work(1000, 1, 200, 1),
    "gang-5000": Work(5000, 1, 400, 1, seldom=[Who.KUBE]),
    "gangs-50x100": Work(5000, 50, 500, 5),
    "gangs-500x20": Work(10_000, 500, 500, 25, seldom=list(Who)),
}


@dataclass(frozen=True, slots=True)
class Bench:
    """One name: a work, which of ours does it, and which peer beside it.

    ``writes``: the most that our account may write per pod; ``ahead``: how many times faster than the peer of the same
    session; ``optional``: measured only when it is asked for by its name.
    """

    work: str
    who: Who
    goal_s: float | None = None
    writes: float | None = None
    ahead: float | None = None
    optional: bool = False

    @property
    def rival(self) -> Who | None:
        """Who does the same work by turns with it."""
        return Who.KUBE if self.who.is_muster else None


_GOALS: Mapping[str, tuple[float | None, float | None]] = {
    "gang-100": (1.0, 0.6),
    "gang-1000": (5.0, 2.0),
    "gang-5000": (28.0, 13.0),
    "gangs-50x100": (25.0, 13.0),
    "gangs-500x20": (None, None),
}
"""Seconds with Reserve and with Direct."""
RESERVE_WRITES, DIRECT_WRITES = 5.0, 2.0
"""Per member: placeholder created, bound, deleted, member bound, an event; without placeholders bound, an event."""
EVENTS = 2
"""Of a gang itself."""


def _writes(work: str, each: float | None) -> float | None:
    """What each pod may cost, with its share of its gang's."""
    return None if each is None else each + EVENTS * WORKS[work].gangs / WORKS[work].pods


BENCHES: Mapping[str, Bench] = {
    "cluster/floor-5000": Bench("floor-5000", Who.NOBODY),
    "cluster/single-5000": Bench("single-5000", Who.RESERVE, ahead=1 / 0.95),
    **{
        f"cluster/{work}{ending}": Bench(work, who, goal_s, _writes(work, writes), optional=who is Who.ATOMIC)
        for work, (reserve_s, direct_s) in _GOALS.items()
        for ending, who, goal_s, writes in (
            ("", Who.RESERVE, reserve_s, RESERVE_WRITES),
            ("-direct", Who.DIRECT, direct_s, DIRECT_WRITES),
            ("-atomic", Who.ATOMIC, None, None),
        )
    },
}


@dataclass(frozen=True, slots=True)
class Turn:
    """One run of a work by somebody; ``number`` counts the rounds from 0."""

    work: str
    who: Who
    number: int

    @property
    def step(self) -> str:
        """Its name, the same in every round."""
        return f"cluster/{self.work} {self.who}"


def turns(benches: Sequence[Bench], runs: int, *, peers: bool) -> Iterator[Turn]:
    """Every run, round by round; in a round all who do the same work come one right after the other.

    Who begins changes from work to work and from round to round: a machine that gets slower or faster favours nobody,
    and who ended one work begins the next, so that schedulers are changed half as often.
    """
    works = list(dict.fromkeys(bench.work for bench in benches))
    for number in range(runs):
        for index, work in enumerate(works):
            some = [who for who in _contenders(work, benches, peers=peers) if number < _runs(work, who, runs)]
            yield from (Turn(work, who, number) for who in (some if (number + index) % 2 == 0 else reversed(some)))


def _contenders(work: str, benches: Sequence[Bench], *, peers: bool) -> list[Who]:
    same = [bench for bench in benches if bench.work == work]
    rivals = [bench.rival for bench in same if bench.rival is not None] if peers else []
    return list(dict.fromkeys([bench.who for bench in same] + rivals))


def _runs(work: str, who: Who, runs: int) -> int:
    return max(1, runs // 2) if who in WORKS[work].seldom else runs
