"""The permissions of the operator's role: what a whole run of the end-to-end tests used, over all its processes.

Each process (pytest-xdist) reports the uses of its own clusters to the one that started it, which compares them with
the role at the end: each permission is used, and none is missing. A difference fails the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
import yaml

from devcluster.audit import AuditLog, Right, Use
from devcluster.muster import ACCOUNT, MANIFESTS, NAMESPACE

#: Never requested: an admission plugin asks whether an owner may be blocked from being deleted.
UNSEEN: Final = {Right("", "pods/finalizers", "update")}

#: Whether the run has all end-to-end tests.
IS_WHOLE: Final = pytest.StashKey[bool]()

#: What the operators of this run requested.
USES: Final = pytest.StashKey[set[Use]]()

_OUTPUT: Final = "muster_permissions"

_Reported = tuple[bool, list[tuple[str, str, str, str, bool]]]


def record(config: pytest.Config, audit: AuditLog) -> None:
    """Add what the operators of a cluster requested."""
    uses = {use for use in audit.uses(f"{NAMESPACE}:{ACCOUNT}") if use.agent.startswith("muster-operator")}
    config.stash.setdefault(USES, set()).update(uses)


def output(config: pytest.Config) -> dict[str, _Reported]:
    """What a process reports, as simple values."""
    uses = sorted(
        (use.right.group, use.right.resource, use.right.verb, use.right.name, use.allowed)
        for use in config.stash.get(USES, set())
    )
    return {_OUTPUT: (config.stash.get(IS_WHOLE, False), uses)}


def add(config: pytest.Config, reported: Mapping[str, _Reported]) -> None:
    """Add what another process reported (`output`)."""
    is_whole, uses = reported.get(_OUTPUT, (False, []))
    config.stash[IS_WHOLE] = config.stash.get(IS_WHOLE, False) or is_whole
    found = {Use(Right(group, resource, verb, name), "muster-operator", ok) for group, resource, verb, name, ok in uses}
    config.stash.setdefault(USES, set()).update(found)


def granted(manifests: Path) -> set[Right]:
    """Every permission that the roles of the file give."""
    roles = [item for item in yaml.safe_load_all(manifests.read_text()) if item["kind"] in {"Role", "ClusterRole"}]
    return {
        Right(group, resource, verb, name)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def differences(given: set[Right], uses: Iterable[Use]) -> list[str]:
    """How the role differs from what was used. Requests that were refused although they are permitted do not count: a
    server that has just started refuses everything for a moment.
    """
    requested = list(uses)
    used = _of_any_name(use.right for use in requested if use.allowed)
    missing = {use.right for use in requested if not use.allowed and not _of_any_name([use.right]) & given}
    never_used = given - used - UNSEEN
    unexpected = UNSEEN & used
    return [
        *(f"granted, but never used: {right}" for right in sorted(never_used, key=str)),
        *(f"used, but not granted: {right}" for right in sorted(missing, key=str)),
        *(f"used, although it is listed as never requested: {right}" for right in sorted(unexpected, key=str)),
    ]


def of_run(config: pytest.Config) -> list[str]:
    """The differences of this run; none if it is not a whole one, or not on a cluster of its own."""
    is_whole, uses = config.stash.get(IS_WHOLE, False), config.stash.get(USES, set[Use]())
    return differences(granted(MANIFESTS), uses) if is_whole and uses else []


def _of_any_name(rights: Iterable[Right]) -> set[Right]:
    """These, and the same on all objects."""
    return {found for right in rights for found in (right, replace(right, name=""))}
