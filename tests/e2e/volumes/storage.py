"""Storage of one scenario: classes, claims and volumes, and a provisioner that creates volumes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Self

from devcluster.api import Json
from devcluster.errors import ApiError
from devcluster.nodes import OURS
from tests.e2e.manifests import a_pod
from tests.e2e.scenario import Scenario

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
#: The provisioner of the class `made`.
PROVISIONER: Final = "made.muster.example.com"
LABELS: Final = {OURS[0]: OURS[1]}
_CLUSTER_WIDE: Final = ("persistentvolumes", "storageclasses", "csinodes", "volumeattachments")


@asynccontextmanager
async def storage(scenario: Scenario) -> AsyncIterator[None]:
    """Three classes: `static` and `made` wait for the first consumer, `now` does not; deleted afterwards."""
    late = "WaitForFirstConsumer"
    await scenario.create(
        [
            a_class("static", "kubernetes.io/no-provisioner", late),
            a_class("made", PROVISIONER, late),
            a_class("now", PROVISIONER, "Immediate"),
        ]
    )
    try:
        yield
    finally:
        for plural in _CLUSTER_WIDE:
            await scenario.api.delete_all(plural, labelSelector="=".join(OURS))


def a_class(name: str, provisioner: str, mode: str) -> Json:
    """A storage class."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "labels": LABELS},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }


def a_claim(name: str, of_class: str, *, mode: str = "ReadWriteOnce", volume: str = "") -> Json:
    """A claim of 1Gi, for a certain volume if one is named."""
    spec: Json = {
        "storageClassName": of_class,
        "accessModes": [mode],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    if volume:
        spec["volumeName"] = volume
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def a_volume(name: str, of_class: str, *, node: str = "", mode: str = "ReadWriteOnce", driver: str = "") -> Json:
    """A volume of 1Gi for one node or all nodes; a local directory, or a volume of a driver."""
    spec: Json = {
        "storageClassName": of_class,
        "accessModes": [mode],
        "capacity": {"storage": "1Gi"},
        "persistentVolumeReclaimPolicy": "Retain",
    }
    if driver:
        spec["csi"] = {"driver": driver, "volumeHandle": name}
    else:
        spec["hostPath"] = {"path": f"/volumes/{name}"}
    if node:
        here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name, "labels": LABELS}, "spec": spec}


def a_csi_node(name: str, driver: str, count: int) -> Json:
    """A CSINode with an attach limit."""
    drivers = [{"name": driver, "nodeID": name, "topologyKeys": [], "allocatable": {"count": count}}]
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name, "labels": LABELS},
        "spec": {"drivers": drivers},
    }


def with_volume(pod: Json, *claims: str) -> Json:
    """The same pod with these claims."""
    volumes = [{"name": f"v{index}", "persistentVolumeClaim": {"claimName": name}} for index, name in enumerate(claims)]
    pod["spec"]["volumes"] = volumes
    return pod


def a_user(name: str, *claims: str) -> Json:
    """A pod of a separate application with these claims."""
    return with_volume(a_pod(name, labels={"applicationId": name}), *claims)


class Provisioner:
    """Creates a volume for each claim with a selected node. `first_rejected`: unselects the first node.

    As the external-provisioner of a driver with WaitForFirstConsumer. `requested`: the selected nodes in order.
    """

    def __init__(self, scenario: Scenario, *, first_rejected: bool = False) -> None:
        self._scenario = scenario
        self._rejects_next = first_rejected
        self.requested: list[str] = []
        self._created = set[str]()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        async for _, seen in self._scenario.api.watch("persistentvolumeclaims", self._scenario.namespace):
            try:
                await self._provision(seen["metadata"]["name"])
            except ApiError as error:
                if error.status not in {404, 409}:
                    raise

    async def _provision(self, name: str) -> None:
        """Provision the volume of a claim. Reads the claim again, because the watch may be outdated."""
        claim = await self._scenario.api.get("persistentvolumeclaims", name, self._scenario.namespace)
        metadata = claim["metadata"]
        node = metadata.get("annotations", {}).get(SELECTED_NODE)
        if not node or claim["spec"].get("volumeName") or metadata["uid"] in self._created:
            return
        self.requested.append(node)
        if self._rejects_next:
            self._rejects_next = False
            body = {"metadata": {"annotations": {SELECTED_NODE: None}}}
            await self._scenario.api.patch("persistentvolumeclaims", metadata["name"], body, self._scenario.namespace)
            return
        self._created.add(metadata["uid"])
        volume = a_volume(f"pvc-{metadata['uid']}", "made", node=node)
        keys = ("namespace", "name", "uid")
        volume["spec"]["claimRef"] = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"} | {
            key: metadata[key] for key in keys
        }
        await self._scenario.api.create(volume)
