"""`muster apps`: applications, a row each."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from muster.asking import asks
from muster.clients.rest import Rest
from muster.clients.target import Target
from muster.output import Format, Output, Watch, show
from muster.views import apps as page

EXAMPLES = ("muster apps", "muster apps --queue root.research -o wide", "muster apps --state rejected")


class State(StrEnum):
    """State of an application; completed includes failed and rejected."""

    ACTIVE = "active"
    COMPLETED = "completed"
    REJECTED = "rejected"


@asks
def command(
    target: Target,
    *,
    queue: Annotated[str, typer.Option("--queue", "-q", help="Only applications of this queue and its children")] = "",
    user: Annotated[str, typer.Option("--user", "-u", help="Only applications of this user")] = "",
    state: Annotated[State, typer.Option(help="completed includes failed and rejected")] = State.ACTIVE,
    output: Format = Output.TABLE,
    watch: Watch = False,
) -> None:
    """List applications."""
    show(lambda: chosen(target.rest, queue, user, state), page.view, output, watch=watch)


def chosen(rest: Rest, queue: str, user: str, state: State) -> list[dict[str, Any]]:
    """Those that are asked for. Raises NotThere where there is no such queue."""
    if queue:
        rest.queue(queue)
    below = queue.lower()
    return [
        app
        for app in rest.applications(state.value)
        if (not below or app["queueName"] == below or app["queueName"].startswith(f"{below}."))
        and user in ("", app["user"])
    ]
