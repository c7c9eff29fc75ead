"""`muster app`: one application, its gang's phases and its members."""

from __future__ import annotations

from typing import Annotated

import typer

from muster.asking import asks
from muster.clients.target import Target
from muster.output import Format, Output, Watch, show
from muster.views import app as page

EXAMPLES = ("muster app my-gang", "muster app my-gang --watch", "muster app my-gang -o yaml")


@asks
def command(
    target: Target,
    name: Annotated[str, typer.Argument(metavar="APPLICATION", help="[NAMESPACE/]ID")],
    *,
    output: Format = Output.TABLE,
    watch: Watch = False,
) -> None:
    """Show one application: states, task groups, pods, and why pods are pending."""
    show(lambda: target.rest.application(name), page.view, output, watch=watch)
