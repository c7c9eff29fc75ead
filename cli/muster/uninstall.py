"""`muster uninstall`: takes away what Muster made while it ran, once it runs no more; the chart runs it after its end.

Placeholders have owners, but those may live long; without Muster nobody would replace them by real pods, and they
would hold their room. The webhook's registration outlives the operator (docs/operate/admission.md), which puts
it up again while it runs: so its pods are waited for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from muster.asking import with_one_line
from muster.clients.kubernetes import Cluster, connected
from muster.errors import PROBLEM, NotThere
from muster_operator.kube import signing
from muster_operator.main import LEASE_NAME
from muster_operator.model.names import ANNOTATION_PLACEHOLDER, PLACEHOLDER_FIELD_MANAGER
from muster_operator.runtime.conflicts import NAMESPACE, PREFIX
from muster_operator.webhook.certificates import SECRET
from muster_operator.webhook.registration import name_of

EXAMPLES = ("muster uninstall --namespace muster",)

RUNNING: Final = "app=muster,component=scheduler"
"""The pods of chart and manifests that schedule."""
PAUSE_S: Final = 1.0
_REGISTRATIONS: Final = "/apis/admissionregistration.k8s.io/v1"


def command(
    *,
    namespace: Annotated[str, typer.Option(envvar="NAMESPACE", help="where Muster ran")] = "muster",
    lease_name: Annotated[str, typer.Option(envvar="MUSTER_LEASE_NAME", help="its Lease")] = LEASE_NAME,
    scheduler_names: Annotated[
        str,
        typer.Option(help="value of service.schedulerNames; only placeholders with these scheduler names are deleted"),
    ] = "muster,yunikorn",
    seconds: Annotated[int, typer.Option(min=0, help="how long its pods may take to end")] = 120,
    kubeconfig: Annotated[str, typer.Option(help="as kubectl's")] = "",
    context: Annotated[str, typer.Option(help="of the kubeconfig; without it its current one")] = "",
) -> None:
    """Delete placeholders, the webhook's registration, the Secrets and the Leases, once Muster has ended."""
    names = tuple(name for part in scheduler_names.split(",") if (name := part.strip()))
    with_one_line(
        lambda: take_away(connected(kubeconfig, context), Installation(namespace, lease_name, names), seconds)
    )


@dataclass(frozen=True, slots=True)
class Installation:
    """One Muster of the cluster: its namespace, its Lease there, and the scheduler names that it serves.

    No two of a cluster serve the same scheduler name, so the names tell its placeholders from those of others.
    """

    namespace: str
    lease_name: str
    scheduler_names: tuple[str, ...]


def take_away(cluster: Cluster, installation: Installation, seconds: float) -> None:
    """Delete what is left of the installation, and print it.

    Raises Exit(1) where Muster still runs, Unreachable where the API server says no."""
    deadline = time.monotonic() + seconds
    namespace = installation.namespace
    pods = f"/api/v1/namespaces/{namespace}/pods"
    while running := [pod["metadata"]["name"] for pod in cluster.list(pods, labelSelector=RUNNING)]:
        if time.monotonic() >= deadline:
            typer.echo(f"muster: {', '.join(running)} still there: delete the Deployments of Muster first", err=True)
            raise typer.Exit(PROBLEM)
        typer.echo(f"waiting for the end of {', '.join(running)}")
        time.sleep(PAUSE_S)
    registered = name_of(namespace)
    for path in (
        f"{_REGISTRATIONS}/mutatingwebhookconfigurations/{registered}",
        f"{_REGISTRATIONS}/validatingwebhookconfigurations/{registered}",
        f"/api/v1/namespaces/{namespace}/secrets/{SECRET}",
        f"/api/v1/namespaces/{namespace}/secrets/{signing.SECRET}",
        f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{installation.lease_name}",
    ):
        typer.echo(f"{'deleted' if cluster.delete(path) else 'not there'}: {path}")
    for name in installation.scheduler_names:
        _delete_name_lease(cluster, installation, name)
    found = _placeholders(cluster, installation.scheduler_names)
    typer.echo(f"deleted: {sum(cluster.delete(path) for path in found)} placeholders")


def _delete_name_lease(cluster: Cluster, installation: Installation, name: str) -> None:
    """Delete the Lease of a scheduler name, unless another installation holds it. One that was given back is free."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{PREFIX}{name}"
    try:
        found = cluster.get(path)
    except NotThere:
        typer.echo(f"not there: {path}")
        return
    holder = (found.get("spec") or {}).get("holderIdentity") or ""
    if holder not in {"", f"{installation.namespace}/{installation.lease_name}"}:
        typer.echo(f"kept, {holder} holds it: {path}")
        return
    typer.echo(f"{'deleted' if cluster.delete(path, found['metadata']['resourceVersion']) else 'not there'}: {path}")


def _placeholders(cluster: Cluster, scheduler_names: tuple[str, ...]) -> Iterator[str]:
    """Paths of the placeholders that have one of these scheduler names."""
    for name in scheduler_names:
        for pod in cluster.list("/api/v1/pods", fieldSelector=f"spec.schedulerName={name}"):
            meta = pod["metadata"]
            if is_placeholder(meta):
                yield f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"


def is_placeholder(metadata: dict[str, Any]) -> bool:
    """Whether a pod with this metadata is a placeholder of a Muster."""
    is_marked = (metadata.get("annotations") or {}).get(ANNOTATION_PLACEHOLDER) == "true"
    makers = {entry.get("manager") for entry in metadata.get("managedFields", ()) if not entry.get("subresource")}
    return is_marked and PLACEHOLDER_FIELD_MANAGER in makers
