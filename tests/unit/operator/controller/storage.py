"""Builders of claims and volumes for scenarios: raw objects and their events."""

from typing import Any

from muster_operator.model.cluster_events import ClusterEvent
from muster_operator.model.settings import Settings
from muster_operator.model.storage import ClaimRef
from muster_operator.runtime.loop import key_of
from muster_operator.translate.objects import read_deletion, read_object

Raw = dict[str, Any]

#: The claim that most scenarios use.
DATA = ClaimRef("dev", "data", "uid-data")


def a_claim(name: str = "data", *, volume: str = "", selected: str = "", **metadata: Any) -> Raw:
    """Return a claim in ``dev`` with the UID ``uid-<name>``. With a volume it is bound."""
    annotations = {"volume.kubernetes.io/selected-node": selected} if selected else {}
    if volume:
        annotations["pv.kubernetes.io/bind-completed"] = "yes"
    return {
        "metadata": {"name": name, "namespace": "dev", "uid": f"uid-{name}", "annotations": annotations, **metadata},
        "spec": {"storageClassName": "late", "volumeName": volume},
        "status": {"phase": "Bound" if volume else "Pending"},
    }


def a_volume(name: str = "disk", *, claim: str = "", node: str = "", phase: str = "Available", **spec: Any) -> Raw:
    """Return a volume for this claim of ``dev``, or for any. ``node``: the only node with access; empty: all nodes."""
    if claim:
        spec["claimRef"] = {"namespace": "dev", "name": claim, "uid": f"uid-{claim}"}
    if node:
        here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": spec, "status": {"phase": phase}}


def seen(plural: str, raw: Raw) -> ClusterEvent:
    """Return the event of an object."""
    fact = read_object(plural, raw, Settings())
    assert fact is not None
    return fact


def gone(plural: str, raw: Raw) -> ClusterEvent:
    """Return the event of a deleted object."""
    fact = read_deletion(plural, key_of(plural, raw))
    assert fact is not None
    return fact


def claim_seen(name: str = "data", **fields: Any) -> ClusterEvent:
    """Return the event of a claim."""
    return seen("persistentvolumeclaims", a_claim(name, **fields))


def volume_seen(name: str = "disk", **fields: Any) -> ClusterEvent:
    """Return the event of a volume."""
    return seen("persistentvolumes", a_volume(name, **fields))
