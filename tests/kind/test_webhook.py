"""Admission through the cluster's network, with certificates that Muster created."""

import pytest

from devcluster.errors import ApiError
from tests.e2e.manifests import PLACEHOLDER, a_pod, with_annotations
from tests.kind.namespace import Namespace
from tests.kind.release import NAMESPACE

CONFIGURATION = "muster-configs"


pytestmark = pytest.mark.usefixtures("webhook")


async def test_a_pod_without_a_scheduler_name_is_assigned_to_muster_and_runs(namespace: Namespace) -> None:
    pod = a_pod("plain", cpu="50m")
    del pod["spec"]["schedulerName"]
    await namespace.create([pod])
    (found,) = await namespace.running(1)
    assert found["spec"]["schedulerName"] == "muster"
    assert found["metadata"]["labels"]["applicationId"]
    assert "yunikorn.apache.org/user.info" in found["metadata"]["annotations"]


async def test_a_forged_placeholder_is_rejected(namespace: Namespace) -> None:
    with pytest.raises(ApiError, match="placeholder"):
        await namespace.api.create(with_annotations(a_pod("forged"), {PLACEHOLDER: "true"}), namespace.name)


async def test_an_invalid_queue_configuration_is_rejected_before_it_is_applied(namespace: Namespace) -> None:
    queues = "partitions:\n  - name: default\n    queues:\n      - name: root\n        colour: red\n"
    metadata = {"name": CONFIGURATION, "namespace": NAMESPACE}
    with pytest.raises(ApiError, match="colour"):
        await namespace.api.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"queues.yaml": queues}}
        )
