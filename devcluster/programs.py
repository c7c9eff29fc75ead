"""The pinned Go programs: the module family that builds each, its version stamp, its place in the cache."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

MODULES = Path(__file__).with_name("modules")
KUBERNETES_VERSION = "v1.36.1"

_STAMP = "k8s.io/component-base/version"
_MAJOR, _MINOR, _ = KUBERNETES_VERSION.lstrip("v").split(".")


@dataclass(frozen=True, slots=True)
class Program:
    """One binary: ``family`` is the folder under ``modules/`` that pins it, ``package`` the Go package to build."""

    name: str
    family: str
    package: str
    ldflags: str = "-s -w"


def _kubernetes(name: str) -> Program:
    # Without the stamp the server calls itself v0.0.0 and clients refuse to talk to it.
    stamp = (
        f"-s -w -X {_STAMP}.gitVersion={KUBERNETES_VERSION} -X {_STAMP}.gitMajor={_MAJOR} "
        f"-X {_STAMP}.gitMinor={_MINOR} -X {_STAMP}.gitTreeState=clean"
    )
    return Program(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}", stamp)


ETCD = Program("etcd", "etcd", "go.etcd.io/etcd/server/v3")
APISERVER = _kubernetes("kube-apiserver")
CONTROLLERS = _kubernetes("kube-controller-manager")
SCHEDULER = _kubernetes("kube-scheduler")
KUBECTL = _kubernetes("kubectl")
KWOK = Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok")

CONTROL_PLANE = (ETCD, APISERVER, CONTROLLERS, KWOK)
"""What a cluster needs. The scheduler (the oracle of placement tests) and kubectl are built when asked for."""

ALL = (*CONTROL_PLANE, SCHEDULER, KUBECTL)


def cache_root() -> Path:
    """Where built programs live between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "muster" / "devcluster"


def family_hash(family: str, modules: Path = MODULES) -> str:
    """Twelve hex digits that change when a pin or a build flag of the family changes."""
    digest = hashlib.sha256()
    for file in ("go.mod", "go.sum"):
        digest.update((modules / family / file).read_bytes())
    for program in ALL:
        if program.family == family:
            digest.update(f"{program.name}\0{program.package}\0{program.ldflags}\0".encode())
    return digest.hexdigest()[:12]


def cached_path(program: Program) -> Path:
    """Where the built program is, or will be."""
    return cache_root() / f"{program.family}-{family_hash(program.family)}" / program.name
