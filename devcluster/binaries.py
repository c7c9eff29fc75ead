"""Where the programs are: the user's KUBEBUILDER_ASSETS first, then our cache, else built now."""

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
    """The program's path if it is at hand, else None."""
    assets = os.environ.get(ASSETS_VARIABLE)
    places = [Path(assets) / program.name] if assets else []
    return next((place for place in [*places, cached_path(program)] if os.access(place, os.X_OK)), None)


def ensure(programs: Sequence[Program] = CONTROL_PLANE, console: Console | None = None) -> dict[str, Path]:
    """Name to path of every program asked for, building what is missing. Raises BuildFailed."""
    missing = [program for program in programs if find(program) is None]
    if missing:
        build(missing, console or Console(stderr=True))
    return {program.name: find(program) or cached_path(program) for program in programs}
