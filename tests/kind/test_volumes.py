"""A gang whose members have volumes: the claims are bound on the members' nodes, and the members write to them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from devcluster.api import Json
from tests.e2e.manifests import Group, a_gang
from tests.kind.cluster import Kind
from tests.kind.manifests import running
from tests.kind.room import Room

DEFAULT = "storageclass.kubernetes.io/is-default-class"
OURS = "muster-kind"
FOLDER = "/var/local/muster-kind"
WRITES = "import pathlib, signal; pathlib.Path('/data/it').write_text('is mine'); signal.pause()"
MEMBERS = 2


@pytest_asyncio.fixture(loop_scope="session")
async def storage_class(kind: Kind) -> AsyncIterator[str]:
    """The cluster's default class where somebody provisions it, else one of ours with local volumes on one worker."""
    for found in await kind.api.find("storageclasses"):
        annotations = found["metadata"].get("annotations") or {}
        if annotations.get(DEFAULT) == "true" and found["provisioner"] == "rancher.io/local-path":
            yield found["metadata"]["name"]
            return
    node = min(await kind.free_cpu())
    made = [a_class(), *(a_volume(number, node) for number in range(MEMBERS))]
    await kind.in_node(node, "mkdir", "-p", *(f"{FOLDER}/{number}" for number in range(MEMBERS)))
    await kind.in_node(node, "chmod", "-R", "777", FOLDER)
    for manifest in made:
        await kind.api.create(manifest)
    yield OURS
    await kind.api.delete("storageclasses", OURS)
    for manifest in made[1:]:
        await kind.api.delete("persistentvolumes", manifest["metadata"]["name"])
    await kind.in_node(node, "rm", "-r", FOLDER)


async def test_members_run_where_their_volumes_are_and_write_to_them(room: Room, storage_class: str) -> None:
    gang = a_gang("stateful", [Group("workers", MEMBERS, cpu="100m")], style="Hard", timeout_s=60)
    for number, pod in enumerate(gang):
        await room.create([a_claim(f"data-{number}", storage_class)])
        running(pod, room.kind.image, WRITES, volumeMounts=[{"name": "data", "mountPath": "/data"}])
        pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{number}"}}]
    await room.create(gang)
    pods = await room.running(MEMBERS)
    claims = await room.api.find("persistentvolumeclaims", room.namespace)
    assert {claim["status"]["phase"] for claim in claims} == {"Bound"}
    at = {claim["metadata"]["name"]: await where(room, claim["spec"]["volumeName"]) for claim in claims}
    assert {f"data-{pod['metadata']['name'][-1]}": pod["spec"]["nodeName"] for pod in pods} == at


async def where(room: Room, volume: str) -> str:
    """The node that a local volume is on."""
    found = await room.api.get("persistentvolumes", volume)
    (term,) = found["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    (expression,) = term["matchExpressions"]
    name: str = expression["values"][0]
    return name


def a_class() -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": OURS},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def a_volume(number: int, node: str) -> Json:
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{OURS}-{number}"},
        "spec": {
            "capacity": {"storage": "16Mi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": OURS,
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": f"{FOLDER}/{number}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
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
