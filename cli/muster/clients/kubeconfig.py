"""The cluster that kubectl would use, by `muster_si.kubeconfig`, with the errors of commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from muster.errors import BadUsage, Unreachable
from muster_si import kubeconfig as files
from muster_si.kubeconfig import Access, KubeContext

DEFAULT_NAMESPACE: Final = "default"
_CLUSTER: Final = "the cluster"


@contextmanager
def command_errors() -> Iterator[None]:
    """Raise BadUsage and Unreachable instead of the errors of kubeconfigs."""
    try:
        yield
    except files.KubeconfigError as error:
        raise BadUsage(str(error)) from error
    except files.NoAccess as error:
        raise Unreachable(_CLUSTER, error) from error


@command_errors()
def read(kubeconfig: str = "", context: str = "") -> KubeContext | None:
    """The context of that name, or the current one; None = there is no kubeconfig. Raises BadUsage."""
    return files.read(kubeconfig, context)


@command_errors()
def access(kubeconfig: str = "", context: str = "") -> Access:
    """How to connect: by the kubeconfig, else with the pod's service account. Raises BadUsage, Unreachable."""
    found = files.read(kubeconfig, context)
    access = found.access() if found is not None else files.in_cluster()
    if access is None:
        fix = "set --kubeconfig, or --server to connect to a core without a cluster"
        raise Unreachable(_CLUSTER, f"no kubeconfig found{files.missing(kubeconfig)}; {fix}")
    return access


def namespace(kubeconfig: str = "", context: str = "") -> str:
    """The namespace of the context, else of the pod in which the command runs, else `default`. Raises BadUsage."""
    found = read(kubeconfig, context)
    if found is not None:
        return found.namespace or DEFAULT_NAMESPACE
    try:
        return (files.SERVICE_ACCOUNT / "namespace").read_text().strip() or DEFAULT_NAMESPACE
    except (OSError, ValueError):
        return DEFAULT_NAMESPACE
