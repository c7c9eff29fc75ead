"""A namespace in which Pod Security `restricted` is enforced."""

from collections.abc import AsyncIterator
from functools import partial

import pytest_asyncio

from devcluster.cluster import Cluster
from devcluster.errors import ApiError
from devcluster.waiting import until

ENFORCED = "gangs"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
OF_EVERY_NAMESPACE = (("serviceaccounts", "default"), ("configmaps", "kube-root-ca.crt"))


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def enforced(home: Cluster) -> AsyncIterator[Cluster]:
    """The cluster with that namespace and its default objects."""
    metadata = {"name": ENFORCED, "labels": RESTRICTED}
    await home.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    for plural, name in OF_EVERY_NAMESPACE:
        await until(f"{name} exists", partial(home.admin.get, plural, name, ENFORCED), 30, tolerate=(ApiError,))
    yield home
    await home.admin.delete("namespaces", ENFORCED)
