"""What a benchmark finds: a figure with the values of all its runs, its goals, and what the peers reached."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.session import Session

KUBE, YUNIKORN = "kube-scheduler", "YuniKorn"
NAMES = (KUBE, YUNIKORN)

_CORE_FACTS = {500: 4500, 1000: 4600, 2000: 4700, 5000: 4760}
_GANG_FACTS: Mapping[str, tuple[float, float]] = {
    "gang-100": (0.65, 5.2),
    "gang-1000": (6.6, 15.5),
    "gang-5000": (127, 93),
    "gangs-50x100": (36.5, 73),
}
_GATES = {
    "basic": 680,
    "node-affinity": 220,
    "anti-affinity": 60,
    "affinity": 35,
    "preferred-affinity": 90,
    "preferred-anti-affinity": 90,
    "anti-affinity-by-namespace-label": 24,
    "spread": 460,
    "preferred-spread": 340,
    "volumes": 100,
}
PLACEMENTS = ("", "-direct", "-atomic")

FACTS: Mapping[str, Mapping[str, float]] = {
    "cluster/floor-5000": {KUBE: 4, YUNIKORN: 4},
    "cluster/single-5000": {KUBE: 13.0, YUNIKORN: 19.4},
    "cluster/single-5000 first": {KUBE: 0.16, YUNIKORN: 8.4},
    "cluster/single-5000 p50": {KUBE: 1.0, YUNIKORN: 11.0},
    "cluster/single-5000 writes": {KUBE: 2},
    **{
        f"cluster/{gang}{placement}": {KUBE: kube, YUNIKORN: yunikorn}
        for gang, (kube, yunikorn) in _GANG_FACTS.items()
        for placement in PLACEMENTS
    },
    **{
        f"cluster/{gang}{placement} writes": {KUBE: 3, YUNIKORN: 13} for gang in _GANG_FACTS for placement in PLACEMENTS
    },
    **{f"core/{nodes}": {YUNIKORN: rate} for nodes, rate in _CORE_FACTS.items()},
    "edge/whole": {YUNIKORN: _CORE_FACTS[5000]},
    "both/50000": {YUNIKORN: 5971},
    **{f"shapes/{shape}": {KUBE: rate} for shape, rate in _GATES.items()},
}
"""kube-scheduler 1.36.1 (gangs: its alpha PodGroup) and YuniKorn of August 2026, on another machine with 2 cores.

`cluster`: a real API server, 1,000 fake nodes, the same load, client limits raised to 5,000 QPS. `core`, `edge/whole`:
YuniKorn's own BenchmarkScheduling without predicates, by the wall clock on two cores. It goes from message to message,
as our `edge/whole` does, and our `core` leaves the messages out; ours are seconds of one processor. `both`: its
BenchmarkSchedulingThroughPut, shim and core with the API mocked, whose pods come as objects and not as bytes.
`shapes`: the gates of kube-scheduler's own CI at 5,000 nodes, the least that it has to reach there, whose whole path
writes to an API server; ours is the core alone. `floor` is creating the pods with no scheduler at all: it says how fast
the machines are, and nothing about schedulers. A ratio of figures from two machines is good for one digit, and none is
scaled: where a peer ran beside us in the same session (`Figure.rivals`), that counts and not the fact.
"""


OTHER_WORK = ("cluster/floor", "shapes/")
"""How names begin whose facts are of other work than ours, or of nobody's: told, but no lead is drawn from them."""

QUICK = " (quick)"
"""Ends the names of figures of small loads."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times better than a peer: over 1 = ahead. ``here``: both ran by turns in this session."""

    peer: float
    """The peer's median, in the figure's unit."""
    times: float
    lowest: float
    highest: float
    here: bool


def times(value: float) -> str:
    """``0.85x``, ``1.4x``, ``140x``: two digits are all that a ratio is good for."""
    return f"{value:.0f}x" if value >= 10 else f"{value:.2g}x"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number.

    ``goal``: None = there is none; ``rivals``: values of peers in this session, each beside ours of the same turn;
    ``ahead``: how many times better than such a peer it has to be; ``beside``: values of the same runs that explain
    it; ``details``: what only the JSON file shows.
    """

    name: str
    unit: str
    values: Sequence[float]
    goal: float | None = None
    less_is_better: bool = False
    beside: Mapping[str, Sequence[float]] = field(default_factory=dict)
    details: Mapping[str, object] = field(default_factory=dict)
    rivals: Mapping[str, Sequence[float]] = field(default_factory=dict)
    ahead: Mapping[str, float] = field(default_factory=dict)

    @property
    def median(self) -> float:
        """Of the runs."""
        return statistics.median(self.values)

    @property
    def is_met(self) -> bool | None:
        """Whether every goal is reached; None without one, or if the peer it speaks of did not run."""
        verdicts = [ratio.times >= self.ahead[peer] for peer, ratio in self._rivals().items() if peer in self.ahead]
        if self.goal is not None:
            verdicts.append(self.median <= self.goal if self.less_is_better else self.median >= self.goal)
        return all(verdicts) if verdicts else None

    def ratios(self) -> dict[str, Ratio]:
        """Against each peer that did the same work, in this session or, failing that, on its day."""
        return {**self._facts(), **self._rivals()}

    def as_json(self) -> dict[str, object]:
        """Everything, for the JSON file."""
        return {
            "name": self.name,
            "unit": self.unit,
            "less_is_better": self.less_is_better,
            "median": self.median,
            "values": list(self.values),
            "goal": self.goal,
            "ahead": dict(self.ahead),
            "met": self.is_met,
            "rivals": {peer: list(values) for peer, values in self.rivals.items()},
            "ratios": self.ratios(),
            "beside": {key: list(values) for key, values in self.beside.items()},
            "details": dict(self.details),
        }

    def _facts(self) -> dict[str, Ratio]:
        found = {}
        for peer, value in FACTS.get(self.name, {}).items():
            ratio = self._better(self.median, value)
            found[peer] = Ratio(value, ratio, ratio, ratio, here=False)
        return found

    def _rivals(self) -> dict[str, Ratio]:
        """The median of the turns' ratios, for a slow minute touches both of a turn.

        Where one ran less often, the ratio of the medians.
        """
        found = {}
        for peer, values in self.rivals.items():
            if not values:
                continue
            theirs = statistics.median(values)
            pairs = (
                zip(self.values, values, strict=True) if len(values) == len(self.values) else [(self.median, theirs)]
            )
            ratios = [self._better(ours, value) for ours, value in pairs]
            found[peer] = Ratio(theirs, statistics.median(ratios), min(ratios), max(ratios), here=True)
        return found

    def _better(self, ours: float, theirs: float) -> float:
        return theirs / ours if self.less_is_better else ours / theirs


@dataclass(frozen=True, slots=True)
class Options:
    """How to measure. ``quick``: a smaller piece of work where that is possible, to see that everything runs.

    ``peers``: let those run beside that can.
    """

    runs: int = 3
    quick: bool = False
    peers: bool = True
    session: Session = field(default_factory=Session)
