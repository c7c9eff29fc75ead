"""Builds the archive and the manifest of the kubectl plug-in for krew in build/krew (`make krew`).

    python -m tools.krew [--url https://example.com/releases/v0.1.0]
    kubectl krew install --manifest build/krew/muster.yaml --archive build/krew/muster-krew.tar.gz

The archive contains the wheel and a script that runs it with uv or pipx, so that it is the same on all platforms.
`--url` is the folder from which krew downloads it; `--archive` needs none.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import tarfile
import tomllib
from gzip import GzipFile
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "build" / "krew"
SCRIPT: Final = Path(__file__).parent / "kubectl-muster"
ARCHIVE: Final = "muster-krew.tar.gz"


def package(folder: Path, url: str) -> Path:
    """Write wheel, archive and manifest into the folder and return the path of the manifest."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    uv = ROOT / ".uv" / "bin" / "uv"
    subprocess.run([uv, "build", "--quiet", "--wheel", "--out-dir", folder, ROOT], check=True)
    (wheel,) = folder.glob("*.whl")
    with GzipFile(folder / ARCHIVE, "wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for path in (SCRIPT, wheel, ROOT / "LICENSE"):
            archive.add(path, path.name, filter=_reproducible)
    digest = hashlib.sha256((folder / ARCHIVE).read_bytes()).hexdigest()
    written = folder / "muster.yaml"
    written.write_text(yaml.safe_dump(manifest(project["version"], url, digest), sort_keys=False))
    return written


def _reproducible(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without owner and time, so that the same commit has the same digest."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def manifest(version: str, url: str, digest: str) -> dict[str, Any]:
    """Return krew's description of the plug-in. ``digest``: SHA-256 of the archive, in hexadecimal."""
    systems = {"key": "os", "operator": "In", "values": ["darwin", "linux"]}
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "muster"},
        "spec": {
            "version": f"v{version}",
            "shortDescription": "Show why gangs of pods wait, and queues",
            "description": (
                "Reads the state of the Muster scheduler: queues, applications and nodes, why a gang waits, the\n"
                "smallest changes that would start it, and what a manifest or a queues.yaml would do.\n"
            ),
            "caveats": "Needs uv or pipx on the PATH, and Muster in the cluster.\n",
            "platforms": [
                {
                    "selector": {"matchExpressions": [systems]},
                    "uri": f"{url}/{ARCHIVE}",
                    "sha256": digest,
                    "bin": SCRIPT.name,
                }
            ],
        },
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="krew", description="package the kubectl plug-in for krew")
    parser.add_argument("--url", default="https://example.com/muster", help="folder that will have the archive")
    print(package(FOLDER, parser.parse_args().url))
