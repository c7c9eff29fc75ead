"""Whether the operator's account may do what deploy/rbac.yaml lets it do; a test holds the two together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from muster.checks.finding import Finding, fine, problem

Json = dict[str, Any]

CHECK: Final = "permissions"
ADMISSION: Final = "admissionregistration.k8s.io"
#: Of the webhook's configurations, and of the Secret with its authorities.
HOOKS: Final = "muster-admission"
#: The Secret with the keys that sign placeholders and bindings.
SIGNING: Final = "muster-signing"
LEASE: Final = "muster"
#: Where the Leases of scheduler names are, and how their names begin.
NAMES: Final = "kube-system"
PREFIX: Final = "muster-scheduler-"
_LEASES: Final = "coordination.k8s.io"
REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one resource. `name`: of the only object it is about; `is_home`: in Muster's namespace alone.

    `namespace`: in this one alone.
    """

    group: str
    resource: str
    verb: str
    name: str = ""
    is_home: bool = False
    namespace: str = ""

    @property
    def is_of_the_webhook(self) -> bool:
        """Only needed where one is registered by the operator."""
        return self.group == ADMISSION or self.name == HOOKS

    def __str__(self) -> str:
        """As RBAC has it: `patch pods/status`, `get leases.coordination.k8s.io muster`."""
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {kind}{f' {self.name}' if self.name else ''}"


def _rights(
    group: str, resources: str, verbs: str, name: str = "", *, is_home: bool = False, namespace: str = ""
) -> tuple[Right, ...]:
    return tuple(
        Right(group, resource, verb, name, is_home, namespace)
        for resource in resources.split()
        for verb in verbs.split()
    )


RIGHTS: Final = (
    *_rights("", "pods", "get list watch create delete"),
    *_rights("", "pods/binding", "create"),
    *_rights("", "pods/status", "patch"),
    *_rights("", "pods/finalizers", "update"),
    *_rights("", "nodes namespaces", "list watch"),
    *_rights("scheduling.k8s.io", "priorityclasses", "list watch"),
    *_rights("", "persistentvolumes persistentvolumeclaims", "get list watch patch"),
    *_rights(
        "storage.k8s.io", "storageclasses csinodes csidrivers csistoragecapacities volumeattachments", "list watch"
    ),
    *_rights("events.k8s.io", "events", "create"),
    *_rights("", "events", "patch"),
    *_rights("apps", "deployments", "list"),
    *_rights("authorization.k8s.io", "subjectaccessreviews", "create"),
    *_rights(ADMISSION, "mutatingwebhookconfigurations validatingwebhookconfigurations", "create"),
    *_rights(ADMISSION, "mutatingwebhookconfigurations validatingwebhookconfigurations", "get update", HOOKS),
    *_rights("", "configmaps", "get list watch", is_home=True),
    *_rights(_LEASES, "leases", "create", is_home=True),
    *_rights("", "secrets", "create", is_home=True),
    *_rights("", "secrets", "get update", SIGNING, is_home=True),
    *_rights("", "secrets", "get update", HOOKS, is_home=True),
    *_rights(_LEASES, "leases", "create", namespace=NAMES),
)


def wanted(scheduler_names: Iterable[str], lease_name: str = LEASE, *, has_webhook: bool) -> list[Right]:
    """Those that an installation needs which serves these names and whose leader holds the Lease of that name."""
    named = [*_rights(_LEASES, "leases", "get update", lease_name, is_home=True)]
    for name in sorted(scheduler_names):
        named += _rights(_LEASES, "leases", "get update", f"{PREFIX}{name}", namespace=NAMES)
    return [right for right in (*RIGHTS, *named) if has_webhook or not right.is_of_the_webhook]


def review(right: Right, home: str, account: str) -> Json:
    """The SubjectAccessReview that asks whether an account of that namespace has it."""
    resource, _, subresource = right.resource.partition("/")
    asked = {"verb": right.verb, "group": right.group, "resource": resource, "subresource": subresource}
    asked |= {"namespace": home if right.is_home else right.namespace} if right.is_home or right.namespace else {}
    asked |= {"name": _name(right, home)} if right.name else {}
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{home}", "system:authenticated"]
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": f"system:serviceaccount:{home}:{account}", "groups": groups, "resourceAttributes": asked},
    }


def judged(account: str, missing: Iterable[Right], asked: int) -> Iterator[Finding]:
    """`missing`: those that the cluster said no to."""
    refused = list(missing)
    if not refused:
        yield fine(CHECK, f"account {account} has all {asked} required permissions")
        return
    told = ", ".join(str(right) for right in refused)
    yield problem(CHECK, f"account {account} may not {told}", "apply deploy/rbac.yaml, or upgrade the chart")


def _name(right: Right, home: str) -> str:
    """Configurations of the whole cluster are named after a home that is not the usual one."""
    return f"{right.name}-{home}" if right.group == ADMISSION and home != "muster" else right.name
