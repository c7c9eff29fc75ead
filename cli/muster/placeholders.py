"""`muster placeholders`: lists placeholders that Muster did not sign, and deletes them only when it is told to."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from muster.asking import with_one_line
from muster.checks import placeholders
from muster.clients.kubernetes import Cluster, connected

EXAMPLES = ("muster placeholders", "muster placeholders --delete --scheduler-names yunikorn")
LIVING: Final = "status.phase!=Succeeded,status.phase!=Failed"


def command(
    *,
    delete: Annotated[bool, typer.Option("--delete", help="delete them; without it they are only listed")] = False,
    scheduler_names: Annotated[
        str, typer.Option(help="value of service.schedulerNames; only pods with these scheduler names are looked at")
    ] = "muster,yunikorn",
    kubeconfig: Annotated[str, typer.Option(help="as kubectl's")] = "",
    context: Annotated[str, typer.Option(help="of the kubeconfig; without it its current one")] = "",
) -> None:
    """List placeholders without a signature of Muster: YuniKorn's, or of an older Muster. They are ordinary pods."""
    names = frozenset(name for part in scheduler_names.split(",") if (name := part.strip()))
    with_one_line(lambda: look(connected(kubeconfig, context), names, delete=delete))


def look(cluster: Cluster, names: frozenset[str], *, delete: bool) -> None:
    """Print the unsigned placeholders, and delete them if wanted. Raises Unreachable where the API server refuses."""
    found = placeholders.unsigned(cluster.list("/api/v1/pods", fieldSelector=LIVING), names)
    for pod in found:
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        is_deleted = delete and cluster.delete(path)
        typer.echo(f"{placeholders.place(pod)}{' deleted' if is_deleted else ''}")
    typer.echo(f"{len(found)} placeholders without a signature")
