"""Feasible nodes and the reasons for the others are those of kube-scheduler, compared on random clusters.

`MUSTER_CONFORMANCE_SEED` and `MUSTER_CONFORMANCE_PAIRS` change the pairs and their number.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.conformance.clusters import SHARES
from tests.conformance.comparison import differs
from tests.conformance.kube_scheduler import KubeScheduler
from tests.conformance.muster_placement import Product
from tests.conformance.rounds import Different, Tally, clusters_of, compare

#: The first test runs the round, about 10 s on one idle core.
pytestmark = pytest.mark.timeout(300)

SEED = int(os.environ.get("MUSTER_CONFORMANCE_SEED", "1"))
PAIRS = int(os.environ.get("MUSTER_CONFORMANCE_PAIRS", "3000"))


SINGLE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
#: Reasons of each filter, and the minimum number of pairs with each. "…" replaces object names.
REASONS = {
    "NodeUnschedulable": ("node(s) were unschedulable",),
    "NodeName": ("node(s) didn't satisfy plugin(s) [NodeName]",),
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
    "NodeVolumeLimits": ("node(s) exceed max volume count", "… CSI driver is not installed on the node"),
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
    # "bound to non-existent pv(s)" of VolumeBinding never occurs, because this filter rejects the same pods before.
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
AT_LEAST = 30


@dataclass(slots=True)
class Round:
    """One round, with the difference of each scenario that has one."""

    tally: Tally = field(default_factory=Tally)
    differences: dict[str, str] = field(default_factory=dict)


@pytest.fixture(scope="module")
def compared() -> Iterator[Round]:
    found = Round()
    with KubeScheduler() as kube_scheduler:
        for scenario, clusters in clusters_of(PAIRS).items():
            try:
                compare(kube_scheduler, scenario, clusters, SEED, found.tally)
            except Different as difference:
                found.differences[scenario] = str(difference)
        yield found


@pytest.mark.parametrize("scenario", SHARES)
def test_filter_results_and_reasons_match_kube_scheduler(compared: Round, scenario: str) -> None:
    if scenario in compared.differences:
        pytest.fail(compared.differences[scenario], pytrace=False)


@pytest.mark.parametrize("name", REASONS)
def test_each_reason_of_a_filter_decides_enough_pairs(compared: Round, name: str) -> None:
    decided = {reason: compared.tally.decided[reason] for reason in REASONS[name]}
    assert {reason: count for reason, count in decided.items() if count < AT_LEAST} == {}


def test_every_received_reason_is_expected(compared: Round) -> None:
    assert set(compared.tally.decided) - {reason for reasons in REASONS.values() for reason in reasons} == set()


@pytest.mark.parametrize("name", REASONS)
def test_a_disabled_filter_is_detected(compared: Round, name: str) -> None:
    assert any(
        differs(kube, ours)
        for state, results in compared.tally.kept
        for kube, ours in zip(results, Product(state).results(without=name), strict=True)
    )
