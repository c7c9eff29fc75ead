"""`muster uninstall`: deletes what Muster created while it ran; the chart runs it after its Deployments are deleted.

Placeholders keep their resources as long as their owners exist. A running operator registers the webhook again, so its
pods must have ended and its Leases must no longer be renewed. The signing keys identify Muster's placeholders, so they
are deleted last, and only when no placeholder is left; the command can be repeated.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

import typer

from muster import leases, placeholders
from muster.clients.kubernetes import Cluster, Json, connect
from muster.confirmation import DryRun, Yes, is_confirmed
from muster.errors import PROBLEM, NotThere
from muster.options import Context, Kubeconfig, Steps, exit_on_error
from muster.text import kubectl_name, print_line
from muster_operator.kube.leases import NO_HOLDER, LeaseObservation, read
from muster_operator.main import LEASE_NAME
from muster_operator.model import signing
from muster_operator.runtime.conflicts import NAMESPACE, PREFIX
from muster_operator.webhook.certificates import SECRET
from muster_operator.webhook.registration import name_of

EXAMPLES = (
    "muster uninstall --namespace muster --dry-run",
    "muster uninstall --namespace muster --only-registrations --yes",
)

RUNNING: Final = "app=muster,component=scheduler"
"""Labels of pods with an operator, in the chart and in deploy/."""
PAUSE_S: Final = 1.0
_REGISTRATIONS: Final = "/apis/admissionregistration.k8s.io/v1"


def command(  # noqa: PLR0913 # long: the command line is its options
    *,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", envvar="NAMESPACE", help="Namespace of Muster.")
    ] = "muster",
    lease_name: Annotated[
        str, typer.Option(envvar="MUSTER_LEASE_NAME", help="Name of the leader's Lease.")
    ] = LEASE_NAME,
    scheduler_names: Annotated[
        str,
        typer.Option(help="Value of service.schedulerNames; only placeholders with these scheduler names are deleted."),
    ] = "muster,yunikorn",
    only_registrations: Annotated[
        bool,
        typer.Option(
            "--only-registrations",
            help="Delete only the webhook registration, and keep Muster running without the webhook.",
        ),
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    seconds: Annotated[int, typer.Option(min=0, help="Maximum time to wait until Muster has ended, in seconds.")] = 120,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Delete placeholders, the webhook registration, Secrets and Leases after Muster was uninstalled."""
    names = tuple(name for part in scheduler_names.split(",") if (name := part.strip()))
    installation = Installation(namespace, lease_name, names)

    def run() -> None:
        with connect(kubeconfig, context) as cluster:
            is_asked = dry_run or not yes
            objects = _objects(cluster, installation, only_registrations=only_registrations) if is_asked else []
            if not is_confirmed(cluster, objects, yes=yes, dry_run=dry_run):
                if not objects:
                    print_line(f"nothing of Muster was found; check --namespace {namespace}", err=True)
                elif not only_registrations and (running := _running(cluster, installation, {})):
                    print_line(f"it would wait until these end, and refuse otherwise: {running}", err=True)
                return
            if only_registrations:
                delete_registrations(cluster, installation)
            else:
                delete_leftovers(cluster, installation, seconds)

    exit_on_error(run)


@dataclass(frozen=True, slots=True)
class Installation:
    """One installation: its namespace, the leader's Lease there, and the scheduler names that it serves.

    Two installations of a cluster never serve the same scheduler name, so the names identify its placeholders.
    """

    namespace: str
    lease_name: str
    scheduler_names: tuple[str, ...]


def delete_registrations(cluster: Cluster, installation: Installation) -> None:
    """Delete the webhook registration, and print each object. Raises Exit(1) if something could not be deleted."""
    steps = Steps()
    for path in _registrations(installation):
        steps.run(partial(_delete, cluster, path))
    steps.end()


def delete_leftovers(cluster: Cluster, installation: Installation, seconds: float) -> None:
    """Delete what is left of the installation, and print each object.

    Raises Exit(1) if Muster still runs or something could not be deleted, Unreachable if its pods or Leases cannot be
    read.
    """
    _wait_until_it_has_ended(cluster, installation, seconds)
    steps = Steps()
    keys = _secret(installation, signing.SECRET)
    all_deleted = steps.run(lambda: _delete_placeholders(cluster, installation, steps))
    for path in (*_registrations(installation), _secret(installation, SECRET), _leader_lease(installation)):
        steps.run(partial(_delete, cluster, path))
    for name in installation.scheduler_names:
        steps.run(partial(_delete_name_lease, cluster, installation, name))
    if all_deleted:
        steps.run(lambda: _delete(cluster, keys))
    else:
        print_line(f"kept, placeholders may be left: {kubectl_name(keys)}")
    steps.end()


def _registrations(installation: Installation) -> list[str]:
    name = name_of(installation.namespace)
    return [f"{_REGISTRATIONS}/{kind}webhookconfigurations/{name}" for kind in ("mutating", "validating")]


def _secret(installation: Installation, name: str) -> str:
    return f"/api/v1/namespaces/{installation.namespace}/secrets/{name}"


def _leader_lease(installation: Installation) -> str:
    return leases.path(installation.namespace, installation.lease_name)


def _name_lease(name: str) -> str:
    return leases.path(NAMESPACE, f"{PREFIX}{name}")


def _objects(cluster: Cluster, installation: Installation, *, only_registrations: bool) -> list[str]:
    """The objects that exist and would be deleted, for the question. Raises Unreachable."""
    paths = [path for path in _registrations(installation) if _found(cluster, path)]
    if only_registrations:
        return list(map(kubectl_name, paths))
    pods = (f"pod {placeholders.full_name(pod)}" for pod in _placeholders(cluster, installation).signed)
    own = (_secret(installation, SECRET), _leader_lease(installation), _secret(installation, signing.SECRET))
    names = (_name_lease(name) for name in installation.scheduler_names)
    held = (path for path in names if (lease := _found(cluster, path)) and _is_own(installation, lease))
    return [*pods, *map(kubectl_name, (*paths, *(path for path in own if _found(cluster, path)), *held))]


def _found(cluster: Cluster, path: str) -> Json | None:
    try:
        return cluster.get(path)
    except NotThere:
        return None


def _is_own(installation: Installation, lease: Json) -> bool:
    return leases.holder(lease) in {"", f"{installation.namespace}/{installation.lease_name}"}


def _wait_until_it_has_ended(cluster: Cluster, installation: Installation, seconds: float) -> None:
    """Wait until no pod runs and no Lease is renewed. A Lease that was not released has to expire.

    Clocks are not compared: a Lease has expired when it has not changed for its duration. Raises Exit(1).
    """
    deadline = time.monotonic() + seconds
    observed: dict[str, LeaseObservation] = {}
    last = ""
    while running := _running(cluster, installation, observed):
        if time.monotonic() >= deadline:
            print_line(f"muster: {running} still running: delete the Deployments of Muster first", err=True)
            raise typer.Exit(PROBLEM)
        line = f"waiting until these end: {running}"
        if line != last:
            print_line(last := line)
        time.sleep(PAUSE_S)


def _running(cluster: Cluster, installation: Installation, observed: dict[str, LeaseObservation]) -> str:
    """The pods and Lease holders for which the command waits; empty = Muster has ended."""
    return ", ".join([*_running_pods(cluster, installation), *_renewed_leases(cluster, installation, observed)])


def _running_pods(cluster: Cluster, installation: Installation) -> list[str]:
    pods = cluster.list(f"/api/v1/namespaces/{installation.namespace}/pods", labelSelector=RUNNING)
    return [f"pod {pod['metadata']['name']}" for pod in pods]


def _renewed_leases(
    cluster: Cluster, installation: Installation, observed: dict[str, LeaseObservation]
) -> Iterator[str]:
    leader = _leader_lease(installation)
    for path in (leader, *map(_name_lease, installation.scheduler_names)):
        lease, now_s = _found(cluster, path), time.monotonic()
        if lease is None or (path != leader and not _is_own(installation, lease)):
            continue
        observed[path] = observed.get(path, LeaseObservation()).updated(read(lease), now_s)
        if observed[path].free_in_s(NO_HOLDER, now_s) > 0:
            yield f"the holder {leases.holder(lease)} of the Lease {lease['metadata']['name']}"


def _delete(cluster: Cluster, path: str) -> bool:
    """Delete the object as it is now. Raises Unreachable."""
    try:
        uid = cluster.get(path)["metadata"]["uid"]
    except NotThere:
        uid = ""
    print_line(f"{'deleted' if uid and cluster.delete(path, uid) else 'not found'}: {kubectl_name(path)}")
    return True


def _delete_name_lease(cluster: Cluster, installation: Installation, name: str) -> bool:
    """Delete the Lease of a scheduler name, unless another installation holds it."""
    path = _name_lease(name)
    found = _found(cluster, path)
    if found is None:
        print_line(f"not found: {kubectl_name(path)}")
        return True
    if not _is_own(installation, found):
        print_line(f"kept, held by {leases.holder(found)}: {kubectl_name(path)}")
        return True
    meta = found["metadata"]
    is_deleted = cluster.delete(path, meta["uid"], meta["resourceVersion"])
    print_line(f"{'deleted' if is_deleted else 'not found'}: {kubectl_name(path)}")
    return True


def _delete_placeholders(cluster: Cluster, installation: Installation, steps: Steps) -> bool:
    """Delete the placeholders that Muster signed; False = one may be left. Raises Unreachable."""
    found = _placeholders(cluster, installation)
    before = steps.failed
    deleted = sum(steps.run(partial(placeholders.delete_pod, cluster, pod)) for pod in found.signed)
    print_line(f"deleted: {deleted} placeholders")
    if left := len(found.unsigned) + len(found.unverified):
        print_line(f"kept, not signed with a key of Muster: {left} pods with the placeholder annotation")
    if found.error and not isinstance(found.error, NotThere):
        raise found.error
    return steps.failed == before


def _placeholders(cluster: Cluster, installation: Installation) -> placeholders.Survey:
    """The placeholders with the scheduler names of the installation. Raises Unreachable."""
    return placeholders.survey(
        (
            pod
            for name in installation.scheduler_names
            for pod in cluster.list("/api/v1/pods", fieldSelector=f"spec.schedulerName={name}")
        ),
        frozenset(installation.scheduler_names),
        lambda: placeholders.signing_keys(cluster, installation.namespace),
    )
