"""Requests without a permission of the operator's role are forbidden. permissions.py checks that all are used."""

import pytest

from devcluster.api import Api
from devcluster.cluster import Cluster
from devcluster.connection import load
from devcluster.errors import ApiError
from devcluster.muster import ACCOUNT, NAMESPACE

#: Requests that must be forbidden with a stolen token of the operator.
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


@pytest.mark.parametrize("method, path", FORBIDDEN)
async def test_other_requests_are_forbidden_to_the_operators_account(method: str, path: str, home: Cluster) -> None:
    if home.plane is None:
        pytest.skip("in a cluster that is not ours a refusal that fails would do harm")
    async with Api(await load(await home.kubeconfig_for(ACCOUNT, NAMESPACE))) as operator:
        with pytest.raises(ApiError) as refused:
            await operator.request(method, path, {})
    assert refused.value.status == 403
