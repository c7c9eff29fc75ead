"""Finds what a command names: a queue, a node, an application or a pod. The error of a name that is not found says what
was probably meant: the nearest name, the application of a pod, or the scheduler of a pod that is not Muster's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final
from urllib.parse import quote

from muster import from_pods, leases, pending, printers
from muster.checks import DEFAULT_NAMES
from muster.clients import installations
from muster.clients.rest import Rest
from muster.errors import BadUsage, NotThere, Unreachable
from muster.options import Target
from muster.text import program
from muster_si.near_names import nearest

Json = dict[str, Any]


def queue(rest: Rest, path: str) -> Json:
    """A queue with its subtree. Raises NotThere and BadUsage, with the nearest name."""
    try:
        return rest.queue(path)
    except (NotThere, BadUsage) as error:
        paths = [item["queuename"] for item, _ in printers.subtree(rest.queue())]
        by_name = {one.rpartition(".")[2]: one for one in reversed(paths)}
        wanted = path.strip(".").lower()
        found = nearest(wanted, paths) or by_name.get(nearest(wanted.rpartition(".")[2], by_name), "")
        advice = f"did you mean {found}?" if found else f"{program()} queues lists all"
        raise type(error)(f"no queue {path} found; {advice}") from error


def node(rest: Rest, name: str) -> Json:
    """One node. Raises NotThere with the nearest name."""
    try:
        return rest.node(name)
    except NotThere as error:
        found = nearest(name, (item["nodeID"] for item in rest.nodes()))
        raise NotThere(f"{error}; did you mean {found}?" if found else f"{error}") from error


def application(rest: Rest, name: str, namespace: str) -> Json:
    """The application `[NAMESPACE/]ID`; an ID may contain a slash. Empty namespace = all namespaces.

    Raises NotThere, and BadUsage if applications of several namespaces have the ID.
    """
    try:
        return rest.application(name, namespace)
    except NotThere as error:
        prefix, _, plain = name.partition("/")
        if plain:
            try:
                return rest.application(plain, prefix)
            except NotThere:
                raise error from None
        raise NotThere(f"{error}{_hint(rest, name, namespace)}") from error


def _hint(rest: Rest, name: str, namespace: str) -> str:
    """Where else an application of that ID is, or the nearest ID."""
    apps = (app["applicationID"] for app in rest.applications() if pending.in_namespace(app, namespace))
    closest = f"; did you mean {found}?" if (found := nearest(name, apps)) else ""
    if not namespace:
        return closest
    try:
        elsewhere = rest.application(name).get("namespace") or ""
    except NotThere:
        return f" in namespace {namespace} (-n or -A selects others){closest}"
    except BadUsage:
        elsewhere = ""
    found = f"namespace {elsewhere}: use -n {elsewhere}" if elsewhere else "other namespaces: use -n or -A"
    return f" in namespace {namespace}; it exists in {found}"


def application_of_pod(target: Target, name: str, namespace: str) -> str:
    """The application of the pod of that name, or why the core has none; empty if there is no such pod.

    Also for an application whose pods are only in the cluster.
    """
    prefix, _, pod = name.rpartition("/")
    space = prefix or namespace
    for app, full in pending.find_pods(target.rest.applications(), pod, space):
        return f"no application {name} found; pod {full} belongs to application {app['applicationID']}"
    in_cluster = _cluster_pods(target, name, namespace)
    if _own(target, in_cluster):
        return f"the core has no application {name}; {program()} explain {name} reads its pods from the cluster"
    return _foreign_pods(in_cluster, _served(target))


@dataclass(frozen=True, slots=True)
class Subject:
    """What is explained: an application or, with `pod`, one pod of it; or `withheld` pods that the core does not have.

    `core`: what the core has instead of these pods.
    """

    app: Json
    pod: str = ""
    withheld: tuple[Json, ...] = ()
    core: str = ""


def subject(target: Target, written: str, namespace: str) -> Subject:
    """The application or pod of that name in the core, else the pods of Muster in the cluster.

    Raises NotThere, and BadUsage if the name is not unique.
    """
    rest = target.rest
    kind, _, name = written.partition("/")
    if kind not in ("app", "pod"):
        kind, name = "", written
    app: Json | None = None
    if kind != "pod":
        with suppress(NotThere):
            app = application(rest, name, namespace)
    if app is not None:
        if not (app["allocations"] or app["requests"] or app["rejectedMessage"]):  # its pods may be of a later run
            pods = _cluster_pods(target, f"app/{app['applicationID']}", app.get("namespace") or namespace)
            if waiting := [pod for pod in _own(target, pods) if from_pods.is_waiting(pod)]:
                return _withheld(waiting, app)
        return Subject(app)
    prefix, _, pod = name.rpartition("/")
    space = prefix or namespace
    found = pending.find_pods(rest.applications(), pod, space) if kind != "app" else []
    if len(found) > 1:
        raise BadUsage(f"several pods have the name {name}: {', '.join(full for _, full in found)}; name one of them")
    if found:
        return Subject(*found[0])
    in_cluster = _cluster_pods(target, written, namespace)
    if own := _own(target, in_cluster):
        return _in_cluster(rest, own)
    if kind == "app":
        application(rest, name, namespace)  # raises
    where = f" in namespace {space} (-n or -A selects others)" if space and not prefix else ""
    closest = nearest(name, _names(rest, space)) if kind != "pod" else ""
    advice = f"did you mean {closest}?" if closest else f"{program()} doctor lists pods that Muster does not schedule"
    outside = _foreign_pods(in_cluster, _served(target))
    raise NotThere(outside or f"no application or pod {name} found{where}; {advice}")


def _in_cluster(rest: Rest, pods: list[Json]) -> Subject:
    """Pods that the core does not have. Members that wait for the placeholders of their gang are explained by these."""
    pod, metadata, app = pods[0], pods[0]["metadata"], None
    with suppress(NotThere):
        app = rest.application(from_pods.application_of(pod), metadata["namespace"])
    if app is not None and (pending.is_withheld_member(app, pod) or not from_pods.is_waiting(pod)):
        return Subject(app, f"{metadata['namespace']}/{metadata['name']}")
    return _withheld(pods, app)


def _withheld(pods: list[Json], app: Json | None) -> Subject:
    has = f"; its application {app['applicationID']} is {app['applicationState']}" if app else ""
    return Subject({}, withheld=tuple(pods), core=f"has not received the pods{has}")


def _names(rest: Rest, namespace: str) -> Iterator[str]:
    """The applications and pods of a namespace; empty = all."""
    for app in rest.applications():
        if pending.in_namespace(app, namespace):
            yield app["applicationID"]
            yield from map(pending.name, (*app["allocations"], *app["requests"]))


def _cluster_pods(target: Target, written: str, namespace: str) -> list[Json]:
    """The pods of the subject in the cluster; empty namespace = all. Raises BadUsage if it is ambiguous."""
    try:
        cluster = target.cluster
    except (BadUsage, Unreachable):
        return []  # --server needs no kubeconfig
    try:
        return from_pods.pods_of(cluster, written, namespace)
    except (NotThere, Unreachable):
        return []


#: Pods of an application that are read for its warnings.
_MOST_READ: Final = 10


def warnings_of(target: Target, app: Json, pod: str) -> list[str]:
    """What has no effect on pods of the application, or on one of them; empty without a cluster."""
    items = [item for item in (*app["requests"], *app["allocations"]) if pending.kind(item) == "pod"]
    names = dict.fromkeys([*filter(None, (pod,)), *map(pending.full_name, items)])
    pods: list[Json] = []
    with suppress(Unreachable, BadUsage):
        for name in islice(names, _MOST_READ):
            space, _, short = name.partition("/")
            with suppress(NotThere):
                pods.append(target.cluster.get(f"/api/v1/namespaces/{quote(space)}/pods/{quote(short)}"))
    if not pods:
        return []
    from muster.ignored_names import warnings_of as of_pods  # noqa: PLC0415  # loads the operator

    return of_pods(app, pods, frozenset(_served(target)), pod)


def _served(target: Target) -> list[str]:
    """The scheduler names of all Musters in the cluster."""
    with suppress(NotThere, Unreachable, BadUsage):
        found = {
            str(one["metadata"]["name"]).removeprefix(leases.PREFIX)
            for one in installations.name_leases(target.cluster)
        }
        return sorted(found or DEFAULT_NAMES)
    return sorted(DEFAULT_NAMES)


def _own(target: Target, pods: list[Json]) -> list[Json]:
    served = _served(target) if pods else []
    return [pod for pod in pods if from_pods.scheduler(pod) in served]


def _foreign_pods(pods: list[Json], served: list[str]) -> str:
    """Which scheduler is responsible for the first pod that is not Muster's; empty if there is none."""
    pod = next((one for one in pods if from_pods.scheduler(one) not in served), None)
    if pod is None:
        return ""
    metadata, scheduler = pod["metadata"], from_pods.scheduler(pod)
    closest = nearest(scheduler, served)
    space, name = metadata["namespace"], metadata["name"]
    advice = f"did you mean {closest}? C" if closest else "for Muster, c"
    return (
        f"pod {space}/{name} names scheduler {scheduler}, not Muster ({' or '.join(served)}); {advice}reate it again "
        f"with schedulerName {closest or served[0]}, or see: kubectl -n {space} describe pod {name}"
    )
