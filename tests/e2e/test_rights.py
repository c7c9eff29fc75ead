"""The operator's role is enough, as every other scenario shows, and no more: each right is used, others are refused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from devcluster.api import Api
from devcluster.audit import Right
from devcluster.cluster import Cluster
from devcluster.connection import load
from devcluster.errors import ApiError
from devcluster.muster import ACCOUNT, MANIFESTS, NAMESPACE

UNSEEN = {Right("", "pods/finalizers", "update")}
"""Never requested: an admission plugin asks whether an owner may be blocked from being deleted."""

#: What a stolen token of the operator must not do.
FORBIDDEN = [
    ("GET", "/api/v1/secrets"),
    ("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets"),
    ("GET", "/api/v1/namespaces/kube-system/configmaps"),
    ("PATCH", f"/api/v1/namespaces/{NAMESPACE}/configmaps/muster-configs"),
    ("DELETE", "/api/v1/nodes/node-0"),
    ("PATCH", "/api/v1/nodes/node-0"),
    ("DELETE", "/api/v1/namespaces/default"),
    ("DELETE", "/api/v1/namespaces/default/pods"),
    ("PUT", "/api/v1/namespaces/default/pods/any"),
    ("PATCH", "/api/v1/namespaces/default/pods/any"),
    ("POST", "/api/v1/namespaces/default/pods/any/exec"),
    ("POST", "/api/v1/namespaces/default/pods/any/eviction"),
    ("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token"),
    ("PATCH", "/apis/apps/v1/namespaces/default/deployments/any"),
    ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"),
    ("GET", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"),
    ("PUT", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/somebody-elses"),
    ("DELETE", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/muster-admission"),
    ("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/somebody-elses"),
    ("PUT", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/somebody-elses"),
    ("PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/muster"),
]


def granted(manifests: Path) -> set[Right]:
    """Every right that the roles of the file give."""
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


@pytest.mark.parametrize("method, path", FORBIDDEN)
async def test_other_things_are_forbidden_to_the_operators_account(method: str, path: str, home: Cluster) -> None:
    if home.plane is None:
        pytest.skip("in a cluster that is not ours a refusal that fails would do harm")
    async with Api(await load(await home.kubeconfig_for(ACCOUNT, NAMESPACE))) as operator:
        with pytest.raises(ApiError) as refused:
            await operator.request(method, path, {})
    assert refused.value.status == 403


@pytest.mark.whole_run
async def test_every_right_of_the_role_was_used_and_none_was_missing(home: Cluster) -> None:
    """Of all that the operators of this run asked of the API server; it comes last.

    A role is for all placements: the whole run has gangs of each, and what is run again in another uses no more.
    """
    if home.plane is None:
        pytest.skip("the audit log of a cluster that is not ours cannot be read")
    uses = {use for use in home.audit.uses(f"{NAMESPACE}:{ACCOUNT}") if use.agent.startswith("muster-operator")}
    used = of_any_name(use.right for use in uses if use.allowed)
    assert granted(MANIFESTS) - used == UNSEEN
    # A server that has just started refuses everything for a moment, also what is granted.
    refused = {use.right for use in uses if not use.allowed}
    assert {right for right in refused if not of_any_name([right]) & granted(MANIFESTS)} == set()


def of_any_name(rights: Iterable[Right]) -> set[Right]:
    """These, and the same on all objects."""
    return {found for right in rights for found in (right, replace(right, name=""))}
