"""Computes the figures of the cluster benchmarks: Muster's runs with the peer's runs of the same session."""

from __future__ import annotations

from collections import ChainMap, defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from benchmarks.cluster.benches import ONCE, WORKS, Bench, Contender, Run
from benchmarks.cluster.load import FIRST
from benchmarks.figures import Figure
from devcluster.api import Json

ADDITIONAL = {
    "create_s": "create, s",
    "first_bound_s": "first bound, s",
    "p50_s": "p50, s",
    "p99_s": "p99, s",
    "placeholders": "placeholders",
}
"""Additional values: key in a run to label."""
EXTRAS: Mapping[str, Sequence[tuple[str, str, float | None, float | None]]] = {
    "cluster/single-400": ((f"first {FIRST}", "first_ways_s", None, 1.0), ("p50", "p50_s", None, 1.0)),
    "cluster/single-5000": (("p50", "p50_s", None, 1.0),),
}
"""More figures of the same runs: suffix, key in a run, goal in seconds, required ratio to the peer."""


def median_of(loads: Sequence[Json]) -> Json:
    """Return the medians of all values of the loads of a round. A count that a load does not have is 0 in it."""
    return {
        key: median_of([load.get(key, {}) for load in loads])
        if isinstance(found, Mapping)
        else median(load.get(key, 0) for load in loads)
        for key, found in ChainMap(*loads).items()
    }


class Results:
    """The results of all loads by workload and scheduler."""

    def __init__(self) -> None:
        self._loads: dict[tuple[str, Contender], dict[int, list[Json]]] = defaultdict(dict)

    def add(self, run: Run, found: Json) -> None:
        """Add the result of a load."""
        self._loads[run.work, run.contender].setdefault(run.number, []).append(found)

    def seconds(self, work: str, contender: Contender) -> list[float]:
        """Return the seconds of each round until the last pod was bound."""
        return _values(self._runs(work, contender), _of("bound_s"))

    def figures(self, name: str, bench: Bench) -> list[Figure]:
        """Return the figures of time, writes and other values with goals; empty if no run succeeded."""
        ours = self._runs(bench.work, bench.contender)
        if not ours:
            return []
        theirs = self._runs(bench.work, bench.rival) if bench.rival is not None else []
        found = [self._time(name, bench, ours, theirs)]
        for ending, key, goal, ahead in EXTRAS.get(name, ()):
            found.append(
                Figure(
                    f"{name} {ending}", "s", _values(ours, _of(key)), goal, less_is_better=True,
                    rivals=_rivals(bench, theirs, _of(key)), ahead=_ahead(bench, ahead),
                )
            )  # fmt: skip
        if bench.contender.is_muster:
            found += _writes(name, bench, ours, theirs)
        return found

    def _runs(self, work: str, contender: Contender) -> list[Json]:
        """Return one result per round: the medians of its loads, with the loads if there are several.

        A round with a failed load is left out.
        """
        return [
            median_of(loads) | {"loads": loads} if len(loads) > 1 else loads[0]
            for loads in self._loads[work, contender].values()
            if len(loads) == WORKS.get(work, ONCE).repeats
        ]

    def _time(self, name: str, bench: Bench, ours: Sequence[Json], theirs: Sequence[Json]) -> Figure:
        return Figure(
            name,
            "s",
            _values(ours, _of("bound_s")),
            less_is_better=True,
            additional={**_additional("", ours), **_additional(f"{bench.rival}: ", theirs)},
            details={"runs": ours, "rivals": theirs},
            rivals=_rivals(bench, theirs, _of("bound_s")),
            ahead=_ahead(bench, bench.ahead),
        )


def _writes(name: str, bench: Bench, ours: Sequence[Json], theirs: Sequence[Json]) -> list[Figure]:
    counted, of_peer = ([run for run in runs if "writes" in run] for runs in (ours, theirs))
    if not counted:
        return []
    kinds = sorted({kind for run in counted for kind in run["writes"]})
    additional = {kind: [run["writes"][kind] / run["pods"] for run in counted] for kind in kinds}
    rivals = _rivals(bench, of_peer, _writes_per_pod)
    values = _values(counted, _writes_per_pod)
    return [
        Figure(
            f"{name} writes", "per pod", values, bench.writes, less_is_better=True, additional=additional, rivals=rivals
        )
    ]  # fmt: skip


def _writes_per_pod(run: Json) -> float:
    return float(sum(run["writes"].values()) / run["pods"])


def _of(key: str) -> Callable[[Json], float]:
    return lambda run: float(run[key])


def _values(runs: Sequence[Json], value: Callable[[Json], float]) -> list[float]:
    return [value(run) for run in runs]


def _rivals(bench: Bench, runs: Sequence[Json], value: Callable[[Json], float]) -> dict[str, list[float]]:
    return {str(bench.rival): _values(runs, value)} if runs else {}


def _ahead(bench: Bench, times: float | None) -> dict[str, float]:
    return {} if times is None else {str(bench.rival): times}


def _additional(prefix: str, runs: Sequence[Json]) -> dict[str, list[float]]:
    """Return times, the number of placeholders, and CPU seconds and memory by process."""
    found = {f"{prefix}{shown}": _values(runs, _of(key)) for key, shown in ADDITIONAL.items()} if runs else {}
    for key, unit in (("cpu_s", "CPU, s"), ("resident_mib", "MiB")):
        for process in dict.fromkeys(process for run in runs for process in run[key]):
            found[f"{prefix}{process} {unit}"] = [float(run[key].get(process, 0.0)) for run in runs]
    return found
