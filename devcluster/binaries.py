"""Finds the Go programs: in the user's KUBEBUILDER_ASSETS, else in devcluster's cache, else builds them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from devcluster.build import build
from devcluster.programs import CONTROL_PLANE, Program, cached_path

ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"
"""The envtest convention: a folder with ``etcd`` and ``kube-apiserver`` (and often ``kubectl``)."""


def find(program: Program) -> Path | None:
    """Return the path of the program, or None if it has to be built."""
    assets = os.environ.get(ASSETS_VARIABLE)
    places = [Path(assets) / program.name] if assets else []
    return next((place for place in [*places, cached_path(program)] if os.access(place, os.X_OK)), None)


def ensure(programs: Sequence[Program] = CONTROL_PLANE, console: Console | None = None) -> dict[str, Path]:
    """Build missing programs and return the path of each program by name. Raises BuildFailed."""
    missing = [program for program in programs if find(program) is None]
    if missing:
        build(missing, console or Console(stderr=True))
    return {program.name: find(program) or cached_path(program) for program in programs}
