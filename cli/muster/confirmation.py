"""The question before a command deletes objects: it shows the cluster and the objects."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from muster.clients.kubernetes import Cluster
from muster.errors import BadUsage
from muster.text import print_line

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Delete without a question.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be deleted, and delete nothing.")]

#: Objects that the question lists; `--dry-run` lists all.
_SHOWN: Final = 20


def is_confirmed(cluster: Cluster, objects: Sequence[str], *, yes: bool, dry_run: bool) -> bool:
    """Show the cluster and the objects, and ask. False = delete nothing, because of --dry-run.

    Raises:
        BadUsage: there is no terminal to ask on, and no --yes.
        typer.Abort: the answer is no.
    """
    where = f"context {cluster.access.context}" if cluster.access.context else "the cluster of this pod"
    print_line(f"{where}, server {cluster.access.server}", err=True)
    if yes and not dry_run:
        return True
    for text in objects if dry_run else objects[:_SHOWN]:
        print_line(f"{'would delete' if dry_run else 'to delete'}: {text}", err=True)
    if dry_run:
        print_line(f"dry run: {len(objects)} objects would be deleted", err=True)
        return False
    if len(objects) > _SHOWN:
        print_line(f"and {len(objects) - _SHOWN} more; --dry-run lists all", err=True)
    if not sys.stdin.isatty():
        raise BadUsage(
            "nothing was deleted: without a terminal there is no question; add --yes to delete, "
            "or --dry-run to list the objects"
        )
    if not typer.confirm(f"Delete {len(objects)} objects?", err=True):
        raise typer.Abort
    return True
