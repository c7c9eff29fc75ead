"""`muster explain`: why an application or a pod waits, and what is ahead of it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from muster import reasons
from muster.asking import asks
from muster.clients.rest import Rest
from muster.clients.target import Target
from muster.errors import BadUsage, NotThere
from muster.output import Format, Output, Watch, show
from muster.views import explain as page

EXAMPLES = ("muster explain my-gang", "muster explain team-a/worker-0", "muster explain pod/worker-0 -o json")
Json = dict[str, Any]


@asks
def command(
    target: Target,
    subject: Annotated[
        str,
        typer.Argument(
            metavar="APPLICATION|POD",
            help="an id, or [NAMESPACE/]POD; app/ID and pod/POD where both exist",
        ),
    ],
    *,
    output: Format = Output.TABLE,
    watch: Watch = False,
) -> None:
    """Say why an application or a pod waits: what is missing, on how many nodes and why, and who comes first."""
    show(lambda: read(target.rest, subject), page.view, output, watch=watch)


def read(rest: Rest, subject: str) -> Json:
    """Everything about it. Raises NotThere, BadUsage where several pods are called so."""
    app, pod = _found(rest, subject)
    try:
        queue, line = rest.queue(app["queueName"]), rest.line(app["queueName"])
    except NotThere:
        return reasons.explained(app, None, [], pod).data()
    return reasons.explained(app, queue, line, pod).data()


def _found(rest: Rest, subject: str) -> tuple[Json, str]:
    """The application, and its pod if that is what is asked about."""
    kind, _, name = subject.partition("/")
    if kind == "app":
        return rest.application(name), ""
    if kind != "pod":
        try:
            return rest.application(subject), ""
        except NotThere:
            name = subject
    namespace, _, pod = name.rpartition("/")
    several = reasons.found(rest.applications(), pod, namespace)
    if not several:
        raise NotThere(f"the core knows neither an application nor a pod {name}; muster doctor looks at pods it misses")
    if len(several) > 1:
        raise BadUsage(f"several pods are called {name}: {', '.join(full for _, full in several)}; name one of them")
    return several[0]
