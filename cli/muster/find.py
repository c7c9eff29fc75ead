"""Finds what a command names: a queue, a node, an application or a pod. The error of a name that is not found says what
was probably meant: the nearest name, the application of a pod, or the scheduler of a pod that is not Muster's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from muster import leases, pending, printers
from muster.checks import DEFAULT_NAMES, DEFAULT_SCHEDULER, application_of
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
    """The application of the pod of that name, or why it has none; empty if there is no such pod."""
    prefix, _, pod = name.rpartition("/")
    space = prefix or namespace
    for app, full in pending.find_pods(target.rest.applications(), pod, space):
        return f"no application {name} found; pod {full} belongs to application {app['applicationID']}"
    return next(filter(None, (_foreign_pod(target, one) for one in _cluster_pods(target, pod, space))), "")


def subject(target: Target, written: str, namespace: str) -> tuple[Json, str]:
    """The application, and the name of the pod if the subject is one."""
    rest = target.rest
    kind, _, name = written.partition("/")
    if kind == "app":
        return application(rest, name, namespace), ""
    if kind != "pod":
        try:
            return application(rest, written, namespace), ""
        except NotThere:
            name = written
    prefix, _, pod = name.rpartition("/")
    space = prefix or namespace
    found = pending.find_pods(rest.applications(), pod, space)
    if not found:
        in_cluster = _cluster_pods(target, pod, space)
        found = list(_withheld(rest, in_cluster))
        if not found:
            where = f" in namespace {space} (-n or -A selects others)" if space and not prefix else ""
            outside = next(filter(None, (_foreign_pod(target, one) for one in in_cluster)), "")
            closest = nearest(name, _names(rest, space)) if kind != "pod" else ""
            advice = (
                f"did you mean {closest}?"
                if closest
                else f"{program()} doctor lists pods that Muster does not schedule"
            )
            raise NotThere(outside or f"no application or pod {name} found{where}; {advice}")
    if len(found) > 1:
        raise BadUsage(f"several pods have the name {name}: {', '.join(full for _, full in found)}; name one of them")
    return found[0]


def _names(rest: Rest, namespace: str) -> Iterator[str]:
    """The applications and pods of a namespace; empty = all."""
    for app in rest.applications():
        if pending.in_namespace(app, namespace):
            yield app["applicationID"]
            yield from map(pending.name, (*app["allocations"], *app["requests"]))


def _cluster_pods(target: Target, name: str, namespace: str) -> list[Json]:
    """The pods of that name in a namespace, as the API server has them; empty namespace = all."""
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods" if namespace else "/api/v1/pods"
    try:
        return list(target.cluster.list(path, fieldSelector=f"metadata.name={name}"))
    except (NotThere, Unreachable, BadUsage):
        return []  # with --server, the cluster may be unreachable


def _withheld(rest: Rest, pods: Iterable[Json]) -> Iterator[tuple[Json, str]]:
    """Pods of applications that the core has: the operator withholds members of incomplete gangs."""
    for pod in pods:
        metadata = pod["metadata"]
        with suppress(NotThere):
            yield (
                rest.application(application_of(pod), metadata["namespace"]),
                f"{metadata['namespace']}/{metadata['name']}",
            )


def _foreign_pod(target: Target, pod: Json) -> str:
    """Which scheduler is responsible for a pod that is not Muster's; empty if Muster is."""
    metadata, scheduler = pod["metadata"], str(pod["spec"].get("schedulerName") or DEFAULT_SCHEDULER)
    try:
        names = {
            lease["metadata"]["name"].removeprefix(leases.PREFIX) for lease in installations.name_leases(target.cluster)
        }
    except (NotThere, Unreachable):
        names = set()
    if scheduler in (served := sorted(names or DEFAULT_NAMES)):
        return ""
    closest = nearest(scheduler, served)
    space, name = metadata["namespace"], metadata["name"]
    advice = f"did you mean {closest}? C" if closest else "for Muster, c"
    return (
        f"pod {space}/{name} names scheduler {scheduler}, not Muster ({' or '.join(served)}); {advice}reate it again "
        f"with schedulerName {closest or served[0]}, or see: kubectl -n {space} describe pod {name}"
    )
