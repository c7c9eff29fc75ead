"""The checks of `muster doctor`: raw objects in, findings out. They request nothing.

In the order of the output: core, leader, configuration, workloads, webhook, user identity, permissions, other
schedulers.
"""

from __future__ import annotations

import base64
import binascii
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final
from urllib.parse import urlsplit

from muster.errors import Forbidden, Unreachable
from muster.leases import PREFIX, holder, is_alive, late_s
from muster_si.near_names import nearest

Json = dict[str, Any]

_ENDED: Final = ("Succeeded", "Failed")


class Level(StrEnum):
    """Severity. unknown: the check was skipped."""

    FINE = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """`check`: name of the check; `remedy`: what to do, empty if nothing."""

    check: str
    level: Level
    message: str
    remedy: str = ""


def fine(check: str, message: str) -> Finding:
    """The check passed."""
    return Finding(check, Level.FINE, message)


def warning(check: str, message: str, remedy: str) -> Finding:
    """Muster works, but may stop working."""
    return Finding(check, Level.WARNING, message, remedy)


def problem(check: str, message: str, remedy: str) -> Finding:
    """The user has to act."""
    return Finding(check, Level.PROBLEM, message, remedy)


def unknown(check: str, error: Exception) -> Finding:
    """The check was skipped, because a request failed or was denied."""
    remedy = "use an account with read permission" if isinstance(error, Forbidden) else ""
    return Finding(check, Level.UNKNOWN, str(error), remedy)


# --- core -------------------------------------------------------------------------------------------------------------

CORE: Final = "core"


HEALTH: Final = "health"


def core_unreachable(error: Unreachable) -> Iterator[Finding]:
    """The core does not respond."""
    yield problem(CORE, str(error), "check that its pod runs (kubectl get pods -l app=muster -A), or set --server")
    yield unknown(HEALTH, error)


def check_core(status: Json) -> Iterator[Finding]:
    """`status`: the data of `muster status`."""
    if not status["partitions"]:
        yield problem(CORE, "no operator has registered", "the operator's log has the reason")
        return
    if not status["ready"]["ready"]:
        yield problem(
            CORE, f"the core does not schedule: {status['ready']['message']}", "see the logs of core and operator"
        )
    else:
        yield fine(CORE, f"{status['core']} schedules {status['partitions'][0]['totalNodes']} nodes")
    broken = [check for check in (status["health"] or {}).get("HealthChecks", []) if not check["Succeeded"]]
    for check in broken:
        yield warning(HEALTH, f"{check['Name']}: {check['DiagnosisMessage']}", "see the core's log, and report it")
    if not broken:
        yield fine(HEALTH, "all checks passed" if status["health"] else "not checked yet")


# --- leader -----------------------------------------------------------------------------------------------------------

LEADER: Final = "leader"
#: Annotation of an operator's Lease: the scheduler names that it serves, separated by commas.
SERVES: Final = "internal.yunikorn.apache.org/scheduler-names"
LEASE_SELECTOR: Final = "app.kubernetes.io/name=muster,app.kubernetes.io/component=operator"
DEFAULT_SCHEDULER: Final = "default-scheduler"
DEFAULT_NAMES: Final = frozenset({"muster", "yunikorn"})


def served_names(own: Iterable[Json]) -> frozenset[str]:
    """The scheduler names of an installation, from the Leases in its namespace; the default if they name none."""
    return frozenset(name for lease in own for name in _lease_names(lease)) or DEFAULT_NAMES


def check_leases(own: list[Json], of_names: Iterable[Json], home: str, now: datetime) -> Iterator[Finding]:
    """`own`: Leases of operators in Muster's namespace. `of_names`: of scheduler names. `now`: of the API server."""
    if not own:
        yield warning(
            LEADER,
            f"no Lease of an operator in namespace {home}",
            "check that the operator runs there; with --no-leader-elect it needs no Lease",
        )
    for lease in own:
        yield _check_holder(lease, now)
    names = served_names(own)
    for lease in of_names:
        name = lease["metadata"]["name"].removeprefix(PREFIX)
        if name in names and is_alive(lease, now) and holder(lease).partition("/")[0] != home:
            yield problem(
                LEADER,
                f"another Muster, with the Lease {holder(lease)}, serves {name} too",
                "set service.schedulerNames of one of them to other names",
            )


def _check_holder(lease: Json, now: datetime) -> Finding:
    leader, name = holder(lease), f"{lease['metadata']['namespace']}/{lease['metadata']['name']}"
    if not leader:
        return problem(LEADER, f"no replica holds the Lease {name}", "start an operator, or see its log")
    if (late := late_s(lease, now)) > 0:
        return problem(
            LEADER,
            f"{leader} holds the Lease {name} and is {round(late)} s late to renew it",
            "check that it runs and reaches the API server; a standby takes over if there is one",
        )
    return fine(LEADER, f"{leader} leads, for {', '.join(sorted(_lease_names(lease))) or 'its scheduler names'}")


def _lease_names(lease: Json) -> frozenset[str]:
    value = (lease["metadata"].get("annotations") or {}).get(SERVES, "")
    return frozenset(filter(None, value.split(",")))


# --- configuration ----------------------------------------------------------------------------------------------------

CONFIGURATION: Final = "configuration"
#: Findings of one kind that a check lists.
_MOST_LINES: Final = 10
_REJECTED: Final = "rejected; the previous one remains active, and Muster cannot start with this one"


def check_configuration(errors: Sequence[str], warnings: Sequence[str], *, exists: bool) -> Iterator[Finding]:
    """Of the ConfigMaps as they are now, which Muster may have rejected. `exists`: there is one."""
    remedy = "correct the ConfigMap; `muster validate FILE` checks it before a change"
    if errors:
        yield problem(CONFIGURATION, _REJECTED, remedy)
    for level, kind, lines in ((Level.PROBLEM, "error", errors), (Level.WARNING, "warning", warnings)):
        most = len(lines) if len(lines) <= _MOST_LINES + 1 else _MOST_LINES  # the line about others takes a place too
        yield from (Finding(CONFIGURATION, level, line, remedy) for line in lines[:most])
        if rest := len(lines) - most:
            yield Finding(CONFIGURATION, level, f"{rest} further {kind}s", "`muster config show` lists all of them")
    if not errors and not warnings:
        yield fine(CONFIGURATION, "valid" if exists else "there is no ConfigMap, so the defaults apply")


# --- workloads --------------------------------------------------------------------------------------------------------

SCHEDULER_NAME: Final = "scheduler name"
POD_QUEUES: Final = "queues of pods"
WITHHELD: Final = "withheld pods"
_DOMAIN: Final = "yunikorn.apache.org/"
#: Labels and annotations of pods for Muster.
MARKS: Final = frozenset(
    f"{_DOMAIN}{name}" for name in ("app-id", "queue", "task-groups", "task-group-name", "schedulingPolicyParameters")
)
_APP: Final = (f"{_DOMAIN}app-id", "applicationId", "spark-app-selector")
_QUEUE: Final = (f"{_DOMAIN}queue", "queue")
_SHOWN: Final = 3


def check_scheduler_names(
    pods: Iterable[Json], names: frozenset[str], others: frozenset[str] = frozenset()
) -> Iterator[Finding]:
    """Pods that have not ended; one finding per scheduler name. `names`: the served scheduler names.

    `others`: those of other Musters. Pods without annotations are listed if their name resembles a served one.
    """
    marked: dict[str, list[str]] = defaultdict(list)
    mistyped: dict[str, list[str]] = defaultdict(list)
    for pod in pods:
        scheduler, status = _scheduler(pod), pod.get("status") or {}
        if scheduler in names or status.get("phase") in _ENDED:
            continue
        if MARKS & {key for kind in ("labels", "annotations") for key in pod["metadata"].get(kind) or {}}:
            marked[scheduler].append(_full_name(pod))
        elif scheduler not in others and not pod["spec"].get("nodeName") and nearest(scheduler, names):
            mistyped[scheduler].append(_full_name(pod))
    wanted = " or ".join(sorted(names))
    for which, by_name in ((" with Muster's labels or annotations", marked), ("", mistyped)):
        for scheduler, untracked_pods in sorted(by_name.items()):
            yield problem(
                SCHEDULER_NAME,
                f"{_list(untracked_pods)}{which} name scheduler {scheduler}, which is not served",
                f"set spec.schedulerName to {nearest(scheduler, names) or wanted} and recreate the pods",
            )
    if not marked and not mistyped:
        yield fine(SCHEDULER_NAME, f"every pod with Muster's labels or annotations names {wanted}")


def check_queues(
    pods: Iterable[Json], names: frozenset[str], rejected: Mapping[tuple[str, str], str], active: Iterable[Json] = ()
) -> Iterator[Finding]:
    """`names`: the served scheduler names. `rejected`: messages by namespace and ID of rejected applications.

    `active`: other applications of REST.
    """
    by_app: dict[tuple[str, str], list[Json]] = defaultdict(list)
    for pod in pods:
        app = (pod["metadata"]["namespace"], _value(pod, _APP))
        if app in rejected and _scheduler(pod) in names:
            by_app[app].append(pod)
    for app, members in sorted(by_app.items()):
        queue = next(filter(None, (_value(pod, _QUEUE) for pod in members)), "")
        where = f" (queue {queue})" if queue else ""
        yield problem(
            POD_QUEUES,
            f"{_list([_full_name(pod) for pod in members])} of application {app[1]}{where}, rejected: {rejected[app]}",
            "use a leaf queue of `muster queues`, or add the queue to queues.yaml; then recreate the pods",
        )
    ignored: dict[str, list[str]] = defaultdict(list)
    for one in active:
        if one.get("requestedQueue"):
            ignored[one["requestedQueue"]].append("/".join(filter(None, (one.get("namespace"), one["applicationID"]))))
    for queue, apps in sorted(ignored.items()):
        yield warning(
            POD_QUEUES,
            f"{_list(apps, 'application')}: queue {queue} of the pods is ignored, because a placement rule selected "
            "another one",
            "use the full name of a leaf of `muster queues`, or change placementrules in queues.yaml",
        )
    if not by_app and not ignored:
        yield fine(POD_QUEUES, "no pod of a rejected application, and no queue of pods is ignored")


def check_withheld(reasons: Mapping[str, str]) -> Iterator[Finding]:
    """`reasons`: why pods wait that the core has not received, by NAMESPACE/NAME; empty = it is not reported."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for name, reason in reasons.items():
        by_reason[reason or "no reason is reported yet"].append(name)
    for reason, names in sorted(by_reason.items())[:_MOST_LINES]:
        remedy = f"follow the message; `muster explain {names[0]}` shows events"
        yield warning(WITHHELD, f"{_list(names)}: {reason}", remedy)
    if len(by_reason) > _MOST_LINES:
        yield warning(WITHHELD, f"{len(by_reason) - _MOST_LINES} further reasons", "`muster explain POD` shows them")
    if not by_reason:
        yield fine(WITHHELD, "the core has received all pods that wait")


def _value(pod: Json, keys: Iterable[str]) -> str:
    """The first of these labels of the pod, else the annotation of that name."""
    metadata = pod["metadata"]
    return next(
        (
            str((metadata.get(kind) or {})[key])
            for key in keys
            for kind in ("labels", "annotations")
            if key in (metadata.get(kind) or {})
        ),
        "",
    )


def _scheduler(pod: Json) -> str:
    return str((pod.get("spec") or {}).get("schedulerName") or DEFAULT_SCHEDULER)


def _full_name(item: Json) -> str:
    return f"{item['metadata']['namespace']}/{item['metadata']['name']}"


def _list(names: list[str], kind: str = "pod") -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{len(names)} {kind}{'' if len(names) == 1 else 's'} ({', '.join(names[:_SHOWN])}{more})"


# --- webhook ----------------------------------------------------------------------------------------------------------

WEBHOOK: Final = "webhook"
#: Suffix of the names of Muster's webhooks.
DOMAIN: Final = ".admission.muster"
SOON: Final = timedelta(days=7)


@dataclass(slots=True)
class WebhookEndpoint:
    """The target of some webhooks: a service (namespace, name) or a URL, with the trusted authorities."""

    service: tuple[str, str] | None
    url: str
    bundle: bytes
    configurations: set[str] = field(default_factory=set)
    #: Registered by the diagnosed installation, not by another Muster in the cluster.
    is_own: bool = False
    #: Pods for Muster are rejected while the webhook is unreachable.
    fails_closed: bool = False


def webhook_endpoints(configurations: Iterable[Json], own: str) -> list[WebhookEndpoint]:
    """The distinct endpoints of Muster's webhooks. `own`: name of the configurations of the diagnosed installation."""
    found: dict[tuple[object, ...], WebhookEndpoint] = {}
    for configuration in configurations:
        for hook in configuration.get("webhooks") or []:
            if not str(hook.get("name", "")).endswith(DOMAIN):
                continue
            webhook = _endpoint(hook.get("clientConfig") or {})
            webhook = found.setdefault((webhook.service, webhook.url, webhook.bundle), webhook)
            webhook.configurations.add(str(configuration["metadata"]["name"]))
            webhook.is_own = webhook.is_own or configuration["metadata"]["name"] == own
            webhook.fails_closed = webhook.fails_closed or hook.get("failurePolicy") == "Fail"
    return list(found.values())


def check_webhooks(
    found: Iterable[WebhookEndpoint], endpoints: Mapping[tuple[str, str], Iterable[Json] | None], now: datetime
) -> Iterator[Finding]:
    """`endpoints`: the EndpointSlices of each service, None = the service does not exist.

    Of other installations, only registrations without their service are reported, because they reject pods.
    """
    endpoints_found = list(found)
    for webhook in endpoints_found:
        is_orphan = webhook.service is not None and endpoints.get(webhook.service) is None
        if not webhook.is_own and not is_orphan:
            continue
        problems = [*_check_endpoints(webhook, endpoints), *(() if is_orphan else _check_certificates(webhook, now))]
        names = ", ".join(sorted(webhook.configurations))
        where = webhook.url or "service {}/{}".format(*(webhook.service or ("", "")))
        yield from problems or [fine(WEBHOOK, f"{names}: {where} is ready, its certificate authority is valid")]
    if not any(webhook.is_own for webhook in endpoints_found):
        yield fine(WEBHOOK, "not registered")


def _check_endpoints(
    webhook: WebhookEndpoint, endpoints: Mapping[tuple[str, str], Iterable[Json] | None]
) -> Iterator[Finding]:
    if webhook.service is None:
        return
    slices = endpoints.get(webhook.service)
    where = "service {}/{}".format(*webhook.service)
    consequence = "; until then pods that name Muster are rejected" if webhook.fails_closed else ""
    if slices is None:
        names = " ".join(sorted(webhook.configurations))
        effect = ", so the API server rejects new pods that name Muster" if webhook.fails_closed else ""
        again = ", or enable the webhook again (chart: webhook.enabled)" if webhook.is_own else ""
        yield problem(
            WEBHOOK,
            f"{names} is registered, but {where} does not exist{effect}",
            f"kubectl delete mutatingwebhookconfigurations,validatingwebhookconfigurations {names}{again}",
        )
        return
    ready = [
        endpoint
        for part in slices
        for endpoint in part.get("endpoints") or []
        if (endpoint.get("conditions") or {}).get("ready", True)
    ]
    if not ready:
        yield problem(WEBHOOK, f"{where} has no ready endpoint", f"check the operator's pods{consequence}")


def _check_certificates(webhook: WebhookEndpoint, now: datetime) -> Iterator[Finding]:
    if not webhook.bundle:
        if webhook.service is not None:
            yield problem(WEBHOOK, "the configuration has no caBundle", "the operator's log has the reason")
        return
    from cryptography import x509  # noqa: PLC0415  # slow to load

    try:
        certificates = x509.load_pem_x509_certificates(webhook.bundle)
    except ValueError as error:
        yield problem(
            WEBHOOK, f"the caBundle is invalid: {error}", "delete the configuration; the operator creates it again"
        )
        return
    last = max(certificate.not_valid_after_utc for certificate in certificates)
    if last <= now:
        yield problem(
            WEBHOOK, f"the certificate authority expired on {last:%Y-%m-%d %H:%M}", "the operator's log has the reason"
        )
    elif last - now < SOON:
        yield warning(
            WEBHOOK,
            f"the certificate authority expires on {last:%Y-%m-%d %H:%M}",
            "check that an operator runs; it renews the authority",
        )


def _endpoint(client: Json) -> WebhookEndpoint:
    service, at = client.get("service"), urlsplit(str(client.get("url") or ""))
    url = f"{at.scheme}://{at.netloc}" if at.netloc else ""
    try:
        bundle = base64.b64decode(client.get("caBundle") or "", validate=True)
    except binascii.Error:
        bundle = b"?"
    return WebhookEndpoint((service["namespace"], service["name"]) if service else None, url, bundle)


# --- user identity ----------------------------------------------------------------------------------------------------

IDENTITY: Final = "user identity"


def check_identity(policy: str, *, has_webhook: bool, is_enforced: bool) -> Iterator[Finding]:
    """`policy`: name of the ValidatingAdmissionPolicy. `is_enforced`: it exists and a binding denies by it."""
    if has_webhook:
        yield fine(IDENTITY, "the webhook verifies yunikorn.apache.org/user.info of new pods")
    elif is_enforced:
        yield fine(IDENTITY, f"ValidatingAdmissionPolicy {policy} verifies yunikorn.apache.org/user.info of new pods")
    else:
        yield warning(
            IDENTITY,
            f"neither the webhook nor ValidatingAdmissionPolicy {policy} is enabled: users can set any "
            "yunikorn.apache.org/user.info, so access lists and limits do not protect",
            "set webhook.enabled=true or admissionPolicy.enabled=true in the chart (docs/operate/security.md)",
        )


def denies_by(bindings: Iterable[Json], policy: str) -> bool:
    """Whether one of the ValidatingAdmissionPolicyBindings enforces the policy."""
    specs = (binding.get("spec") or {} for binding in bindings)
    return any(spec.get("policyName") == policy and "Deny" in (spec.get("validationActions") or ()) for spec in specs)


# --- other schedulers -------------------------------------------------------------------------------------------------

YUNIKORN: Final = "YuniKorn"
YUNIKORN_NAME: Final = "yunikorn"
YUNIKORN_DEPLOYMENT: Final = "yunikorn-scheduler"
YUNIKORN_SELECTOR: Final = "app=yunikorn,component=yunikorn-scheduler"


def check_other_schedulers(
    deployments: Iterable[Json], pods: Iterable[Json], names: frozenset[str]
) -> Iterator[Finding]:
    """`deployments` and `pods`: of YuniKorn by name and labels. `names`: the scheduler names that Muster serves."""
    running = [f"deployment {_full_name(item)}" for item in deployments if _has_replicas(item)]
    running += [f"pod {_full_name(pod)}" for pod in pods if (pod.get("status") or {}).get("phase") not in _ENDED]
    if not running:
        yield fine(YUNIKORN, "not running")
    elif YUNIKORN_NAME in names:
        yield problem(
            YUNIKORN,
            f"{running[0]} runs, and Muster serves the scheduler name {YUNIKORN_NAME} too",
            "scale it to 0, or set service.schedulerNames: muster",
        )
    else:
        yield warning(
            YUNIKORN,
            f"{running[0]} runs, so Muster does not serve the scheduler name {YUNIKORN_NAME}",
            "scale it to 0 to migrate its pods",
        )


def _has_replicas(deployment: Json) -> bool:
    """Without a number of replicas it is one."""
    wanted = (deployment.get("spec") or {}).get("replicas", 1)
    return bool(wanted) or bool((deployment.get("status") or {}).get("replicas"))
