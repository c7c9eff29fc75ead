"""`muster nodes`: how full they are, and whether something may go there."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from muster.asking import asks
from muster.clients.rest import Rest
from muster.clients.target import Target
from muster.output import Format, Output, Watch, show
from muster.views import nodes as page

EXAMPLES = ("muster nodes", "muster nodes node-1 -o yaml", "muster nodes -o wide --watch")


@asks
def command(
    target: Target,
    names: Annotated[list[str] | None, typer.Argument(metavar="[NODE]...", help="Only these nodes")] = None,
    *,
    output: Format = Output.TABLE,
    watch: Watch = False,
) -> None:
    """List nodes with allocations, pods of other schedulers, and reservations."""
    show(lambda: chosen(target.rest, names or []), page.view, output, watch=watch)


def chosen(rest: Rest, names: list[str]) -> list[dict[str, Any]]:
    """All nodes, or those that are named. Raises NotThere."""
    return [rest.node(name) for name in names] if names else rest.nodes()
