"""What a benchmark finds: a figure with the values of all its runs, its goal, and what the peers reached."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

PEERS: Mapping[str, Mapping[str, float]] = {
    "cluster/floor-5000": {"kube-scheduler": 4, "YuniKorn": 4},
    "cluster/single-5000": {"kube-scheduler": 13.0, "YuniKorn": 19.4},
    "cluster/gang-100": {"kube-scheduler": 0.65, "YuniKorn": 5.2},
    "cluster/gang-1000": {"kube-scheduler": 6.6, "YuniKorn": 15.5},
    "cluster/gang-100 writes": {"kube-scheduler": 3, "YuniKorn": 13},
    "cluster/gang-1000 writes": {"kube-scheduler": 3, "YuniKorn": 13},
    "cluster/single-5000 writes": {"kube-scheduler": 2},
    "core/500": {"YuniKorn": 4500},
    "core/1000": {"YuniKorn": 4600},
    "core/2000": {"YuniKorn": 4700},
    "core/5000": {"YuniKorn": 4760},
    "both/50000": {"YuniKorn": 5971},
    "shapes/basic": {"kube-scheduler": 680},
    "shapes/node-affinity": {"kube-scheduler": 220},
    "shapes/anti-affinity": {"kube-scheduler": 60},
    "shapes/affinity": {"kube-scheduler": 35},
    "shapes/preferred-affinity": {"kube-scheduler": 90},
    "shapes/preferred-anti-affinity": {"kube-scheduler": 90},
    "shapes/anti-affinity-by-namespace-label": {"kube-scheduler": 24},
    "shapes/spread": {"kube-scheduler": 460},
    "shapes/preferred-spread": {"kube-scheduler": 340},
    "shapes/volumes": {"kube-scheduler": 100},
}
"""kube-scheduler 1.36.1 (gangs: its alpha PodGroup) and YuniKorn of August 2026, on another machine with 2 cores.

`cluster`: a real API server, 1,000 fake nodes, the same load, client limits raised to 5,000 QPS. `core`: YuniKorn's own
BenchmarkScheduling without predicates. `both`: its BenchmarkSchedulingThroughPut, whose pods come as objects and not as
bytes. `shapes`: the gates of kube-scheduler's own CI at 5,000 nodes, whose whole path writes to an API server; ours is
the core alone. `floor` is creating the pods with no scheduler at all: it says how
fast the machines are, and nothing about schedulers. A ratio of figures from two machines is good for one digit.
"""

NAMES = ("kube-scheduler", "YuniKorn")


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number.

    ``goal``: None = there is none; ``beside``: values of the same runs that explain it; ``details``:
    what only the JSON file shows.
    """

    name: str
    unit: str
    values: Sequence[float]
    goal: float | None = None
    less_is_better: bool = False
    beside: Mapping[str, Sequence[float]] = field(default_factory=dict)
    details: Mapping[str, object] = field(default_factory=dict)

    @property
    def median(self) -> float:
        """Of the runs."""
        return statistics.median(self.values)

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is reached; None without a goal."""
        if self.goal is None:
            return None
        return self.median <= self.goal if self.less_is_better else self.median >= self.goal

    def ratios(self) -> dict[str, float]:
        """How many times better than each peer that did the same work; under 1 = worse."""
        peers = PEERS.get(self.name, {})
        return {
            peer: value / self.median if self.less_is_better else self.median / value for peer, value in peers.items()
        }

    def as_json(self) -> dict[str, object]:
        """Everything, for the JSON file."""
        return {
            "name": self.name,
            "unit": self.unit,
            "median": self.median,
            "values": list(self.values),
            "goal": self.goal,
            "met": self.is_met,
            "peers": dict(PEERS.get(self.name, {})),
            "ratios": self.ratios(),
            "beside": {key: list(values) for key, values in self.beside.items()},
            "details": dict(self.details),
        }


@dataclass(frozen=True, slots=True)
class Options:
    """How to measure. ``quick``: a smaller piece of work where that is possible, to see that everything runs."""

    runs: int = 3
    quick: bool = False
