"""Chart and manifests on a real API server: they have no unknown field, Pod Security `restricted` admits all pods, and
kubectl applies them.
"""

from pathlib import Path

import pytest
import yaml

from devcluster.api import Json
from devcluster.binaries import ensure
from devcluster.cluster import Cluster, documents
from devcluster.errors import ApiError
from devcluster.programs import KUBECONFORM, KUBECTL
from tests.e2e.install import schemas
from tests.e2e.install.conftest import ENFORCED
from tests.e2e.install.programs import output_of
from tests.install.choices import CHOICES, pods
from tools.manifests import FOLDER, VARIANTS, render

FILES = [
    path
    for path in sorted(FOLDER.rglob("*.yaml"))
    if path.name != "kustomization.yaml" and not path.is_relative_to(FOLDER / "monitoring")
]
"""The applicable manifests in deploy/, without custom resources of other projects."""
OTHER_GROUPS = ("cert-manager.io", "monitoring.coreos.com")
"""API groups that the API server does not have."""


def a_pod(spec: Json) -> Json:
    """A pod with this spec, without references to objects that must exist."""
    plain = {key: value for key, value in spec.items() if key not in {"priorityClassName", "serviceAccountName"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "any-"},
        "spec": plain,
    }


async def admit(cluster: Cluster, spec: Json) -> None:
    """Raise ApiError if the API server does not admit such a pod in the enforcing namespace."""
    path, dry = f"/api/v1/namespaces/{ENFORCED}/pods", {"dryRun": "All", "fieldValidation": "Strict"}
    await cluster.admin.request("POST", path, a_pod(spec), dry)


async def test_pod_security_restricted_admits_all_pods_without_host_network(enforced: Cluster) -> None:
    for choice, values in CHOICES.items():
        rendered = pods(render(values, ENFORCED))
        on_the_node = [spec for spec in rendered if spec.get("hostNetwork")]
        assert bool(on_the_node) == ("hostNetwork" in values), choice
        for spec in rendered:
            if spec in on_the_node:
                with pytest.raises(ApiError, match="hostNetwork"):
                    await admit(enforced, spec)
            else:
                await admit(enforced, spec)


async def test_kubeconform_finds_no_unknown_field(home: Cluster, tmp_path: Path) -> None:
    known = tmp_path / "schemas"
    known.mkdir()
    assert len(FILES) > 7
    location = await schemas.write(home.admin, known)
    conform = (ensure([KUBECONFORM])["kubeconform"], "-strict", "-summary", "-schema-location", location)
    files = [*FILES, *(tmp_path / f"{choice}.yaml" for choice in CHOICES)]
    for choice, values in CHOICES.items():
        rendered = [one for one in render(values) if one["apiVersion"].split("/")[0] not in OTHER_GROUPS]
        (tmp_path / f"{choice}.yaml").write_text(yaml.safe_dump_all(rendered))
    count = sum(len(documents(file)) for file in files)
    assert f"{count} resources found in {len(files)} files - Valid: {count}" in await output_of(*conform, *files)
    broken = tmp_path / "broken.yaml"
    broken.write_text(yaml.safe_dump_all([one | {"colour": "red"} for one in render({})]))
    assert "colour" in await output_of(*conform, broken, check=False)


@pytest.mark.parametrize("overlay", VARIANTS)
async def test_kubectl_applies_an_overlay(overlay: str, home: Cluster) -> None:
    folder = FOLDER / "overlays" / overlay
    kubectl = (ensure([KUBECTL])["kubectl"], "--kubeconfig", await home.admin_kubeconfig())
    output = await output_of(
        *kubectl, "apply", "-k", folder, "--dry-run=server", "--validate=strict", "--server-side", "--force-conflicts"
    )
    assert "deployment.apps/muster serverside-applied (server dry run)" in output
