"""`muster doctor`: finds problems of the installation and of pods for Muster. Reads the cluster for `checks`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cached_property, partial
from typing import Any, Final

import typer

from muster import checks, from_pods, leases, pending, permissions, printers
from muster.checks import Finding, Level
from muster.clients import installations, port_forward
from muster.clients.kubernetes import Cluster
from muster.errors import PROBLEM, NotThere, Unreachable
from muster.get import read_status
from muster.options import Target, connected
from muster.output import Format, Output, show

EXAMPLES = ("muster doctor", "muster doctor --muster-namespace muster --context prod", "muster doctor -o json")
Json = dict[str, Any]

DEFAULT_ACCOUNT: Final = "muster-operator"
_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1/"
_CONFIGURATIONS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


@connected
def command(target: Target, *, output: Format = Output.TABLE) -> None:
    """Diagnose the installation and misconfigured pods.

    Checks the core, the leader, the configuration, scheduler names and queues of pods, pods that the core has not
    received, misspelt names, the webhook, user identity, the operator's permissions, and other schedulers. Exits with 1
    if there is a problem, and with 3 if the cluster is unreachable.
    A check without read permission is reported as unknown.
    """
    now = target.cluster.server_time()
    found = show(
        lambda: [asdict(finding) for finding in findings(DiagnosedInstallation(target, now))], printers.findings, output
    )
    if any(finding["level"] == Level.PROBLEM for finding in found):
        raise typer.Exit(PROBLEM)


@dataclass(frozen=True)
class DiagnosedInstallation:
    """What the checks need, read once. `now`: the time of the API server. Every attribute raises Unreachable."""

    target: Target
    now: datetime

    @property
    def cluster(self) -> Cluster:
        """The cluster of Muster."""
        return self.target.cluster

    @cached_property
    def pods(self) -> list[Json]:
        """Running pods of Muster."""
        return port_forward.pods(self.cluster, self.home)

    @cached_property
    def name_leases(self) -> list[Json]:
        """Leases of scheduler names."""
        return installations.name_leases(self.cluster)

    @cached_property
    def home(self) -> str:
        """Muster's namespace: of the option, else from the Leases of scheduler names. Raises BadUsage."""
        return self.target.muster_namespace or installations.namespace(self.cluster, "--muster-namespace")

    @cached_property
    def leases(self) -> list[Json]:
        """Leases of operators in Muster's namespace."""
        return list(self.cluster.list(leases.path(self.home), labelSelector=checks.LEASE_SELECTOR))

    @cached_property
    def names(self) -> frozenset[str]:
        """The scheduler names that Muster serves."""
        return checks.served_names(self.leases)

    @cached_property
    def other_names(self) -> frozenset[str]:
        """The scheduler names of all Musters in the cluster, by their Leases."""
        return frozenset(str(lease["metadata"]["name"]).removeprefix(leases.PREFIX) for lease in self.name_leases)

    @cached_property
    def config_maps(self) -> Sequence[Json]:
        """The ConfigMaps in use."""
        from muster import config  # noqa: PLC0415  # loads core and operator; --help does not need them

        return config.in_use(self.cluster, self.home)

    @cached_property
    def webhooks(self) -> list[checks.WebhookEndpoint]:
        """Endpoints of the registered webhooks of all installations."""
        found = (item for kind in _CONFIGURATIONS for item in self.cluster.list(_ADMISSION + kind))
        return checks.webhook_endpoints(found, permissions.admission_name(self.home))

    @cached_property
    def endpoints(self) -> dict[tuple[str, str], list[Json] | None]:
        """The EndpointSlices of the webhooks' Services, None = the Service does not exist."""
        services = {webhook.service for webhook in self.webhooks if webhook.service is not None}
        return {service: _slices(self.cluster, *service) for service in services}

    @property
    def has_webhook(self) -> bool:
        """Whether the webhook is enabled. A registration without its Service is left over from an earlier revision."""
        own = (webhook for webhook in self.webhooks if webhook.is_own)
        return any(webhook.service is None or self.endpoints[webhook.service] is not None for webhook in own)


def findings(installation: DiagnosedInstallation) -> Iterator[Finding]:
    """The findings of all checks. A check without permission to read is `unknown`."""
    for check, run in _CHECKS:
        try:
            yield from list(run(installation))
        except Unreachable as error:
            yield checks.unknown(check, error)


def _core(installation: DiagnosedInstallation) -> Iterator[Finding]:
    try:
        yield from checks.check_core(read_status(installation.target.rest))
    except Unreachable as error:
        yield from checks.core_unreachable(error)


def _leader(installation: DiagnosedInstallation) -> Iterator[Finding]:
    own, home, now = installation.leases, installation.home, installation.now
    try:
        yield from checks.check_leases(own, installation.name_leases, home, now)
    except Unreachable as error:
        yield from checks.check_leases(own, (), home, now)
        yield checks.unknown(checks.LEADER, error)


def _scheduler_names(installation: DiagnosedInstallation) -> Iterator[Finding]:
    pods = installation.cluster.list("/api/v1/pods", fieldSelector="status.phase!=Succeeded")
    try:
        others = installation.other_names
    except Unreachable:
        others = frozenset()
    return checks.check_scheduler_names(pods, installation.names, others)


def _configuration(installation: DiagnosedInstallation) -> Iterator[Finding]:
    from muster import config  # noqa: PLC0415  # loads core and operator; --help does not need them

    found = config.examined_entries(installation.config_maps)
    return checks.check_configuration(found.errors, found.warnings, exists=bool(installation.config_maps))


def _queues(installation: DiagnosedInstallation) -> Iterator[Finding]:
    apps = installation.target.rest.applications("rejected")
    rejected = {(app.get("namespace") or "", app["applicationID"]): app["rejectedMessage"] for app in apps}
    pods = installation.cluster.list("/api/v1/pods", fieldSelector="status.phase!=Succeeded")
    return checks.check_queues(pods, installation.names, rejected, installation.target.rest.applications())


#: Pods whose events are read, because they have no condition.
_MOST_READ: Final = 10


def _withheld(installation: DiagnosedInstallation) -> Iterator[Finding]:
    apps = installation.target.rest.applications()
    received = {pending.full_name(item) for app in apps for item in (*app["allocations"], *app["requests"])}
    by_id = {(app.get("namespace"), app["applicationID"]): app for app in apps}
    reasons: dict[str, str] = {}
    read = 0
    for pod in installation.cluster.list("/api/v1/pods", fieldSelector="status.phase=Pending"):
        space, name = pod["metadata"]["namespace"], f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        if from_pods.scheduler(pod) not in installation.names or not from_pods.is_waiting(pod) or name in received:
            continue
        app = by_id.get((space, from_pods.application_of(pod)))
        if app is None or not pending.is_withheld_member(app, pod):
            reasons[name] = from_pods.condition(pod)
            if not reasons[name] and read < _MOST_READ:
                read += 1
                reasons[name] = from_pods.last_event(installation.cluster, pod)
    return checks.check_withheld(reasons)


def _placeholders(installation: DiagnosedInstallation) -> Iterator[Finding]:
    from muster import placeholders  # noqa: PLC0415  # loads the operator; --help does not need it

    pods = installation.cluster.list("/api/v1/pods", fieldSelector=placeholders.LIVING)
    keys = partial(placeholders.signing_keys, installation.cluster, installation.home)
    return placeholders.check_placeholders(placeholders.survey(pods, installation.names, keys))


def _names(installation: DiagnosedInstallation) -> Iterator[Finding]:
    from muster import config, ignored_names  # noqa: PLC0415  # load core and operator; --help does not need them

    pods = installation.cluster.list("/api/v1/pods", fieldSelector="status.phase!=Succeeded")
    namespaces = installation.cluster.list("/api/v1/namespaces")
    settings = config.operator_settings(installation.config_maps)
    try:
        apps = installation.target.rest.applications()
    except Unreachable:
        apps = []
    without_gang = {
        (app.get("namespace") or "", app["applicationID"])
        for app in apps
        if not (app.get("gangSchedulingStyle") or app.get("gangProblem"))
    }
    queues = "".join(str((one.get("data") or {}).get("queues.yaml", "")) for one in installation.config_maps)
    return ignored_names.check_names(pods, namespaces, installation.names, settings, without_gang, queues)


def _webhooks(installation: DiagnosedInstallation) -> Iterator[Finding]:
    return checks.check_webhooks(installation.webhooks, installation.endpoints, installation.now)


def _identity(installation: DiagnosedInstallation) -> Iterator[Finding]:
    policy = permissions.admission_name(installation.home)
    is_enforced = not installation.has_webhook and _is_enforced(installation.cluster, policy)
    return checks.check_identity(policy, has_webhook=installation.has_webhook, is_enforced=is_enforced)


def _is_enforced(cluster: Cluster, policy: str) -> bool:
    try:
        cluster.get(f"{_ADMISSION}validatingadmissionpolicies/{policy}")
        return checks.denies_by(cluster.list(f"{_ADMISSION}validatingadmissionpolicybindings"), policy)
    except NotThere:  # or Kubernetes before 1.30
        return False


def _slices(cluster: Cluster, namespace: str, service: str) -> list[Json] | None:
    try:
        cluster.get(f"/api/v1/namespaces/{namespace}/services/{service}")
    except NotThere:
        return None
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    return list(cluster.list(path, labelSelector=f"kubernetes.io/service-name={service}"))


def _permissions(installation: DiagnosedInstallation) -> Iterator[Finding]:
    accounts = (str((pod.get("spec") or {}).get("serviceAccountName") or "") for pod in installation.pods)
    account = next(filter(None, accounts), DEFAULT_ACCOUNT)
    own = (lease["metadata"]["name"] for lease in installation.leases)
    needed = permissions.required(
        installation.names, next(own, permissions.LEASE), has_webhook=installation.has_webhook
    )
    missing = [permission for permission in needed if not _is_allowed(installation, permission, account)]
    return permissions.check_permissions(f"{installation.home}/{account}", missing, len(needed))


def _is_allowed(installation: DiagnosedInstallation, permission: permissions.Permission, account: str) -> bool:
    answer = installation.cluster.create(
        permissions.REVIEWS, permissions.review(permission, installation.home, account)
    )
    return bool((answer.get("status") or {}).get("allowed"))


def _other_schedulers(installation: DiagnosedInstallation) -> Iterator[Finding]:
    deployments = installation.cluster.list(
        "/apis/apps/v1/deployments", fieldSelector=f"metadata.name={checks.YUNIKORN_DEPLOYMENT}"
    )
    pods = installation.cluster.list("/api/v1/pods", labelSelector=checks.YUNIKORN_SELECTOR)
    return checks.check_other_schedulers(deployments, pods, installation.names)


_CHECKS: Final[tuple[tuple[str, Callable[[DiagnosedInstallation], Iterator[Finding]]], ...]] = (
    (checks.CORE, _core),
    (checks.LEADER, _leader),
    (checks.CONFIGURATION, _configuration),
    (checks.SCHEDULER_NAME, _scheduler_names),
    (checks.POD_QUEUES, _queues),
    (checks.WITHHELD, _withheld),
    ("placeholders", _placeholders),
    ("names", _names),
    (checks.WEBHOOK, _webhooks),
    (checks.IDENTITY, _identity),
    (permissions.PERMISSIONS, _permissions),
    (checks.YUNIKORN, _other_schedulers),
)
