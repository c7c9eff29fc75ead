"""`muster version`: versions of this command, the core and the operator."""

from __future__ import annotations

from importlib.metadata import version as installed_version
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from muster.asking import asks
from muster.clients.rest import Rest
from muster.clients.target import Target
from muster.errors import Unreachable
from muster.output import Format, Output, show
from muster_si.api import SI_VERSION

EXAMPLES = ("muster version --client", "muster version -o json")
DISTRIBUTION: Final = "muster-scheduler"


@asks
def command(
    target: Target,
    *,
    client: Annotated[
        bool, typer.Option("--client", help="show only the version of this command, without a connection")
    ] = False,
    output: Format = Output.TABLE,
) -> None:
    """Print the versions of this command, the core and the operator.

    Prints the version of this command even if the core is unreachable.
    """
    ours = {"client": installed_version(DISTRIBUTION), "schedulerInterface": SI_VERSION}
    try:
        theirs = {} if client else read(target.rest)
    except Unreachable:
        show(lambda: ours, view, output)
        raise
    show(lambda: ours | theirs, view, output)


def read(rest: Rest) -> dict[str, Any]:
    """The versions of core and operator. Raises Unreachable."""
    clusters = rest.clusters()
    operators = [build.get("buildVersion", "") for cluster in clusters for build in cluster["rmBuildInformation"]]
    return {"core": next((cluster["coreVersion"] for cluster in clusters), ""), "operators": operators}


def view(found: dict[str, Any], wide: bool, now_ns: int) -> Table:  # noqa: FBT001  # the signature of a View
    """A line each."""
    made = Table.grid(padding=(0, 2))
    made.add_row("muster", f"{found['client']} (scheduler interface {found['schedulerInterface']})")
    if "core" in found:
        made.add_row("core", found["core"] or "unknown: no operator has registered")
    for operator in found.get("operators", []):
        made.add_row("operator", operator or "unknown")
    return made
