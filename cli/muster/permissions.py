"""Permissions of the operator as in `deploy/rbac.yaml` (a test compares them), and their check in `muster doctor`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from muster.checks import Finding, fine, problem
from muster.leases import NAMES_NAMESPACE, PREFIX

Json = dict[str, Any]

PERMISSIONS: Final = "permissions"
ADMISSION: Final = "admissionregistration.k8s.io"
#: Name of the webhook configurations, and of the Secret with their certificate authorities.
WEBHOOK_NAME: Final = "muster-admission"
#: The Secret with the keys that sign placeholders and bindings.
SIGNING: Final = "muster-signing"
LEASE: Final = "muster"
_CONFIGURATIONS: Final = "mutatingwebhookconfigurations validatingwebhookconfigurations"
_LEASES: Final = "coordination.k8s.io"
REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@dataclass(frozen=True, slots=True)
class Permission:
    """One verb on one resource. `name`: of the only object. `is_home`: only in Muster's namespace.

    `namespace`: only in this one.
    """

    group: str
    resource: str
    verb: str
    name: str = ""
    is_home: bool = False
    namespace: str = ""

    @property
    def is_for_webhook(self) -> bool:
        """Needed only if the operator registers the webhook."""
        return self.group == ADMISSION or self.name == WEBHOOK_NAME

    def __str__(self) -> str:
        """As in RBAC: `patch pods/status`, `get leases.coordination.k8s.io muster`."""
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {kind}{f' {self.name}' if self.name else ''}"


def _permissions(
    group: str, resources: str, verbs: str, name: str = "", *, is_home: bool = False, namespace: str = ""
) -> tuple[Permission, ...]:
    return tuple(
        Permission(group, resource, verb, name, is_home, namespace)
        for resource in resources.split()
        for verb in verbs.split()
    )


REQUIRED: Final = (
    *_permissions("", "pods", "get list watch create delete"),
    *_permissions("", "pods/binding", "create"),
    *_permissions("", "pods/status", "patch"),
    *_permissions("", "pods/finalizers", "update"),
    *_permissions("", "nodes namespaces", "list watch"),
    *_permissions("scheduling.k8s.io", "priorityclasses", "list watch"),
    *_permissions("scheduling.k8s.io", "podgroups", "list watch"),
    *_permissions("scheduling.k8s.io", "podgroups/status", "patch"),
    *_permissions("scheduling.x-k8s.io", "podgroups", "list watch"),
    *_permissions("", "persistentvolumes persistentvolumeclaims", "get list watch patch"),
    *_permissions(
        "storage.k8s.io", "storageclasses csinodes csidrivers csistoragecapacities volumeattachments", "list watch"
    ),
    *_permissions("resource.k8s.io", "resourceslices devicetaintrules deviceclasses", "list watch"),
    *_permissions("resource.k8s.io", "resourceclaims", "create get list watch patch"),
    *_permissions("resource.k8s.io", "resourceclaims/status resourceclaims/binding", "patch"),
    *_permissions("events.k8s.io", "events", "create"),
    *_permissions("", "events", "patch"),
    *_permissions("apps", "deployments", "list"),
    *_permissions("authorization.k8s.io", "subjectaccessreviews", "create"),
    *_permissions(ADMISSION, _CONFIGURATIONS, "create"),
    *_permissions(ADMISSION, _CONFIGURATIONS, "get update", WEBHOOK_NAME),
    *_permissions("", "configmaps", "get list watch", is_home=True),
    *_permissions(_LEASES, "leases", "create", is_home=True),
    *_permissions("", "secrets", "create", is_home=True),
    *_permissions("", "secrets", "get update", SIGNING, is_home=True),
    *_permissions("", "secrets", "get update", WEBHOOK_NAME, is_home=True),
    *_permissions(_LEASES, "leases", "create", namespace=NAMES_NAMESPACE),
)


def required(scheduler_names: Iterable[str], lease_name: str = LEASE, *, has_webhook: bool) -> list[Permission]:
    """The permissions of an installation with these scheduler names and this name of the leader's Lease."""
    named = [*_permissions(_LEASES, "leases", "get update", lease_name, is_home=True)]
    for name in sorted(scheduler_names):
        named += _permissions(_LEASES, "leases", "get update", f"{PREFIX}{name}", namespace=NAMES_NAMESPACE)
    return [permission for permission in (*REQUIRED, *named) if has_webhook or not permission.is_for_webhook]


def review(permission: Permission, home: str, account: str) -> Json:
    """The SubjectAccessReview of a service account in that namespace."""
    resource, _, subresource = permission.resource.partition("/")
    attributes = {"verb": permission.verb, "group": permission.group, "resource": resource, "subresource": subresource}
    if permission.is_home or permission.namespace:
        attributes["namespace"] = home if permission.is_home else permission.namespace
    if permission.name:
        attributes["name"] = admission_name(home) if permission.group == ADMISSION else permission.name
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{home}", "system:authenticated"]
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": f"system:serviceaccount:{home}:{account}", "groups": groups, "resourceAttributes": attributes},
    }


def admission_name(home: str) -> str:
    """The name of webhook configurations and admission policy. It contains a namespace other than `muster`."""
    return WEBHOOK_NAME if home == "muster" else f"{WEBHOOK_NAME}-{home}"


def check_permissions(account: str, missing: Iterable[Permission], number: int) -> Iterator[Finding]:
    """`missing`: those that the API server denied. `number`: of all that were checked."""
    denied = list(missing)
    if not denied:
        yield fine(PERMISSIONS, f"account {account} has all {number} required permissions")
        return
    listed = ", ".join(str(permission) for permission in denied)
    yield problem(PERMISSIONS, f"account {account} may not {listed}", "apply deploy/rbac.yaml, or upgrade the chart")
