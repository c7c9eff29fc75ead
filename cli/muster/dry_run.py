"""`muster apply --dry-run=server`: whether manifests would start now, where, at whose cost, and under which limits.

The manifests are read as in `muster simulate`, and submitted to a copy of the cluster (`muster.cluster_copy`). Nothing
in the cluster is changed, so any other value of `--dry-run` is refused.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType

from muster.cluster_copy import ClusterCopy, read_copy
from muster.config import read_file, shown_name
from muster.errors import PROBLEM, BadUsage
from muster.manifests import Submission, Submitter, read_requests
from muster.options import Target, connected
from muster.output import Format, Output, show, table
from muster.plan import nodes_text, usage_data, usage_text
from muster.printers import count, span
from muster_core.foresight.outlook import Fate, Outlook, Victim
from muster_core.foresight.submission import submitted
from muster_core.foresight.workload import PARTITION, BadInput
from muster_core.model.events import ApplicationAdded, AskAdded
from muster_core.model.ids import ApplicationId
from muster_core.model.specs import AskSpec

Json = dict[str, Any]

EXAMPLES: Final = (
    "muster apply --dry-run=server -f job.yaml",
    "kubectl get job a -o yaml | muster apply --dry-run=server -f -",
    "muster apply --dry-run=server -f gang.yaml --user kim --group research",
)

SERVER: Final = "server"
_REFUSED: Final = (
    "only --dry-run=server is possible, because this command changes nothing; to create the objects, use kubectl apply"
)

#: Longest file, and the real time of the simulation.
_MOST_BYTES: Final = 16 << 20
_REAL_S: Final = 60.0
_SECOND: Final = 1_000_000_000

#: Files of a folder that kubectl reads.
_EXTENSIONS: Final = (".json", ".yaml", ".yml")

#: Preempted pods, and pods that are left out, that the output names.
_SHOWN: Final = 10


def _require_server(value: str) -> str:
    """Raises BadParameter before other arguments are read: after --dry-run alone, -f is taken for its value."""
    if value != SERVER:
        raise typer.BadParameter(_REFUSED)
    return value


@connected
def command(  # noqa: PLR0913 # long: the command line is its options
    target: Target,
    *,
    filename: Annotated[
        list[str] | None,
        typer.Option(
            "--filename", "-f", help="Manifests of pods and controllers, or a folder of them; - = standard input."
        ),
    ] = None,
    dry_run: Annotated[
        str, typer.Option("--dry-run", callback=_require_server, help="Has to be server: what would happen now.")
    ] = "",
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace of objects without one (default: that of the context).")
    ] = "",
    user: Annotated[str, typer.Option(help="User of the pods (default: from their annotation, else nobody).")] = "",
    group: Annotated[list[str] | None, typer.Option(help="Group of --user; repeatable.")] = None,
    output: Format = Output.TABLE,
) -> None:
    """Show whether manifests would start now, on which nodes, which pods would be preempted, and which limits apply.

    Nothing is created; without --dry-run=server, the command refuses. Lists all nodes and pods. Exits with 0 if all
    applications would start within a minute, and with 1 if one would not.
    """
    if not filename:
        raise BadUsage("--filename is missing; write -f FILE")
    submitter = Submitter(target.namespace(namespace, all_namespaces=False) or "default", user, group or ())
    found = show(lambda: _read(target, filename, submitter), _view, output)
    if any(one["result"] != "starts" for one in found["applications"]):
        raise typer.Exit(PROBLEM)


def _read(target: Target, files: Sequence[str], submitter: Submitter) -> Json:
    """Raises CommandError."""
    texts = {shown_name(file): read_file(file, _MOST_BYTES) for name in files for file in _files(name)}
    copied = read_copy(target.rest, target.cluster, "a dry run")
    try:
        submission = read_requests(texts, copied.shared, submitter)
    except BadInput as error:
        raise BadUsage(str(error)) from error
    return answer(copied, submission, files[0], _REAL_S)


def _files(name: str) -> Sequence[str]:
    """The file, or the manifests of a folder without its subfolders, as kubectl reads them. Raises BadUsage."""
    if not Path(name).is_dir():
        return (name,)
    try:
        found = sorted(str(path) for path in Path(name).iterdir() if path.suffix in _EXTENSIONS and path.is_file())
    except OSError as error:
        raise BadUsage(f"{name} cannot be read: {error.strerror}") from error
    if not found:
        raise BadUsage(f"{name} has no file that ends in {', '.join(_EXTENSIONS)}")
    return found


def answer(copied: ClusterCopy, submission: Submission, file: str, real_s: float) -> Json:
    """The results as data. Raises BadUsage if the manifests have no pods for Muster, or cannot be examined."""
    asks = [event.spec for event in submission.events if isinstance(event, AskAdded)]
    if not asks:
        left_out = "; ".join(_left_out(submission.left_out, _SHOWN))
        why = f": {left_out}" if left_out else ""
        raise BadUsage(f"{shown_name(file)}: has no pods that Muster would schedule{why}")
    if claims := next((ask for ask in asks if ask.facts.has_claims), None):
        raise BadUsage(f"{claims.application} has claims of volumes or devices, which are not simulated")
    present = set(copied.pods.values())
    wanted = {ask.key: name for ask in asks if (name := _name(ask)) in present}
    if wanted:
        raise BadUsage(f"pod {min(wanted.values())} exists; a dry run is for new pods")
    deadline = time.monotonic() + real_s
    _, on_copy = copied.scheduled()
    found = on_copy(lambda copy: submitted(copy, PARTITION, submission.events, lambda: time.monotonic() < deadline))
    if found is None:
        raise BadUsage(f"the cluster cannot be simulated in {real_s:g} s")
    names = copied.pods | {str(ask.key): _name(ask) for ask in asks}
    return {
        "applications": [_result(found, name) for name in dict.fromkeys(ask.application for ask in asks)],
        "preempted": [_victim(found, victim, names) for victim in found.victims],
        "podsLeftOut": len(submission.left_out),
        "leftOut": [{"pod": pod, "reason": reason} for pod, reason in submission.left_out.items()],
        "warnings": [*submission.warnings, *_joined(copied, {ask.application for ask in asks})],
    }


def _joined(copied: ClusterCopy, asked: Collection[ApplicationId]) -> Iterator[str]:
    """Applications of the manifests that exist already."""
    for event in copied.objects:
        if isinstance(event, ApplicationAdded) and event.spec.id in asked:
            name = f"{event.spec.namespace}/{event.spec.name or event.spec.id}"
            yield f"application {name} exists; the pods of the manifests would be added to it"


def _left_out(pods: Mapping[str, str], most: int) -> Iterator[str]:
    """`pod a has schedulerName x`, for at most so many pods."""
    yield from (f"pod {pod} {reason}" for pod, reason in islice(pods.items(), most))
    if len(pods) > most:
        yield f"and {count(len(pods) - most, 'more pod')}"


def _name(ask: AskSpec) -> str:
    return f"{ask.namespace}/{ask.tags.get('kubernetes.io/meta/podName', ask.key)}"


_RESULTS: Final = {
    Fate.STARTED: "starts",
    Fate.WAITING: "waits",
    Fate.REJECTED: "rejected",
    Fate.FAILED: "fails",
}


def _result(found: Outlook, name: ApplicationId) -> Json:
    app = found.applications[name]
    return {
        "application": app.name,
        "namespace": app.namespace,
        "user": app.user,
        "queue": app.queue,
        "result": _RESULTS[app.fate],
        "afterSeconds": round(app.waited_ns / _SECOND, 3) if app.fate is Fate.STARTED else None,
        "nodes": dict(app.nodes),
        "reason": app.reason,
        "limits": [usage_data(one) for one in found.limits.get(name, ())],
    }


def _victim(found: Outlook, victim: Victim, pods: Mapping[str, str]) -> Json:
    owner = found.applications.get(victim.application)
    return {
        "pod": pods.get(victim.key, victim.key),
        "application": owner.name if owner else victim.application,
        "node": victim.node,
    }


# --- output ----------------------------------------------------------------------------------------------------------


def _view(found: Json, wide: bool, now_ns: int) -> RenderableType:  # noqa: FBT001  # the signature of a View
    parts: list[RenderableType] = []
    for one in found["applications"]:
        parts += [*_lines(one), ""]
    if found["preempted"]:
        shown = found["preempted"] if wide else found["preempted"][:_SHOWN]
        pods = ", ".join(f"{victim['pod']} on {victim['node']}" for victim in shown)
        rest = len(found["preempted"]) - len(shown)
        more = f" and {rest} more (-o wide)" if rest else ""
        parts += [f"Preempted meanwhile, for these or for other applications: {pods}{more}", ""]
    left_out = {one["pod"]: one["reason"] for one in found["leftOut"]}
    if left_out:
        shown_pods = _left_out(left_out, len(left_out) if wide else _SHOWN)
        parts += [f"Left out: {count(len(left_out), 'pod')}", *(f"  {line}" for line in shown_pods), ""]
    parts += [line for warning in found["warnings"] for line in (f"Warning: {warning}", "")]
    return Group(*parts[:-1])


def result_text(one: Json) -> str:
    """What would become of one application."""
    name = f"{one['namespace']}/{one['application']} in queue {one['queue']}"
    match one["result"]:
        case "starts":
            when = f"within {span(round(one['afterSeconds']))}" if one["afterSeconds"] >= 1 else "now"
            return f"{name}: would start {when} on {nodes_text(one['nodes'])}"
        case "waits":
            return f"{name}: would wait{': ' if one['reason'] else ''}{one['reason']}"
        case "rejected":
            return f"{name}: would be rejected: {one['reason']}"
        case _:
            return f"{name}: would fail: {one['reason']}"


def _lines(one: Json) -> list[RenderableType]:
    lines: list[RenderableType] = [result_text(one)]
    if one["limits"]:
        made = table("LIMIT OF", "THEN", sentences=("THEN",))
        for limit in one["limits"]:
            made.add_row(f"queue {limit['queue']}", usage_text(limit))
        lines.append(made)
    return lines
