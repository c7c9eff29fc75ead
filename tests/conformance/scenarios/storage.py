"""Volumes, claims and storage classes as raw objects, and how pods use them."""

from typing import Any, Final

from tests.conformance.choices import Choices
from tests.conformance.objects import HOST, ZONE, ZONES, ClusterState, Raw

DRIVER: Final = "csi.example.com"
POOLED: Final = "pool.example.com"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
LATE: Final = "WaitForFirstConsumer"
_GIB: Final = 2**30


def fraction(hundredths: int) -> str:
    """A GiB and a part of a byte, as a quantity."""
    return f"{_GIB * 1000 + 10 * hundredths}m"


def a_class(name: str, provisioner: str = DRIVER, mode: str = LATE, zones: list[str] | None = None) -> Raw:
    """A storage class; `zones`: where it can provision volumes, None = everywhere."""
    found: Raw = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}
    if zones is not None:
        found["allowedTopologies"] = [{"matchLabelExpressions": [{"key": ZONE, "values": zones}]}]
    return found


def a_volume(state: ClusterState, gib: int, of_class: str, source: Raw | None = None) -> Raw:
    """An unclaimed volume. All volumes of a cluster differ in size, because the choice between equal ones is random."""
    number = len(state.volumes)
    name = f"pv{number}"
    csi = {"csi": {"driver": DRIVER, "volumeHandle": f"handle-{number}"}}
    found: Raw = {
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {
            "capacity": {"storage": str(gib * _GIB + number * 4096)},
            "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Filesystem",
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": of_class,
            **(source or csi),
        },
        "status": {"phase": "Available"},
    }
    state.volumes.append(found)
    return found


def a_claim(state: ClusterState, namespace: str, of_class: str, gib: int = 1, name: str = "") -> Raw:
    """An unbound claim."""
    name = name or f"c{sum(claim['metadata']['namespace'] == namespace for claim in state.claims)}"
    found: Raw = {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": f"{gib}Gi"}},
            "storageClassName": of_class,
        },
        "status": {"phase": "Pending"},
    }
    state.claims.append(found)
    return found


def bind(claim: Raw, volume: Raw) -> None:
    """Bind claim and volume, as the controller does."""
    metadata = claim["metadata"]
    metadata["annotations"] = {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}
    claim["spec"]["volumeName"] = volume["metadata"]["name"]
    claim["status"] = {"phase": "Bound", "capacity": volume["spec"]["capacity"]}
    volume["spec"]["claimRef"] = {key: metadata[key] for key in ("name", "namespace", "uid")}
    volume["spec"]["claimRef"]["kind"] = "PersistentVolumeClaim"
    volume["status"] = {"phase": "Bound"}


def tie(choices: Choices, state: ClusterState, volume: Raw) -> None:
    """Restrict the volume to some nodes."""
    key = choices.pick((ZONE, ZONE, HOST))
    names = [node["metadata"]["name"] for node in state.nodes]
    values = choices.some(ZONES if key == ZONE else names, 2 if choices.chance(30) else 1, at_least=1)
    expressions: list[Raw] = [{"key": key, "operator": choices.pick(("In", "In", "NotIn")), "values": values}]
    if choices.chance(10):
        expressions.append({"key": "disk", "operator": "Exists"})
    terms = [{"matchExpressions": expressions}]
    volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}


def mount(pod: Raw, source: Raw) -> None:
    """Add a volume to the pod."""
    volumes: list[Raw] = pod["spec"].setdefault("volumes", [])
    volumes.append({"name": f"v{len(volumes)}", **source})


def mount_claim(pod: Raw, name: str) -> None:
    """Add the volume of a claim, at most once."""
    source = {"persistentVolumeClaim": {"claimName": name}}
    if not any(volume.get("persistentVolumeClaim") == source["persistentVolumeClaim"] for volume in mounted(pod)):
        mount(pod, source)


def mounted(pod: Raw) -> list[Raw]:
    """The volumes of the pod."""
    found: list[Raw] = pod["spec"].get("volumes", [])
    return found


def claims_of(state: ClusterState, pod: Raw) -> list[str]:
    """Names of claims that the pod could use."""
    namespace = pod["metadata"]["namespace"]
    return [claim["metadata"]["name"] for claim in state.claims if claim["metadata"]["namespace"] == namespace]


def use_claims(choices: Choices, state: ClusterState, pod: Raw, at_most: int, missing: int = 0) -> None:
    """Mount some claims of the pod's namespace; `missing`: probability of a missing claim in percent."""
    names: list[Any] = claims_of(state, pod)
    for name in choices.some(names, at_most, at_least=min(1, len(names))):
        mount_claim(pod, name)
    if missing and choices.chance(missing):
        mount_claim(pod, "missing")
