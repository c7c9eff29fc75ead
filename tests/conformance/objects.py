"""A cluster as raw Kubernetes objects, and the pods that a scheduler places in it one at a time."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Raw = dict[str, Any]

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
ZONES = ("a", "b", "c")
REGIONS = ("north", "south")
NAMESPACES = ("red", "blue", "green")
APPS = ("web", "db", "cache")
TRACKS = ("stable", "canary")
OURS = "muster"
OTHERS = "default-scheduler"
#: Resources that suffice in all scenarios except that of resources.
PLENTY = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110"}


@dataclass(frozen=True, slots=True)
class Event:
    """A watch event: `kind` is ADDED, MODIFIED or DELETED."""

    plural: str
    kind: str
    raw: Raw


@dataclass(slots=True)
class ClusterState:
    """`pods` have a node, `pending` have none. The lists are those of the API server.

    `before` and `events`: the initial objects and later events; empty if nothing changed.
    """

    nodes: list[Raw] = field(default_factory=list)
    pods: list[Raw] = field(default_factory=list)
    namespaces: list[Raw] = field(default_factory=list)
    volumes: list[Raw] = field(default_factory=list)
    claims: list[Raw] = field(default_factory=list)
    classes: list[Raw] = field(default_factory=list)
    csi_nodes: list[Raw] = field(default_factory=list)
    drivers: list[Raw] = field(default_factory=list)
    attachments: list[Raw] = field(default_factory=list)
    capacities: list[Raw] = field(default_factory=list)
    pending: list[Raw] = field(default_factory=list)
    before: list[tuple[str, Raw]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    #: Choices of a scenario for the complete cluster.
    chosen: dict[str, str] = field(default_factory=dict)

    def cluster(self) -> dict[str, list[Raw]]:
        """All objects except pending pods, as the conformance program reads them, without empty lists."""
        lists = {
            "nodes": self.nodes,
            "pods": self.pods,
            "namespaces": self.namespaces,
            "persistentVolumes": self.volumes,
            "persistentVolumeClaims": self.claims,
            "storageClasses": self.classes,
            "csiNodes": self.csi_nodes,
            "csiDrivers": self.drivers,
            "volumeAttachments": self.attachments,
            "csiStorageCapacities": self.capacities,
        }
        return {name: objects for name, objects in lists.items() if objects}

    def listed(self) -> Iterator[tuple[str, Raw]]:
        """All objects with the plural of their resource, as watches list them.

        A pending pod is listed without a node name, because the API server has no such pods.
        """
        lists = {
            "namespaces": self.namespaces,
            "storageclasses": self.classes,
            "csidrivers": self.drivers,
            "csistoragecapacities": self.capacities,
            "csinodes": self.csi_nodes,
            "persistentvolumes": self.volumes,
            "persistentvolumeclaims": self.claims,
            "volumeattachments": self.attachments,
            "nodes": self.nodes,
            "pods": self.pods,
        }
        for plural, objects in lists.items():
            for raw in objects:
                yield plural, raw
        for pod in self.pending:
            spec = {field: value for field, value in pod["spec"].items() if field != "nodeName"}
            yield "pods", {**pod, "spec": spec}


def a_node(number: int) -> Raw:
    """A node with ample resources and only the hostname label."""
    name = f"n{number}"
    return {
        "metadata": {"name": name, "uid": f"node-{number}", "labels": {HOST: name}},
        "spec": {},
        "status": {"allocatable": dict(PLENTY), "conditions": [{"type": "Ready", "status": "True"}]},
    }


def a_pod(name: str, namespace: str, labels: dict[str, str], node: str = "", scheduler: str = OURS) -> Raw:
    """A pod of one container without requests. With a node it runs there."""
    spec: Raw = {"schedulerName": scheduler, "containers": [{"name": "main", "image": "example.com/main:1"}]}
    metadata: Raw = {
        "name": name,
        "namespace": namespace,
        "uid": f"pod-{name}",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": dict(labels),
    }
    if scheduler == OURS:
        metadata["annotations"] = {"applicationId": f"app-{namespace}"}
    if node:
        spec["nodeName"] = node
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Running" if node else "Pending"}}


def a_namespace(name: str, labels: dict[str, str]) -> Raw:
    """A namespace with the label that the API server gives to each."""
    return {"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name, **labels}}}
