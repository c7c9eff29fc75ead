"""`muster uninstall`: deletes what Muster created while it ran; the chart runs it after its Deployments are deleted.

Placeholders keep their resources as long as their owners exist. A running operator registers the webhook again, so its
pods must have ended. The signing keys identify Muster's placeholders, so they are deleted last, and only when no
placeholder is left; the command can be repeated.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

import typer

from muster import placeholders
from muster.clients.kubernetes import Cluster, connect
from muster.errors import PROBLEM, NotThere
from muster.options import Context, Kubeconfig, Steps, exit_on_error
from muster_operator.main import LEASE_NAME
from muster_operator.model import signing
from muster_operator.runtime.conflicts import NAMESPACE, PREFIX
from muster_operator.webhook.certificates import SECRET
from muster_operator.webhook.registration import name_of

EXAMPLES = (
    "muster uninstall --namespace muster",
    "muster uninstall --namespace muster --only-registrations",
)

RUNNING: Final = "app=muster,component=scheduler"
"""Labels of pods with an operator, in the chart and in deploy/."""
PAUSE_S: Final = 1.0
_REGISTRATIONS: Final = "/apis/admissionregistration.k8s.io/v1"


def command(  # noqa: PLR0913 # long: the command line is its options
    *,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", envvar="NAMESPACE", help="Namespace of Muster.")
    ] = "muster",
    lease_name: Annotated[
        str, typer.Option(envvar="MUSTER_LEASE_NAME", help="Name of the leader's Lease.")
    ] = LEASE_NAME,
    scheduler_names: Annotated[
        str,
        typer.Option(help="Value of service.schedulerNames; only placeholders with these scheduler names are deleted."),
    ] = "muster,yunikorn",
    only_registrations: Annotated[
        bool,
        typer.Option(
            "--only-registrations",
            help="Delete only the webhook registration, and keep Muster running without the webhook.",
        ),
    ] = False,
    seconds: Annotated[
        int, typer.Option(min=0, help="Maximum time to wait for Muster's pods to terminate, in seconds.")
    ] = 120,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Delete placeholders, the webhook registration, Secrets and Leases after Muster was uninstalled."""
    names = tuple(name for part in scheduler_names.split(",") if (name := part.strip()))
    installation = Installation(namespace, lease_name, names)
    if only_registrations:
        exit_on_error(lambda: delete_registrations(connect(kubeconfig, context), installation))
    else:
        exit_on_error(lambda: delete_leftovers(connect(kubeconfig, context), installation, seconds))


@dataclass(frozen=True, slots=True)
class Installation:
    """One installation: its namespace, the leader's Lease there, and the scheduler names that it serves.

    Two installations of a cluster never serve the same scheduler name, so the names identify its placeholders.
    """

    namespace: str
    lease_name: str
    scheduler_names: tuple[str, ...]


def delete_registrations(cluster: Cluster, installation: Installation) -> None:
    """Delete the webhook registration, and print each object. Raises Exit(1) if something could not be deleted."""
    steps = Steps()
    for path in _registrations(installation):
        steps.run(partial(_delete, cluster, path))
    steps.end()


def delete_leftovers(cluster: Cluster, installation: Installation, seconds: float) -> None:
    """Delete what is left of the installation, and print each object.

    Raises Exit(1) if Muster still runs or something could not be deleted, Unreachable if its pods cannot be listed.
    """
    _wait_for_pods_to_end(cluster, installation.namespace, seconds)
    steps = Steps()
    home = f"/api/v1/namespaces/{installation.namespace}"
    keys = f"{home}/secrets/{signing.SECRET}"
    all_deleted = steps.run(lambda: _delete_placeholders(cluster, installation, steps))
    for path in (
        *_registrations(installation),
        f"{home}/secrets/{SECRET}",
        f"/apis/coordination.k8s.io/v1/namespaces/{installation.namespace}/leases/{installation.lease_name}",
    ):
        steps.run(partial(_delete, cluster, path))
    for name in installation.scheduler_names:
        steps.run(partial(_delete_name_lease, cluster, installation, name))
    if all_deleted:
        steps.run(lambda: _delete(cluster, keys))
    else:
        typer.echo(f"kept, placeholders may be left: {keys}")
    steps.end()


def _registrations(installation: Installation) -> list[str]:
    name = name_of(installation.namespace)
    return [f"{_REGISTRATIONS}/{kind}webhookconfigurations/{name}" for kind in ("mutating", "validating")]


def _wait_for_pods_to_end(cluster: Cluster, namespace: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    pods = f"/api/v1/namespaces/{namespace}/pods"
    while running := [pod["metadata"]["name"] for pod in cluster.list(pods, labelSelector=RUNNING)]:
        if time.monotonic() >= deadline:
            typer.echo(f"muster: {', '.join(running)} still running: delete the Deployments of Muster first", err=True)
            raise typer.Exit(PROBLEM)
        typer.echo(f"waiting until these pods end: {', '.join(running)}")
        time.sleep(PAUSE_S)


def _delete(cluster: Cluster, path: str) -> bool:
    """Delete the object as it is now. Raises Unreachable."""
    try:
        uid = cluster.get(path)["metadata"]["uid"]
    except NotThere:
        uid = ""
    typer.echo(f"{'deleted' if uid and cluster.delete(path, uid) else 'not found'}: {path}")
    return True


def _delete_name_lease(cluster: Cluster, installation: Installation, name: str) -> bool:
    """Delete the Lease of a scheduler name, unless another installation holds it."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{PREFIX}{name}"
    try:
        found = cluster.get(path)
    except NotThere:
        typer.echo(f"not found: {path}")
        return True
    holder = (found.get("spec") or {}).get("holderIdentity") or ""
    if holder not in {"", f"{installation.namespace}/{installation.lease_name}"}:
        typer.echo(f"kept, held by {holder}: {path}")
        return True
    meta = found["metadata"]
    is_deleted = cluster.delete(path, meta["uid"], meta["resourceVersion"])
    typer.echo(f"{'deleted' if is_deleted else 'not found'}: {path}")
    return True


def _delete_placeholders(cluster: Cluster, installation: Installation, steps: Steps) -> bool:
    """Delete the placeholders that Muster signed; False = one may be left. Raises Unreachable."""
    found = placeholders.survey(
        (
            pod
            for name in installation.scheduler_names
            for pod in cluster.list("/api/v1/pods", fieldSelector=f"spec.schedulerName={name}")
        ),
        frozenset(installation.scheduler_names),
        lambda: placeholders.signing_keys(cluster, installation.namespace),
    )
    before = steps.failed
    deleted = sum(steps.run(partial(placeholders.delete_pod, cluster, pod)) for pod in found.signed)
    typer.echo(f"deleted: {deleted} placeholders")
    if left := len(found.unsigned) + len(found.unverified):
        typer.echo(f"kept, not signed with a key of Muster: {left} pods with the placeholder annotation")
    if found.error and not isinstance(found.error, NotThere):
        raise found.error
    return steps.failed == before
