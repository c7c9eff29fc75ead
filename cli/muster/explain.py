"""`muster explain`: why an application or a pod waits, and what is ahead of it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from muster import reasons
from muster.asking import asks
from muster.checks import workloads
from muster.clients.rest import Rest
from muster.clients.target import Target
from muster.errors import BadUsage, NotThere, Unreachable
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
            help="[NAMESPACE/]ID or [NAMESPACE/]POD; app/ID or pod/POD if both exist",
        ),
    ],
    *,
    output: Format = Output.TABLE,
    watch: Watch = False,
) -> None:
    """Explain why an application or pod is pending."""
    show(lambda: read(target, subject), page.view, output, watch=watch)


def read(target: Target, subject: str) -> Json:
    """Everything about it. Raises NotThere, BadUsage where several pods are called so."""
    rest = target.rest
    app, pod = _found(target, subject)
    try:
        queue, line = rest.queue(app["queueName"]), rest.line(app["queueName"])
    except NotThere:
        return reasons.explained(app, None, [], pod).data()
    return reasons.explained(app, queue, line, pod).data()


def _found(target: Target, subject: str) -> tuple[Json, str]:
    """The application, and its pod if that is what is asked about."""
    rest = target.rest
    kind, _, name = subject.partition("/")
    if kind == "app":
        return rest.application(name), ""
    if kind != "pod":
        try:
            return rest.application(subject), ""
        except NotThere:
            name = subject
    namespace, _, pod = name.rpartition("/")
    several = reasons.found(rest.applications(), pod, namespace) or _not_asked_for(target, rest, pod, namespace)
    if not several:
        raise NotThere(f"no application or pod {name} found; muster doctor lists pods that Muster does not schedule")
    if len(several) > 1:
        raise BadUsage(f"several pods have the name {name}: {', '.join(full for _, full in several)}; name one of them")
    return several[0]


def _not_asked_for(target: Target, rest: Rest, name: str, namespace: str) -> list[tuple[Json, str]]:
    """Pods that only the cluster knows, of applications of the core: the operator holds members of a gang back."""
    path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
    try:
        pods = list(target.cluster.list(path, fieldSelector=f"metadata.name={name}"))
    except Unreachable:
        return []  # a core that was named by its URL may be asked without a cluster
    several = []
    for pod in pods:
        try:
            app = rest.application_of(pod["metadata"]["namespace"], workloads.application_of(pod))
        except NotThere:
            continue
        several.append((app, f"{pod['metadata']['namespace']}/{name}"))
    return several
