"""Realistic pods and nodes: several field managers, environment variables, volumes and statuses.

A pod is about 9 KB of JSON, half of it `managedFields`, like pods of real controllers. The values depend on its number,
so that pods differ. Values that repeat in real clusters (images, names of variables) repeat here.
"""

from __future__ import annotations

from typing import Any, Final

NODES: Final = 2000
NAMESPACES: Final = 40
QUEUES: Final = 20
APPLICATIONS: Final = 400
#: One pod in FOREIGN_EVERY belongs to another scheduler. One in PENDING_EVERY of Muster's pods has no node.
FOREIGN_EVERY: Final = 3
PENDING_EVERY: Final = 20

Raw = dict[str, Any]


def node(number: int) -> Raw:
    """Return a node of 32 CPUs and 256 GiB with the labels and conditions of a cloud node."""
    name = f"node-{number:05d}"
    amounts = {"cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "900Gi"}
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": f"zone-{number % 3}",
        "topology.kubernetes.io/region": "region-1",
        "node.kubernetes.io/instance-type": "large-32",
    }
    conditions = [
        {"type": kind, "status": "True" if kind == "Ready" else "False", "reason": f"Kubelet{kind}"}
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]
    images = [{"names": [f"registry.example/{name}/{i}@sha256:{i:064x}"], "sizeBytes": 10**8} for i in range(30)]
    return {
        "metadata": {
            "name": name,
            "uid": f"node-uid-{number:05d}",
            "resourceVersion": str(number + 1),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": labels,
            "managedFields": _managed("kubelet", 60),
        },
        "spec": {"providerID": f"cloud:///{name}", "podCIDR": "10.0.0.0/24"},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": conditions, "images": images},
    }


def is_foreign(number: int) -> bool:
    """Whether another scheduler places this pod."""
    return number % FOREIGN_EVERY == 0


def is_pending(number: int) -> bool:
    """Whether this pod of Muster has no node."""
    return not is_foreign(number) and number % PENDING_EVERY == 1


def csi_node(number: int) -> Raw:
    """Return the CSINode of a node."""
    name = f"node-{number:05d}"
    driver = {"name": "csi.example.com", "nodeID": name, "topologyKeys": ["topology.example.com/zone"]}
    return {
        "metadata": {"name": name, "uid": f"csi-node-uid-{number:05d}", "resourceVersion": str(number + 1)},
        "spec": {"drivers": [driver | {"allocatable": {"count": 25}}]},
    }


def pod(number: int, *, version: int, node_name: str | None = None, nodes: int = NODES) -> Raw:
    """Return the pod with this number: on `node_name`, else on the node by its number, else pending."""
    where = node_name or ("" if is_pending(number) else f"node-{number % nodes:05d}")
    return {
        "metadata": _metadata(number, version),
        "spec": _spec(number, where),
        "status": _status(number, where),
    }


def _metadata(number: int, version: int) -> Raw:
    app = f"app-{number % APPLICATIONS:04d}"
    labels = {"app.kubernetes.io/name": "trainer", "app.kubernetes.io/managed-by": "jobs", "pod-template-hash": "7d4f"}
    annotations = {"example.com/checksum": f"{number:064x}", "cni.example.com/addresses": f"10.1.{number % 250}.7"}
    if not is_foreign(number):
        labels |= {"applicationId": app, "queue": f"root.team-{number % QUEUES}"}
    return {
        "name": f"{app}-worker-{number:06d}",
        "generateName": f"{app}-worker-",
        "namespace": f"team-{number % NAMESPACES}",
        "uid": f"00000000-0000-4000-8000-{number:012d}",
        "resourceVersion": str(version),
        "creationTimestamp": f"2026-01-01T{number % 24:02d}:{number % 60:02d}:00Z",
        "labels": labels,
        "annotations": annotations,
        "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": app, "uid": f"job-{app}"}],
        "managedFields": [*_managed("kube-controller-manager", 70), *_managed("kubelet", 45)],
    }


def _spec(number: int, where: str) -> Raw:
    variables = [{"name": f"SETTING_{i}", "value": f"value of setting {i}"} for i in range(24)]
    mounts = [{"name": f"volume-{i}", "mountPath": f"/var/lib/volume-{i}"} for i in range(4)]
    container = {
        "name": "main",
        "image": "registry.example/team/trainer:2026.11",
        "command": ["python", "-m", "trainer", "--rank", str(number)],
        "env": variables,
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "volumeMounts": mounts,
        "livenessProbe": {"httpGet": {"path": "/livez", "port": 8080}, "periodSeconds": 10, "timeoutSeconds": 1},
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }
    spec: Raw = {
        "containers": [container],
        "volumes": [{"name": f"volume-{i}", "emptyDir": {}} for i in range(4)],
        "restartPolicy": "Never",
        "serviceAccountName": "default",
        "schedulerName": "default-scheduler" if is_foreign(number) else "muster",
        "tolerations": [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for key in ("not-ready", "unreachable")
        ],
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    return spec | ({"nodeName": where} if where else {})


def _status(number: int, where: str) -> Raw:
    if not where:
        return {"phase": "Pending", "qosClass": "Burstable"}
    since = "2026-01-02T00:00:00Z"
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "phase": "Running",
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": since} for kind in kinds],
        "hostIP": "10.0.0.1",
        "podIP": f"10.1.{number % 250}.7",
        "startTime": since,
        "containerStatuses": [
            {
                "name": "main",
                "ready": True,
                "restartCount": 0,
                "image": "registry.example/team/trainer:2026.11",
                "imageID": f"registry.example/team/trainer@sha256:{7:064x}",
                "containerID": f"containerd://{number:064x}",
                "state": {"running": {"startedAt": since}},
            }
        ],
        "qosClass": "Burstable",
    }


def _managed(manager: str, fields: int) -> list[Raw]:
    """Return the `managedFields` of one manager."""
    owned: Raw = {f"f:field-{i}": {".": {}, "f:name": {}} for i in range(fields)}
    return [{"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsV1": {"f:spec": owned}}]
