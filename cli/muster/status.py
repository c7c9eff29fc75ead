"""`muster status`: Muster on one page."""

from __future__ import annotations

from typing import Any

import typer

from muster.asking import asks
from muster.clients.rest import Rest
from muster.clients.target import Target
from muster.errors import PROBLEM
from muster.output import Format, Output, Watch, show
from muster.views import status as page

EXAMPLES = ("muster status", "muster status --watch", "muster status --server http://127.0.0.1:9080 -o json")


@asks
def command(target: Target, *, output: Format = Output.TABLE, watch: Watch = False) -> None:
    """Show scheduler health and cluster utilization.

    Exits with 1 if the core is not healthy.
    """
    found = show(lambda: read(target.rest), page.view, output, watch=watch)
    if not page.is_well(found):
        raise typer.Exit(PROBLEM)


def read(rest: Rest) -> dict[str, Any]:
    """What the page is made of."""
    is_ready, said = rest.ready()
    partitions = rest.partitions()
    return {
        "core": rest.where,
        "ready": {"ready": is_ready, "message": said},
        "health": rest.health(),
        "clusters": rest.clusters(),
        "partitions": partitions,
        "outstanding": rest.outstanding() if partitions else [],
    }
