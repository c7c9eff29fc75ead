"""etcd and kube-apiserver of the official archive, which ``setup-envtest`` downloads and verifies.

The archive has no kube-controller-manager and no KWOK; ``build`` compiles them.
"""

from __future__ import annotations

import shutil
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from devcluster.programs import APISERVER, ETCD, KUBERNETES_MINOR, Program, cache_root

PROGRAMS = (ETCD, APISERVER)
INDEX = "https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml"
"""The list of archives, which ``setup-envtest`` reads first."""
ANSWERS_S = 3.0
DOWNLOAD_S = 600.0


def found(program: Program) -> Path | None:
    """Return the newest downloaded program of the pinned minor version, or None."""
    folders = cache_root() / "envtest" / "k8s"
    return max(folders.glob(f"{KUBERNETES_MINOR}.*/{program.name}"), default=None, key=_patch)


def fetch(tool: Callable[[], Path], console: Console, index: str = INDEX) -> None:
    """Download the archive; a failure is one line. ``tool``: returns the path of ``setup-envtest``; may build it."""
    try:
        with urllib.request.urlopen(index, timeout=ANSWERS_S):  # noqa: S310 - an https address, or one of a test
            pass
    except (OSError, ValueError) as error:
        _failed(console, str(error))
        return
    program = shutil.which("setup-envtest") or str(tool())
    folder = str(cache_root() / "envtest")
    command = [program, "use", f"{KUBERNETES_MINOR}.x", "--bin-dir", folder, "--index", index, "-p", "path"]
    console.print("downloading etcd and kube-apiserver with setup-envtest")
    try:
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=DOWNLOAD_S)
    except subprocess.SubprocessError as error:
        output = getattr(error, "stderr", "") or str(error)
        _failed(console, str(output).strip().splitlines()[-1][:200])


def _failed(console: Console, why: str) -> None:
    console.print(f"setup-envtest is not usable ({why}): etcd and kube-apiserver are built instead", soft_wrap=True)


def _patch(path: Path) -> tuple[int, ...]:
    version = path.parent.name.partition("-")[0]
    return tuple(int(part) for part in version.split(".") if part.isdigit())
