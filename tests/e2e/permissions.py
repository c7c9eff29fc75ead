"""The permissions of the operator's role: those that a complete run of the end-to-end tests used, in all its processes.

Each process (pytest-xdist) reports the uses of its clusters to the main process, which compares them with the role at
the end: each permission must be used, and none may be missing. A difference fails the run.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
import yaml

from devcluster.audit import AuditLog, Permission, Use
from devcluster.muster import ACCOUNT, MANIFESTS, NAMESPACE

#: User agents of the operator: its own requests, and those of kopf for the ConfigMaps.
AGENTS: Final = ("muster-operator", "kopf/")

#: Never requested: admission asks whether an owner may be blocked from being deleted, and whether the status of a
#: ResourceClaim may allocate it.
UNSEEN: Final = {
    Permission("", "pods/finalizers", "update"),
    Permission("resource.k8s.io", "resourceclaims/binding", "patch"),
}

#: Whether the run has all end-to-end tests.
IS_COMPLETE: Final = pytest.StashKey[bool]()

#: What the operators of this run requested.
USES: Final = pytest.StashKey[set[Use]]()

_OUTPUT: Final = "muster_permissions"

_Reported = tuple[bool, list[tuple[str, str, str, str, bool]]]


def record(config: pytest.Config, audit: AuditLog) -> None:
    """Add what the operators of a cluster requested."""
    uses = {use for use in audit.uses(f"{NAMESPACE}:{ACCOUNT}") if use.agent.startswith(AGENTS)}
    config.stash.setdefault(USES, set()).update(uses)


def output(config: pytest.Config) -> dict[str, _Reported]:
    """What a process reports, as simple values."""
    uses = sorted(
        (use.permission.group, use.permission.resource, use.permission.verb, use.permission.name, use.allowed)
        for use in config.stash.get(USES, set())
    )
    return {_OUTPUT: (config.stash.get(IS_COMPLETE, False), uses)}


def add(config: pytest.Config, reported: Mapping[str, _Reported]) -> None:
    """Add what another process reported (`output`)."""
    is_complete, uses = reported.get(_OUTPUT, (False, []))
    config.stash[IS_COMPLETE] = config.stash.get(IS_COMPLETE, False) or is_complete
    found = {
        Use(Permission(group, resource, verb, name), "muster-operator", ok) for group, resource, verb, name, ok in uses
    }
    config.stash.setdefault(USES, set()).update(found)


def granted(manifests: Path) -> set[Permission]:
    """Every permission that the roles of the file give."""
    roles = [item for item in yaml.safe_load_all(manifests.read_text()) if item["kind"] in {"Role", "ClusterRole"}]
    return {
        Permission(group, resource, verb, name)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def differences(role: set[Permission], uses: Iterable[Use]) -> list[str]:
    """Differences between the role and the used permissions. Rejections of permitted requests are ignored, because a
    starting API server rejects all requests for a moment.
    """
    requested = list(uses)
    used = _of_any_name(use.permission for use in requested if use.allowed)
    missing = {use.permission for use in requested if not use.allowed and not _of_any_name([use.permission]) & role}
    never_used = role - used - UNSEEN
    unexpected = UNSEEN & used
    return [
        *(f"granted, but never used: {permission}" for permission in sorted(never_used, key=str)),
        *(f"used, but not granted: {permission}" for permission in sorted(missing, key=str)),
        *(f"used, although it is listed as never requested: {one}" for one in sorted(unexpected, key=str)),
    ]


def of_run(config: pytest.Config) -> list[str]:
    """The differences of this run; none if it is incomplete or not on a local cluster."""
    is_complete, uses = config.stash.get(IS_COMPLETE, False), config.stash.get(USES, set[Use]())
    return differences(granted(MANIFESTS), uses) if is_complete and uses else []


def _of_any_name(permissions: Iterable[Permission]) -> set[Permission]:
    """These permissions, and the same ones for all objects."""
    return {found for permission in permissions for found in (permission, replace(permission, name=""))}
