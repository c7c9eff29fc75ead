"""Renders ``deploy/base`` and ``deploy/overlays`` from the chart for installation with ``kubectl apply -k``.

The base has the common objects of all variants. Each overlay adds its own. Helm hooks are left out, because kubectl
does not run them. Called by ``make manifests``; a test fails if a file is stale.
"""

import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from devcluster.binaries import ensure
from devcluster.programs import HELM
from tools.chart import CHART, ROOT

FOLDER = ROOT / "deploy"
NAMESPACE = "muster"
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "high-availability": {"replicas": 2},
    "webhook": {"replicas": 2, "webhook": {"enabled": True}},
    "admission-policy": {"admissionPolicy": {"enabled": True}},
}
HEADER = "# Written by `make manifests` from charts/muster; do not edit. Put your own overlays elsewhere.\n"
OF_HELM = ("helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/instance")

Json = dict[str, Any]


def render(values: Json, namespace: str = NAMESPACE, *flags: str) -> list[Json]:
    """Render the chart with these values. Raises CalledProcessError with Helm's error output."""
    text = _rendered(yaml.safe_dump(values), namespace, flags)
    return [document for document in yaml.load_all(text, yaml.CSafeLoader) if document]


@cache
def _rendered(values: str, namespace: str, flags: tuple[str, ...]) -> str:
    command = [str(ensure([HELM])["helm"]), "template", "muster", str(CHART), "--namespace", namespace, *flags]
    return subprocess.run([*command, "--values", "-"], input=values, capture_output=True, text=True, check=True).stdout


def files() -> dict[Path, str]:
    """Return the text of every file of base and overlays."""
    rendered = {name: [_plain(document) for document in _of(values)] for name, values in VARIANTS.items()}
    variants = list(rendered.values())
    shared = [document for document in variants[0] if all(document in others for others in variants)]
    made = _folder(FOLDER / "base", [_namespace(), *shared], [])
    for name, documents in rendered.items():
        own = [document for document in documents if document not in shared]
        made |= _folder(FOLDER / "overlays" / name, own, ["../../base"])
    return made


def stale() -> list[str]:
    """Return the files that differ from the rendered chart."""
    return [
        path.relative_to(ROOT).as_posix()
        for path, text in files().items()
        if not path.exists() or path.read_text() != text
    ]


def _of(values: Json) -> list[Json]:
    return render(values, NAMESPACE, "--no-hooks", "--skip-tests")


def _namespace() -> Json:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}


def _plain(document: Json) -> Json:
    """Return the object without Helm's labels."""
    template = document.get("spec", {}).get("template", {}) if document["kind"] == "Deployment" else {}
    for metadata in (document["metadata"], template.get("metadata", {})):
        for label in OF_HELM:
            metadata.get("labels", {}).pop(label, None)
    return document


def _folder(folder: Path, documents: list[Json], others: list[str]) -> dict[Path, str]:
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [*others, "muster.yaml"],
    }
    return {
        folder / "kustomization.yaml": HEADER + yaml.safe_dump(kustomization, sort_keys=False),
        folder / "muster.yaml": HEADER + yaml.safe_dump_all(documents, sort_keys=False, width=120),
    }


if __name__ == "__main__":
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
