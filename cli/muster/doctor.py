"""`muster doctor`: looks for what keeps Muster, or pods that are meant for it, from working."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cached_property, partial
from typing import Any, Final

import typer

from muster import status
from muster.asking import asks
from muster.checks import core, leases, other_schedulers, rights, webhooks, workloads
from muster.checks.finding import Finding, Level, unknown
from muster.clients import forwarding
from muster.clients.kubernetes import Cluster
from muster.clients.target import Target
from muster.errors import PROBLEM, NotThere, Unreachable
from muster.output import Format, Output, show
from muster.views import doctor as page

EXAMPLES = ("muster doctor", "muster doctor -n muster --context prod", "muster doctor -o json")
Json = dict[str, Any]

HOME: Final = "muster"
ACCOUNT: Final = "muster-operator"
_CONFIGURATIONS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


@asks
def command(target: Target, *, output: Format = Output.TABLE) -> None:
    """Diagnose the installation and misconfigured pods.

    Checks the core, the leader, scheduler names and queues of pods, the webhook, the operator's permissions, and other
    schedulers. Exits with 1 if there is a problem, and with 3 if the cluster is unreachable. A check without
    permission to read is reported as skipped.
    """
    now = target.cluster.clock()
    found = show(lambda: [asdict(finding) for finding in findings(Patient(target, now))], page.view, output)
    if any(finding["level"] == Level.PROBLEM for finding in found):
        raise typer.Exit(PROBLEM)


@dataclass(frozen=True)
class Patient:
    """What the checks look at, read once. `now`: by the clock of the API server. Everything raises Unreachable."""

    target: Target
    now: datetime

    @property
    def cluster(self) -> Cluster:
        """Where it lives."""
        return self.target.cluster

    @cached_property
    def pods(self) -> list[Json]:
        """Muster's own."""
        return forwarding.pods(self.cluster, self.target.namespace)

    @cached_property
    def leases(self) -> list[Json]:
        """Of all operators everywhere."""
        return list(self.cluster.list("/apis/coordination.k8s.io/v1/leases", labelSelector=leases.SELECTOR))

    @cached_property
    def home(self) -> str:
        """Muster's namespace: the one that was named, else where its pods are, else its Lease."""
        places = [item["metadata"]["namespace"] for item in (*self.pods, *self.leases)]
        return self.target.namespace or (HOME if HOME in places else next(iter(places), HOME))

    @cached_property
    def names(self) -> frozenset[str]:
        """The scheduler names that it serves."""
        return leases.served(self.leases, self.home)

    @cached_property
    def webhooks(self) -> list[webhooks.WebhookEndpoint]:
        """Of the webhooks that are registered."""
        prefix = "/apis/admissionregistration.k8s.io/v1/"
        return webhooks.called(item for kind in _CONFIGURATIONS for item in self.cluster.list(prefix + kind))


def findings(patient: Patient) -> Iterator[Finding]:
    """Of all checks; one that may not look says so."""
    for check, look in _CHECKS:
        try:
            yield from list(look(patient))
        except Unreachable as error:
            yield unknown(check, error)


def _core(patient: Patient) -> Iterator[Finding]:
    try:
        yield from core.judged(status.read(patient.target.rest))
    except Unreachable as error:
        yield core.unreachable(str(error))


def _leader(patient: Patient) -> Iterator[Finding]:
    return leases.judged(patient.leases, patient.home, patient.now)


def _workloads(patient: Patient) -> Iterator[Finding]:
    try:
        apps = patient.target.rest.applications("rejected")
    except Unreachable:
        apps = []  # the check of the core says so
    rejected = {(app.get("namespace") or "", app["applicationID"]): app["rejectedMessage"] for app in apps}
    pods = patient.cluster.list("/api/v1/pods", fieldSelector="status.phase!=Succeeded")
    return workloads.judged(pods, patient.names, rejected)


def _placeholders(patient: Patient) -> Iterator[Finding]:
    from muster import placeholders  # noqa: PLC0415  # signatures are the operator's; --help need not load it

    pods = patient.cluster.list("/api/v1/pods", fieldSelector=placeholders.LIVING)
    keys = partial(placeholders.signing_keys, patient.cluster, patient.home)
    return placeholders.judged(placeholders.survey(pods, patient.names, keys))


def _webhooks(patient: Patient) -> Iterator[Finding]:
    services = {webhook.service for webhook in patient.webhooks if webhook.service is not None}
    endpoints = {service: _slices(patient.cluster, *service) for service in services}
    return webhooks.judged(patient.webhooks, endpoints, patient.now)


def _slices(cluster: Cluster, namespace: str, service: str) -> Iterable[Json] | None:
    try:
        cluster.get(f"/api/v1/namespaces/{namespace}/services/{service}")
    except NotThere:
        return None
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    return list(cluster.list(path, labelSelector=f"kubernetes.io/service-name={service}"))


def _rights(patient: Patient) -> Iterator[Finding]:
    accounts = (str((pod.get("spec") or {}).get("serviceAccountName") or "") for pod in patient.pods)
    account = next(filter(None, accounts), ACCOUNT)
    ours = (lease["metadata"]["name"] for lease in patient.leases if lease["metadata"]["namespace"] == patient.home)
    asked = rights.wanted(patient.names, next(ours, rights.LEASE), has_webhook=bool(patient.webhooks))
    missing = [right for right in asked if not _is_allowed(patient, right, account)]
    return rights.judged(f"{patient.home}/{account}", missing, len(asked))


def _is_allowed(patient: Patient, right: rights.Right, account: str) -> bool:
    answer = patient.cluster.create(rights.REVIEWS, rights.review(right, patient.home, account))
    return bool((answer.get("status") or {}).get("allowed"))


def _other_schedulers(patient: Patient) -> Iterator[Finding]:
    deployments = patient.cluster.list(
        "/apis/apps/v1/deployments", fieldSelector=f"metadata.name={other_schedulers.DEPLOYMENT}"
    )
    pods = patient.cluster.list("/api/v1/pods", labelSelector=other_schedulers.POD_SELECTOR)
    return other_schedulers.judged(deployments, pods, patient.names)


_CHECKS: Final[tuple[tuple[str, Callable[[Patient], Iterator[Finding]]], ...]] = (
    (core.CHECK, _core),
    (leases.CHECK, _leader),
    (workloads.SCHEDULER, _workloads),
    ("placeholders", _placeholders),
    (webhooks.CHECK, _webhooks),
    (rights.CHECK, _rights),
    (other_schedulers.CHECK, _other_schedulers),
)
