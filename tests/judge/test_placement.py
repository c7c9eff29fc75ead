"""Where a pod may go, and why it may not go elsewhere, is what kube-scheduler says: compared on random clusters.

`MUSTER_JUDGE_SEED` and `MUSTER_JUDGE_PAIRS` choose other pairs, and more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.judge.clusters import SHARES
from tests.judge.comparing import differs
from tests.judge.kube import Judge
from tests.judge.ours import Product
from tests.judge.rounds import Different, Tally, clusters_of, compare

#: The round is the first test's; some 20 s on one idle core.
pytestmark = pytest.mark.timeout(300)

SEED = int(os.environ.get("MUSTER_JUDGE_SEED", "1"))
PAIRS = int(os.environ.get("MUSTER_JUDGE_PAIRS", "9000"))


SINGLE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
#: What each filter says, and how many pairs it has to say it about. What names an object stands there as "…".
REASONS = {
    "NodeUnschedulable": ("node(s) were unschedulable",),
    "NodeName": ("node(s) didn't match the requested node name",),
    "TaintToleration": ("node(s) had untolerated taint(s)",),
    "NodeAffinity": (
        "node(s) didn't match Pod's node affinity/selector",
        "node(s) didn't satisfy plugin(s) [NodeAffinity]",
        "pod affinity terms conflict",
    ),
    "NodePorts": ("node(s) didn't have free ports for the requested pod ports",),
    "NodeResourcesFit": (
        "Too many pods",
        "Insufficient cpu",
        "Insufficient memory",
        "Insufficient ephemeral-storage",
        "Insufficient hugepages-2Mi",
        "Insufficient example.com/gpu",
    ),
    "VolumeRestrictions": (
        "node(s) had no available disk",
        SINGLE,
        "persistentvolumeclaim … not found",
    ),
    "NodeVolumeLimits": ("node(s) exceed max volume count",),
    "VolumeBinding": (
        "node(s) didn't match PersistentVolume's node affinity",
        "node(s) didn't find available persistent volumes to bind",
        "node(s) did not have enough free storage",
        "pod has unbound immediate PersistentVolumeClaims",
        "persistentvolumeclaim … bound to non-existent persistentvolume …",
        "persistentvolumeclaim … is being deleted",
        "waiting for ephemeral volume controller to create the persistentvolumeclaim …",
        "PVC … was not created for pod … (pod is not owner)",
    ),
    # "bound to non-existent pv(s)" of VolumeBinding cannot be heard: this one says it of the same pods before.
    "VolumeZone": ("node(s) had no available volume zone", "persistentvolume … not found"),
    "PodTopologySpread": (
        "node(s) didn't match pod topology spread constraints",
        "node(s) didn't match pod topology spread constraints (missing required label)",
    ),
    "InterPodAffinity": (
        "node(s) didn't match pod affinity rules",
        "node(s) didn't match pod anti-affinity rules",
        "node(s) didn't satisfy existing pods anti-affinity rules",
    ),
    "NodeDeclaredFeatures": ("node(s) didn't match Pod's required features",),
}
AT_LEAST = 100


@dataclass(slots=True)
class Round:
    """One round, and the theme's difference where there was one."""

    tally: Tally = field(default_factory=Tally)
    differences: dict[str, str] = field(default_factory=dict)


@pytest.fixture(scope="module")
def judged() -> Iterator[Round]:
    found = Round()
    with Judge() as judge:
        for theme, clusters in clusters_of(PAIRS).items():
            try:
                compare(judge, theme, clusters, SEED, found.tally)
            except Different as difference:
                found.differences[theme] = str(difference)
        yield found


@pytest.mark.parametrize("theme", SHARES)
def test_a_pod_may_go_where_kube_scheduler_would_put_it_and_is_refused_with_its_words(
    judged: Round, theme: str
) -> None:
    if theme in judged.differences:
        pytest.fail(judged.differences[theme], pytrace=False)


@pytest.mark.parametrize("name", REASONS)
def test_each_reason_of_a_filter_decides_at_least_100_pairs(judged: Round, name: str) -> None:
    decided = {reason: judged.tally.decided[reason] for reason in REASONS[name]}
    assert {reason: count for reason, count in decided.items() if count < AT_LEAST} == {}


def test_no_reason_is_heard_that_nobody_expects(judged: Round) -> None:
    assert set(judged.tally.decided) - {reason for reasons in REASONS.values() for reason in reasons} == set()


@pytest.mark.parametrize("name", REASONS)
def test_a_filter_that_is_switched_off_is_noticed(judged: Round, name: str) -> None:
    assert any(
        differs(kube, ours)
        for scene, verdicts in judged.tally.kept
        for kube, ours in zip(verdicts, Product(scene).verdicts(without=name), strict=True)
    )
