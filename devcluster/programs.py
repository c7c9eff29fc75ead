"""The pinned Go programs: module family, version stamp and path in the cache of each."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

MODULES = Path(__file__).with_name("modules")
KUBERNETES_VERSION = "v1.37.2"

_STAMP = "k8s.io/component-base/version"
_MAJOR, _MINOR, _ = KUBERNETES_VERSION.lstrip("v").split(".")
KUBERNETES_MINOR = f"{_MAJOR}.{_MINOR}"


@dataclass(frozen=True, slots=True)
class Program:
    """One binary. ``family`` is the folder under ``modules/`` that pins it, ``package`` the Go package to build."""

    name: str
    family: str
    package: str
    ldflags: str = "-s -w"


@dataclass(frozen=True, slots=True)
class PythonProgram:
    """A Python program, pinned with all its packages in ``modules/<family>/requirements.txt``.

    ``module`` is what ``python -m`` runs.
    """

    name: str
    family: str
    module: str


# Without the stamp the server reports v0.0.0, which clients reject and plugins cannot parse. Programs that do not have
# the package ignore it.
_STAMPED = (
    f"-s -w -X {_STAMP}.gitVersion={KUBERNETES_VERSION} -X {_STAMP}.gitMajor={_MAJOR} "
    f"-X {_STAMP}.gitMinor={_MINOR} -X {_STAMP}.gitTreeState=clean"
)


def _control_plane(name: str, package: str) -> Program:
    """Return a program of the one module graph of etcd, Kubernetes and KWOK, whose packages are compiled once."""
    return Program(name, "controlplane", package, _STAMPED)


def _kubernetes(name: str) -> Program:
    return _control_plane(name, f"k8s.io/kubernetes/cmd/{name}")


ETCD = _control_plane("etcd", "go.etcd.io/etcd/server/v3")
APISERVER = _kubernetes("kube-apiserver")
CONTROLLERS = _kubernetes("kube-controller-manager")
SCHEDULER = _kubernetes("kube-scheduler")
KUBECTL = _kubernetes("kubectl")
KWOK = _control_plane("kwok", "sigs.k8s.io/kwok/cmd/kwok")
CONFORMANCE = Program("conformance", "conformance", "muster.local/devcluster/conformance", _STAMPED)
DECODING = Program("decoding", "decoding", "muster.local/devcluster/decoding")

# Helm renders for the Kubernetes version in its stamp, as in its own releases.
_FOR_KUBERNETES = "-s -w " + " ".join(
    f"-X helm.sh/helm/v3/pkg/{package}.k8sVersion{part}={number}"
    for package in ("chartutil", "lint/rules")
    for part, number in (("Major", _MAJOR), ("Minor", _MINOR))
)
HELM = Program("helm", "install", "helm.sh/helm/v3/cmd/helm", _FOR_KUBERNETES)
KUBECONFORM = Program("kubeconform", "install", "github.com/yannh/kubeconform/cmd/kubeconform", _FOR_KUBERNETES)

SETUP_ENVTEST = Program("setup-envtest", "envtest", "sigs.k8s.io/controller-runtime/tools/setup-envtest")

ACTIONLINT = Program("actionlint", "workflows", "github.com/rhysd/actionlint/cmd/actionlint")

CONTROL_PLANE = (ETCD, APISERVER, CONTROLLERS, KWOK)
"""The programs of a cluster."""

INSTALLERS = (KUBECTL, HELM, KUBECONFORM)
"""The programs that render, validate and apply the chart and its manifests."""

TESTED_WITH = (*CONTROL_PLANE, CONFORMANCE, DECODING, *INSTALLERS, ACTIONLINT)
"""The programs of the tests: a cluster, kube-scheduler's plugins, Go's JSON, the installers, a linter of workflows."""

ALL = (*CONTROL_PLANE, CONFORMANCE, DECODING, SCHEDULER, *INSTALLERS, ACTIONLINT, SETUP_ENVTEST)

JOBSET = Program("jobset", "jobset", "sigs.k8s.io/jobset")
MPI_OPERATOR = Program("mpi-operator", "mpi", "github.com/kubeflow/mpi-operator/cmd/mpi-operator")
TRAINING_OPERATOR = Program(
    "training-operator", "training", "github.com/kubeflow/training-operator/cmd/training-operator.v1"
)
TRAINER = Program("trainer", "trainer", "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager")

KUBERAY = Program("kuberay", "kuberay", "github.com/ray-project/kuberay/ray-operator")

LEADERWORKERSET = Program("leaderworkerset", "leaderworkerset", "sigs.k8s.io/lws/cmd")
SPARK_OPERATOR = Program("spark-operator", "spark", "github.com/kubeflow/spark-operator/v2/cmd/operator")
PYSPARK = PythonProgram("pyspark", "pyspark", "pyspark")
ARGO = Program("argo-workflows", "argo", "github.com/argoproj/argo-workflows/v3/cmd/workflow-controller")
KUEUE = Program("kueue", "kueue", "sigs.k8s.io/kueue/cmd/kueue")
DASK = PythonProgram("dask-kubernetes-operator", "dask", "kopf")

KARPENTER = Program("karpenter", "karpenter", "sigs.k8s.io/karpenter/kwok")

COLLECTOR = Program("collector", "collector", "muster.local/devcluster/collector")
MONITORING = Program("monitoring", "monitoring", "muster.local/devcluster/monitoring")

FRAMEWORKS = (
    COLLECTOR,
    MONITORING,
    JOBSET,
    KUBERAY,
    LEADERWORKERSET,
    KARPENTER,
    MPI_OPERATOR,
    TRAINING_OPERATOR,
    TRAINER,
    SPARK_OPERATOR,
    ARGO,
    KUEUE,
)
"""For `make e2e-frameworks`: the controllers of the frameworks in docs/integrations, a collector of
traces, and a check of dashboards and alert rules."""

PYTHON_FRAMEWORKS = (DASK, PYSPARK)
"""Those that are Python packages."""


def cache_root() -> Path:
    """Return the folder of built programs."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "muster" / "devcluster"


def family_hash(family: str, modules: Path = MODULES) -> str:
    """Return twelve hex digits that change when a pin, a build flag or a source of the family changes."""
    digest = hashlib.sha256()
    sources = sorted(path.name for path in (modules / family).glob("*.go"))
    for file in ("go.mod", "go.sum", *sources):
        digest.update((modules / family / file).read_bytes())
    for program in (*ALL, *FRAMEWORKS):
        if program.family == family:
            digest.update(f"{program.name}\0{program.package}\0{program.ldflags}\0".encode())
    return digest.hexdigest()[:12]


def pinned_version(program: Program) -> str:
    """Return the version of the program in ``go.mod``, without the v; empty for a program of this repository."""
    for line in (MODULES / program.family / "go.mod").read_text().splitlines():
        pin = re.fullmatch(r"\s*(\S+) v(\d+\.\d+\.\d+)\b.*", line)
        if pin and f"{program.package}/".startswith(f"{pin[1]}/"):
            return pin[2]
    return ""


def cached_path(program: Program) -> Path:
    """Return the path of the program in the cache. It may not exist yet."""
    return cache_root() / f"{program.family}-{family_hash(program.family)}" / program.name


def requirements(program: PythonProgram) -> Path:
    """Return the file with the pinned packages of a Python program."""
    return MODULES / program.family / "requirements.txt"


def packages_folder(program: PythonProgram) -> Path:
    """Return the folder in the cache with the packages of a Python program. It may not exist yet."""
    digest = hashlib.sha256(f"{sys.implementation.cache_tag}\0{requirements(program).read_text()}".encode())
    return cache_root() / f"{program.family}-{digest.hexdigest()[:12]}"
