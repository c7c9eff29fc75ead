"""Results of benchmarks: a figure has the values of all runs, its goals, and the results of other schedulers."""

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
PLACEMENTS = ("", "-reserve", "-direct")

FACTS: Mapping[str, Mapping[str, float]] = {
    "cluster/floor-5000": {KUBE: 4, YUNIKORN: 4},
    "cluster/single-5000": {KUBE: 13.0, YUNIKORN: 19.4},
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
"""Known results of kube-scheduler 1.36.1 (gangs: its alpha PodGroup) and YuniKorn of August 2026.

They were measured on another machine with 2 cores. They are not scaled, and a ratio to them is accurate to one digit.
Results of the same session (`Figure.rivals`) take precedence.

* `cluster`: a real API server, 1,000 fake nodes, the same load, client limits of 5,000 QPS.
* `core`, `edge/whole`: YuniKorn's BenchmarkScheduling without predicates, in wall-clock time on two cores, from message
  to message like `edge/whole`. `core` excludes the messages. Muster's figures are in seconds of one CPU.
* `both`: YuniKorn's BenchmarkSchedulingThroughPut: shim and core with a mocked API, with pods as objects, not bytes.
* `shapes`: the thresholds of kube-scheduler's CI at 5,000 nodes, for the complete scheduler with an API server.
  Muster's figures are of the core alone.
* `floor`: creates pods without a scheduler. It compares the machines, not the schedulers.
"""


OTHER_WORK = ("cluster/floor", "shapes/")
"""Prefixes of names whose known results are of other work. The table shows them; the chart does not."""

QUICK = " (quick)"
"""Suffix of the names of figures with small loads."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times better than a peer; above 1 Muster is better. ``here``: both were measured in this session."""

    peer: float
    """The peer's median, in the figure's unit."""
    times: float
    lowest: float
    highest: float
    here: bool


def times(value: float) -> str:
    """Format a ratio with two significant digits: ``0.85x``, ``1.4x``, ``140x``."""
    return f"{value:.0f}x" if value >= 10 else f"{value:.2g}x"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number.

    ``goal``: None if there is none. ``rivals``: values of peers in this session, in the same rounds as ``values``.
    ``ahead``: the required ratio to such a peer. ``beside``: additional values of the same runs. ``details``: values
    that only the JSON file has.
    """

    name: str
    unit: str
    values: Sequence[float]
    goal: float | None = None
    less_is_better: bool = False
    additional: Mapping[str, Sequence[float]] = field(default_factory=dict)
    details: Mapping[str, object] = field(default_factory=dict)
    rivals: Mapping[str, Sequence[float]] = field(default_factory=dict)
    ahead: Mapping[str, float] = field(default_factory=dict)

    @property
    def median(self) -> float:
        """The median of the runs."""
        return statistics.median(self.values)

    @property
    def is_met(self) -> bool | None:
        """Whether every goal is met; None if there is no goal, or if the peer of the goal did not run."""
        outcomes = [ratio.times >= self.ahead[peer] for peer, ratio in self._rivals().items() if peer in self.ahead]
        if self.goal is not None:
            outcomes.append(self.median <= self.goal if self.less_is_better else self.median >= self.goal)
        return all(outcomes) if outcomes else None

    def ratios(self) -> dict[str, Ratio]:
        """Return the ratio to each peer, from this session, else from known results."""
        return {**self._facts(), **self._rivals()}

    def as_json(self) -> dict[str, object]:
        """Return the content for the JSON file."""
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
            "additional": {key: list(values) for key, values in self.additional.items()},
            "details": dict(self.details),
        }

    def _facts(self) -> dict[str, Ratio]:
        found = {}
        for peer, value in FACTS.get(self.name, {}).items():
            ratio = self._better(self.median, value)
            found[peer] = Ratio(value, ratio, ratio, ratio, here=False)
        return found

    def _rivals(self) -> dict[str, Ratio]:
        """Return the median of the ratios per round, because a slow minute affects both runs of a round.

        If one ran less often, the ratio of the medians.
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
    """Options of a measurement. ``quick``: smaller loads where possible, as a smoke test.

    ``peers``: also measure other schedulers where possible.
    """

    runs: int = 3
    quick: bool = False
    peers: bool = True
    session: Session = field(default_factory=Session)
