"""Node scores are those of kube-scheduler's plugins, compared on random clusters."""

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, seed

from tests.conformance.clusters import states
from tests.conformance.kube_scheduler import KubeScheduler, Result
from tests.conformance.muster_placement import NODE_PROPERTIES, Product
from tests.conformance.objects import ClusterState
from tests.conformance.uniform_generation import evenly

#: Score -> corresponding plugins and the permitted difference, which is the rounding error times the weight.
PLUGINS = {
    NODE_PROPERTIES: (("NodeAffinity", "TaintToleration", "ImageLocality"), 0),
    "InterPodAffinity": (("InterPodAffinity",), 2),
    "PodTopologySpread": (("PodTopologySpread",), 2),
}
CLUSTERS = 40

Points = Mapping[str, float]


def kube_points(result: Result, plugins: tuple[str, ...]) -> Points:
    return {node: sum(scores.get(plugin, 0) for plugin in plugins) for node, scores in result.scores.items()}


def lead(points: Points) -> Points:
    """The difference of each score to that of the first node, because equal offsets are irrelevant."""
    first = points[min(points)]
    return {node: found - first for node, found in points.items()}


@pytest.mark.parametrize("scenario", ["images", "labels", "taints", "spreading", "other_pods"])
def test_score_differences_between_nodes_match_kube_scheduler(scenario: str) -> None:
    distinguishing: Counter[str] = Counter()

    @seed(1)
    @evenly(CLUSTERS)
    @given(states(scenario))
    def one_state(state: ClusterState) -> None:
        for result, ours in zip(kube_scheduler.results(state), Product(state).points(), strict=True):
            for score in (PLUGINS.keys() & ours.keys()) if result.scores else ():
                plugins, apart = PLUGINS[score]
                expected, actual = lead(kube_points(result, plugins)), lead(ours[score])
                assert actual == pytest.approx(expected, abs=apart + 1e-6), score
                distinguishing[score] += len(set(expected.values())) > 1

    with KubeScheduler() as kube_scheduler:
        one_state()
    assert distinguishing.total() >= CLUSTERS // 4
