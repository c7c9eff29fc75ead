"""`muster queues`: the tree of queues, what is used of it, what waits."""

from __future__ import annotations

from typing import Annotated

import typer

from muster.asking import asks
from muster.clients.target import Target
from muster.output import Format, Output, Watch, show
from muster.views import queues as page

EXAMPLES = ("muster queues", "muster queues root.research -o wide", "muster queues -o json")


@asks
def command(
    target: Target,
    queue: Annotated[str, typer.Argument(help="Only this queue and its children")] = "root",
    *,
    output: Format = Output.TABLE,
    watch: Watch = False,
) -> None:
    """List queues with usage and pending resources."""
    show(lambda: target.rest.queue(queue), page.view, output, watch=watch)
