"""Rounds of pairs, each with its own seed: the tests run one, `make soak` (tools/soak_placement.py) many."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hypothesis import given, seed

from tests.conformance.clusters import PODS, SHARES, states
from tests.conformance.comparison import differs, reasons, shown
from tests.conformance.kube_scheduler import KubeScheduler, Result
from tests.conformance.muster_placement import Product
from tests.conformance.objects import ClusterState
from tests.conformance.uniform_generation import evenly

#: Number of cluster states per scenario that are kept for a comparison with a disabled filter.
_KEPT: Final = 12


@dataclass(slots=True)
class Tally:
    """Results of a round. `decided`: number of pairs per deciding reason; `kept`: states of each scenario."""

    pairs: int = 0
    decided: Counter[str] = field(default_factory=Counter)
    kept: list[tuple[ClusterState, list[Result]]] = field(default_factory=list)


class Different(AssertionError):
    """The results of kube-scheduler and Muster differ."""


def clusters_of(pairs: int) -> Mapping[str, int]:
    """Number of clusters of each scenario for at least ``pairs`` pairs."""
    total = sum(SHARES.values())
    return {scenario: -(-pairs * share // (total * PODS)) for scenario, share in SHARES.items()}


def compare(kube_scheduler: KubeScheduler, scenario: str, clusters: int, number: int, tally: Tally) -> None:
    """Compare ``clusters`` clusters of a scenario. Raises Different with the shrunk first difference."""
    kept = 0

    @seed(number)
    @evenly(clusters)
    @given(states(scenario))
    def one_state(state: ClusterState) -> None:
        nonlocal kept
        results = kube_scheduler.results(state)
        for pod, kube, ours in zip(state.pending, results, Product(state).results(), strict=True):
            if differs(kube, ours):
                raise Different(f"scenario {scenario}, seed {number}:\n{shown(state, pod, kube, ours)}")
            tally.pairs += 1
            tally.decided.update(reasons(kube))
        if kept < _KEPT:
            kept += 1
            tally.kept.append((state, results))

    one_state()
