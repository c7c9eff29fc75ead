"""Commands that read the core: `muster status`, `queues`, `apps`, `app`, `nodes`, `explain` and `version`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from importlib.metadata import version as installed_version
from typing import Annotated, Any, Final

import typer
from rich.console import RenderableType

from muster import find, from_pods, pending, printers
from muster.clients.rest import Rest
from muster.errors import PROBLEM, BadUsage, CommandError, Forbidden, NotThere, Unreachable
from muster.main import DISTRIBUTION
from muster.options import AllNamespaces, Namespace, Target, connected
from muster.output import Format, Output, Watch, as_data, show

Json = dict[str, Any]

EXAMPLES: Final = {
    "status": ("muster status", "muster status --watch", "muster status --server http://127.0.0.1:9080 -o json"),
    "queues": ("muster queues", "muster queues root.research -o wide", "muster queues --tree", "muster queues -o json"),
    "apps": ("muster apps", "muster apps -A --queue root.research -o wide", "muster apps -n team-a --state rejected"),
    "app": ("muster app my-gang", "muster app my-gang -n team-a --watch", "muster app team-a/my-gang -o yaml"),
    "nodes": ("muster nodes", "muster nodes node-1 -o yaml", "muster nodes -o wide --watch"),
    "explain": (
        "muster explain my-gang",
        "muster explain worker-0 -n team-a",
        "muster explain pod/worker-0 -o json",
        "muster explain my-gang --changes",
        "muster explain my-gang --estimate",
        "muster explain my-gang --history",
    ),
    "version": ("muster version --client", "muster version -o json"),
}


# --- cluster ---------------------------------------------------------------------------------------------------------


@connected
def status(target: Target, *, output: Format = Output.TABLE, watch: Watch = False) -> None:
    """Show scheduler health and cluster utilization.

    Exits with 1 if the core is not healthy.
    """
    found = show(lambda: read_status(target.rest), printers.status, output, watch=watch)
    if not printers.is_healthy(found):
        raise typer.Exit(PROBLEM)


def read_status(rest: Rest) -> Json:
    """The data of `muster status`. Raises Unreachable."""
    is_ready, message = rest.ready()
    partitions = rest.partitions()
    return {
        "core": rest.where,
        "ready": {"ready": is_ready, "message": message},
        "health": rest.health(),
        "clusters": rest.clusters(),
        "partitions": partitions,
        "outstanding": rest.outstanding() if partitions else [],
    }


@connected
def queues(
    target: Target,
    queue: Annotated[str, typer.Argument(help="Only this queue and its children.")] = "root",
    *,
    tree: Annotated[bool, typer.Option("--tree", help="Indent each queue below its parent.")] = False,
    output: Format = Output.TABLE,
    watch: Watch = False,
) -> None:
    """List queues with usage and pending resources.

    JSON and YAML contain the queue with its children.
    """
    show(lambda: find.queue(target.rest, queue or "root"), partial(printers.queues, tree=tree), output, watch=watch)


@connected
def nodes(
    target: Target,
    names: Annotated[list[str] | None, typer.Argument(metavar="[NODE]...", help="Only these nodes.")] = None,
    *,
    output: Format = Output.TABLE,
    watch: Watch = False,
) -> None:
    """List nodes with allocations, pods of other schedulers, and reservations."""
    wanted = names or []

    def read() -> list[Json]:
        return [find.node(target.rest, name) for name in wanted] if wanted else target.rest.nodes()

    def data(found: list[Json]) -> Any:
        return found[0] if len(wanted) == 1 else as_data(found)

    show(read, printers.nodes, output, watch=watch, data=data, empty="No nodes found")


@connected
def version(
    target: Target,
    *,
    client: Annotated[
        bool, typer.Option("--client", help="Print only the version of this command, without a connection.")
    ] = False,
    output: Format = Output.TABLE,
) -> None:
    """Print the versions of this command, the core and the operator.

    Prints the version of this command even if the core is unreachable or the kubeconfig is invalid.
    """
    from muster_si.api import SI_VERSION  # noqa: PLC0415  # --help does not wait for protobuf

    local = {"client": installed_version(DISTRIBUTION), "schedulerInterface": SI_VERSION}
    try:
        remote = {} if client else _remote_versions(target.rest)
    except CommandError:
        show(lambda: local, printers.version, output)
        raise
    show(lambda: local | remote, printers.version, output)


def _remote_versions(rest: Rest) -> Json:
    clusters = rest.clusters()
    operators = [build.get("buildVersion", "") for cluster in clusters for build in cluster["rmBuildInformation"]]
    return {"core": next((cluster["coreVersion"] for cluster in clusters), ""), "operators": operators}


# --- applications ----------------------------------------------------------------------------------------------------


class State(StrEnum):
    """State of an application; completed includes failed and rejected."""

    ACTIVE = "active"
    COMPLETED = "completed"
    REJECTED = "rejected"


@connected
def apps(  # noqa: PLR0913 # long: the command line is its options
    target: Target,
    *,
    queue: Annotated[str, typer.Option("--queue", "-q", help="Only applications of this queue and its children.")] = "",
    user: Annotated[str, typer.Option("--user", "-u", help="Only applications of this user.")] = "",
    state: Annotated[
        State, typer.Option(help="Only applications in this state. `completed` includes failed and rejected ones.")
    ] = State.ACTIVE,
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
    output: Format = Output.TABLE,
    watch: Watch = False,
) -> None:
    """List applications."""
    wanted = target.namespace(namespace, all_namespaces=all_namespaces)

    def read() -> list[Json]:
        found = _in_queue(target.rest, queue, state)
        return [app for app in found if user in ("", app["user"]) and pending.in_namespace(app, wanted)]

    view = partial(printers.apps, all_namespaces=not wanted)
    kind = f"{state} "
    place = "".join((f" in queue {queue}" if queue else "", f" of user {user}" if user else ""))
    where = f" in namespace {wanted} (-n or -A selects others)" if wanted else ""
    others = "; --state completed lists those that have ended" if state is State.ACTIVE else ""
    show(read, view, output, watch=watch, empty=f"No {kind}applications found{place}{where}{others}")


def _in_queue(rest: Rest, queue: str, state: State) -> list[Json]:
    """Applications of the queue and its children. Raises NotThere if the queue does not exist."""
    found = rest.applications(state.value)
    if not queue:
        return found
    find.queue(rest, queue)
    path = queue.lower()
    return [app for app in found if app["queueName"] == path or app["queueName"].startswith(f"{path}.")]


@connected
def app(
    target: Target,
    name: Annotated[str, typer.Argument(metavar="APPLICATION", help="[NAMESPACE/]ID")],
    *,
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
    output: Format = Output.TABLE,
    watch: Watch = False,
) -> None:
    """Show one application: states, task groups, pods, and why pods are pending."""
    wanted = target.namespace(namespace, all_namespaces=all_namespaces)

    def read() -> Json:
        try:
            return find.application(target.rest, name, wanted)
        except NotThere as error:
            if why := find.application_of_pod(target, name, wanted):
                raise NotThere(why) from error
            raise

    show(read, printers.app, output, watch=watch)


# --- explain ---------------------------------------------------------------------------------------------------------


@connected
def explain(  # noqa: PLR0913 # long: the command line is its options
    target: Target,
    subject: Annotated[
        str,
        typer.Argument(
            metavar="APPLICATION|POD",
            help="[NAMESPACE/]ID or [NAMESPACE/]POD; app/ID or pod/POD if both exist.",
        ),
    ],
    *,
    changes: Annotated[
        bool,
        typer.Option("--changes", help="Also find the smallest changes that would start it. Lists all nodes and pods."),
    ] = False,
    with_estimate: Annotated[
        bool,
        typer.Option("--estimate", help="Also estimate when it starts, from run times. Lists all nodes and pods."),
    ] = False,
    with_history: Annotated[
        bool,
        typer.Option("--history", help="Also show what happened to it: states, events of the core and of its pods."),
    ] = False,
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
    output: Format = Output.TABLE,
    watch: Watch = False,
) -> None:
    """Explain why an application or pod is pending.

    Without the right to open a port-forward, shows the conditions and events of the pods.
    """
    if (changes or with_estimate or with_history) and watch:
        option = "--changes" if changes else "--estimate" if with_estimate else "--history"
        raise BadUsage(f"{option} cannot be used with --watch, because it lists many objects")
    wanted = target.namespace(namespace, all_namespaces=all_namespaces)
    wants = _Wants(changes, with_estimate, with_history)

    def read() -> Json:
        return _read_explanation(target, subject, wanted, wants)

    show(read, _explanation, output, watch=watch)


def _explanation(found: Json, wide: bool, now_ns: int) -> RenderableType:  # noqa: FBT001  # the signature of a View
    return from_pods.view(found) if "core" in found else printers.explanation(found, wide, now_ns)


@dataclass(frozen=True, slots=True)
class _Wants:
    """Parts of an explanation that take longer."""

    changes: bool
    estimate: bool
    history: bool


def _read_explanation(target: Target, subject: str, namespace: str, wants: _Wants) -> Json:
    """Raises NotThere, BadUsage if several pods have the name, and CommandError if changes cannot be found."""
    try:
        rest = target.rest
    except Forbidden as error:
        if wants.changes or wants.estimate:
            raise
        try:
            pods = from_pods.pods_of(target.cluster, subject, namespace)
            return from_pods.explain(target.cluster, pods, f"not asked: {error}", with_history=wants.history)
        except Unreachable:
            raise error from None
    named = find.subject(target, subject, namespace)
    if named.withheld:
        found = from_pods.explain(target.cluster, named.withheld, named.core, with_history=wants.history)
        return found | _predictions(target, {}, wants, is_pending=False)
    app, pod = named.app, named.pod
    path = app["queueName"]  # empty if the application was rejected before it had a queue
    try:
        queue, waiting = (rest.queue(path), rest.pending(path)) if path else (None, [])
    except NotThere:
        queue, waiting = None, []
    found = pending.explain(app, queue, waiting, pod).data()
    found["warnings"] = "; ".join(find.warnings_of(target, app, pod)) or found["warnings"]
    if pending.lacking(found["reasons"]):
        known = {name for partition in rest.partitions() for name in partition["capacity"]["capacity"]}
        pending.advise_names(found["reasons"], known)
    if wants.changes or wants.estimate:
        found |= _predictions(target, app, wants, is_pending=bool(found["pending"]))
    if wants.history:
        from muster.history import history  # noqa: PLC0415  # other commands do not wait for protobuf

        found["history"] = history(app, pod, rest, lambda: target.cluster)
    return found


def _predictions(target: Target, app: Json, wants: _Wants, *, is_pending: bool) -> Json:
    """What `--changes` and `--estimate` add. Without a pending pod nothing is simulated. Raises CommandError."""
    if is_pending:
        from muster.estimate import predictions  # noqa: PLC0415  # other commands do not wait for the core

        return predictions(target.rest, target.cluster, app, with_changes=wants.changes, with_estimate=wants.estimate)
    return {name: None for name in ("changes", "estimate") if getattr(wants, name)}
