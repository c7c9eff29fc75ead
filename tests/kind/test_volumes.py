"""A gang whose members have volumes: the claims are bound on the members' nodes, and the members write to them."""

from collections.abc import AsyncIterator

import pytest_asyncio

from devcluster.api import Json
from tests.e2e.manifests import Group, a_gang
from tests.kind.cluster import Kind
from tests.kind.manifests import running
from tests.kind.namespace import Namespace

DEFAULT = "storageclass.kubernetes.io/is-default-class"
CLASS = "muster-kind"
FOLDER = "/var/local/muster-kind"
WRITES = "import pathlib, signal; pathlib.Path('/data/it').write_text('data'); signal.pause()"
MEMBERS = 2


@pytest_asyncio.fixture(loop_scope="session")
async def storage_class(kind: Kind) -> AsyncIterator[str]:
    """The default class if it has a provisioner, else a class of this test with local volumes on one node."""
    for found in await kind.api.find("storageclasses"):
        annotations = found["metadata"].get("annotations") or {}
        if annotations.get(DEFAULT) == "true" and found["provisioner"] == "rancher.io/local-path":
            yield found["metadata"]["name"]
            return
    node = min(await kind.free_cpu())
    created = [a_class(), *(a_volume(number, node) for number in range(MEMBERS))]
    await kind.in_node(node, "mkdir", "-p", *(f"{FOLDER}/{number}" for number in range(MEMBERS)))
    await kind.in_node(node, "chmod", "-R", "777", FOLDER)
    for manifest in created:
        await kind.api.create(manifest)
    yield CLASS
    await kind.api.delete("storageclasses", CLASS)
    for manifest in created[1:]:
        await kind.api.delete("persistentvolumes", manifest["metadata"]["name"])
    await kind.in_node(node, "rm", "-r", FOLDER)


async def test_members_run_where_their_volumes_are_and_write_to_them(namespace: Namespace, storage_class: str) -> None:
    gang = a_gang("stateful", [Group("workers", MEMBERS, cpu="100m")], style="Hard", timeout_s=60)
    for number, pod in enumerate(gang):
        await namespace.create([a_claim(f"data-{number}", storage_class)])
        running(pod, namespace.kind.image, WRITES, volumeMounts=[{"name": "data", "mountPath": "/data"}])
        pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{number}"}}]
    await namespace.create(gang)
    pods = await namespace.running(MEMBERS)
    claims = await namespace.api.find("persistentvolumeclaims", namespace.name)
    assert {claim["status"]["phase"] for claim in claims} == {"Bound"}
    at = {claim["metadata"]["name"]: await node_of_volume(namespace, claim["spec"]["volumeName"]) for claim in claims}
    assert {f"data-{pod['metadata']['name'][-1]}": pod["spec"]["nodeName"] for pod in pods} == at


async def node_of_volume(namespace: Namespace, volume: str) -> str:
    """Return the node of a local volume."""
    found = await namespace.api.get("persistentvolumes", volume)
    (term,) = found["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    (expression,) = term["matchExpressions"]
    name: str = expression["values"][0]
    return name


def a_class() -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def a_volume(number: int, node: str) -> Json:
    on_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{CLASS}-{number}"},
        "spec": {
            "capacity": {"storage": "16Mi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": CLASS,
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": f"{FOLDER}/{number}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
        },
    }


def a_claim(name: str, storage_class: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": "16Mi"}},
        },
    }
