"""Types the commands of a page in docs/integrations, in the namespace of a test, and compares their output."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

from tests.e2e.documents.shell import Shell
from tests.e2e.documents.transcripts import follow
from tests.kind.namespace import Namespace

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "integrations"


async def typed(namespace: Namespace, page: str, images: Mapping[str, str], folder: Path) -> None:
    """Run the commands of the page in a copy of the examples. Raises AssertionError if an output differs.

    ``images``: published images that the examples name, and the ones to use instead.
    """
    shutil.copytree(ROOT / "examples", folder / "examples")
    for manifest in (folder / "examples").rglob("*.yaml"):
        text = manifest.read_text()
        for published, built in images.items():
            text = text.replace(published, built)
        manifest.write_text(text)
    differs = await follow(_shell(namespace, folder), PAGES / page, folder, containers=True)
    assert not differs, f"{differs}\n{await namespace.report()}"


def _shell(namespace: Namespace, folder: Path) -> Shell:
    """A shell with the command `muster` and a kubeconfig with the namespace."""
    config = yaml.safe_load(Path(os.environ["KUBECONFIG"]).read_text())
    for context in config["contexts"]:
        context["context"]["namespace"] = namespace.name
    kubeconfig, muster = folder / "kubeconfig", folder / "muster"
    kubeconfig.write_text(yaml.safe_dump(config))
    muster.write_text(f'#!/bin/sh\nexec {sys.executable} -m muster "$@"\n')
    muster.chmod(0o755)
    return Shell(folder, kubeconfig)
