"""deploy/base and its overlays equal the output of the chart, and kustomize builds them."""

import subprocess
from typing import Any

import pytest
import yaml

from devcluster.binaries import ensure
from devcluster.programs import KUBECTL
from tools import manifests


def built(overlay: str) -> dict[tuple[str, str], Any]:
    folder = manifests.FOLDER / "overlays" / overlay
    done = subprocess.run(
        [ensure([KUBECTL])["kubectl"], "kustomize", folder], capture_output=True, text=True, check=True
    )
    return {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(done.stdout)}


def test_the_manifests_are_those_of_the_chart() -> None:
    assert manifests.stale() == []


@pytest.mark.parametrize("overlay", manifests.VARIANTS)
def test_an_overlay_is_complete(overlay: str) -> None:
    made = built(overlay)
    rendered = manifests.render(manifests.VARIANTS[overlay], "muster", "--no-hooks", "--skip-tests")
    assert set(made) == {("Namespace", "muster"), *((one["kind"], one["metadata"]["name"]) for one in rendered)}
    assert made["Namespace", "muster"]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_the_overlays_differ_only_in_what_they_are_named_for() -> None:
    one, two, hooked, policed = (built(name) for name in manifests.VARIANTS)
    assert one["Deployment", "muster"]["spec"]["replicas"] == 1
    assert two["Deployment", "muster"]["spec"]["replicas"] == 2
    assert two.keys() - one.keys() == {("PodDisruptionBudget", "muster")}
    assert hooked.keys() - two.keys() == {("Service", "muster-webhook")}
    assert {name for _, name in policed.keys() - one.keys()} == {"muster-admission"}
