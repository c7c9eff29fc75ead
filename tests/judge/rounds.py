"""Rounds of pairs, each with a seed of its own: the tests run one, `make soak` (tools/soak_placement.py) many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hypothesis import given, seed

from tests.judge.clusters import PODS, SHARES, scenes
from tests.judge.comparing import differs, reasons, shown
from tests.judge.evenly import evenly
from tests.judge.kube import Judge, Verdict
from tests.judge.ours import Product
from tests.judge.scene import Scene

#: Scenes of each theme that are kept to be judged again with a filter switched off.
_KEPT: Final = 12


@dataclass(slots=True)
class Tally:
    """What came of a round. `decided`: pairs by the reasons that decided about a node; `kept`: scenes of all themes."""

    pairs: int = 0
    decided: Counter[str] = field(default_factory=Counter)
    kept: list[tuple[Scene, list[Verdict]]] = field(default_factory=list)


class Different(AssertionError):
    """kube-scheduler and we are not of one mind."""


def clusters_of(pairs: int) -> Mapping[str, int]:
    """How many clusters of each theme make so many pairs, or a few more."""
    total = sum(SHARES.values())
    return {theme: -(-pairs * share // (total * PODS)) for theme, share in SHARES.items()}


def compare(judge: Judge, theme: str, clusters: int, number: int, tally: Tally) -> None:
    """Judge so many clusters of a theme. Raises Different, shrunk, for the first pair on which we differ."""
    kept = 0

    @seed(number)
    @evenly(clusters)
    @given(scenes(theme))
    def one_scene(scene: Scene) -> None:
        nonlocal kept
        verdicts = judge.verdicts(scene)
        for pod, kube, ours in zip(scene.pending, verdicts, Product(scene).verdicts(), strict=True):
            if differs(kube, ours):
                raise Different(f"theme {theme}, seed {number}:\n{shown(scene, pod, kube, ours)}")
            tally.pairs += 1
            tally.decided.update(reasons(kube))
        if kept < _KEPT:
            kept += 1
            tally.kept.append((scene, verdicts))

    one_scene()
