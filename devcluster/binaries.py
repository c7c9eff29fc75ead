"""Finds the programs of a cluster: builds of the cache, official ones, or those on PATH. Builds what is missing.

The order:

1. the folder KUBEBUILDER_ASSETS, with any version; another version than the pinned one is reported
2. the cache of built programs
3. the downloaded archive of ``envtest``
4. PATH, if the minor version is the pinned one; another version is reported and not used

The tests use the first two only, so that they run with the pinned versions unless the user chooses others.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from rich.console import Console

from devcluster import envtest
from devcluster.build import build
from devcluster.programs import CONTROL_PLANE, KUBECTL, SETUP_ENVTEST, Program, cached_path, pinned_version

ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"
"""The envtest convention: a folder with ``etcd`` and ``kube-apiserver`` (and often ``kubectl``)."""
VERSION_S = 10.0


def find(program: Program, console: Console | None = None, *, exact: bool = False) -> Path | None:
    """Return the path of the program, or None if it must be built. ``exact``: only the first two locations."""
    assets = os.environ.get(ASSETS_VARIABLE)
    if assets and _is_program(given := Path(assets) / program.name):
        _report(program, given, "used", console)
        return given
    if _is_program(built := cached_path(program)):
        return built
    if exact or program not in (*CONTROL_PLANE, KUBECTL):
        return None
    return envtest.found(program) or _on_path(program, console)


def ensure(
    programs: Sequence[Program] = CONTROL_PLANE, console: Console | None = None, *, exact: bool = False
) -> dict[str, Path]:
    """Return the path of each program by name; download or build missing ones. Raises BuildFailed."""
    console = console or Console(stderr=True)
    paths = {program: find(program, console, exact=exact) for program in programs}
    if not exact and any(paths.get(program, Path()) is None for program in envtest.PROGRAMS):
        envtest.fetch(lambda: ensure([SETUP_ENVTEST], console)[SETUP_ENVTEST.name], console)
        paths = {program: path or find(program) for program, path in paths.items()}
    if missing := [program for program, path in paths.items() if path is None]:
        build(missing, console)
    return {program.name: path or cached_path(program) for program, path in paths.items()}


def _is_program(path: Path) -> bool:
    return os.access(path, os.X_OK)


def _on_path(program: Program, console: Console | None) -> Path | None:
    place = shutil.which(program.name)
    if place is None:
        return None
    path = Path(place)
    is_usable = _version(path).split(".")[:2] == pinned_version(program).split(".")[:2]
    _report(program, path, "used" if is_usable else "not used", console)
    return path if is_usable else None


def _report(program: Program, path: Path, outcome: str, console: Console | None) -> None:
    """Print a version that is not the pinned one."""
    actual, pinned = _version(path), pinned_version(program)
    if console and actual != pinned:
        console.print(f"{path} has version {actual or 'unknown'}, not {pinned}: {outcome}", soft_wrap=True)


@cache
def _version(path: Path) -> str:
    """The version that a program reports, without the v; empty if it reports none."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=VERSION_S)
    except (OSError, subprocess.SubprocessError):
        return ""
    number = re.search(r"\bv?(\d+\.\d+\.\d+)", done.stdout)
    return number[1] if number else ""
