"""Whether a kubelet refused a pod that was bound to its node, as its status tells (semantics 5)."""

from __future__ import annotations

from typing import Final

from muster_operator.translate.raw import Raw, mapping, objects, text

#: ``OutOfcpu``, ``OutOfmemory``, ``OutOfpods``, ``OutOfnvidia.com/gpu``: what the kubelet counts otherwise than we do.
_OUT_OF: Final = "OutOf"
#: The other reasons with which a kubelet refuses a pod. ``Evicted`` and ``NodeShutdown`` end running pods too.
_REASONS: Final = frozenset(
    {
        "UnexpectedAdmissionError",
        "TopologyAffinityError",
        "SMTAlignmentError",
        "NodeAffinity",
        "NodeName",
        "NodePorts",
        "NodeUnschedulable",
        "TaintToleration",
        "PodOSNotSupported",
        "PodOSSelectorNodeLabelDoesNotMatch",
        "PodFeatureUnsupported",
        "AppArmor",
        "Evicted",
        "NodeShutdown",
        "Preempting",
    }
)
_CONTAINERS: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


def _has_run(status: Raw) -> bool:
    """Whether any container of the pod was ever started."""
    states = (
        mapping(container.get(state))
        for field in _CONTAINERS
        for container in objects(status.get(field))
        for state in ("state", "lastState")
    )
    return any(state.get("running") or state.get("terminated") for state in states)


def kubelet_refusal(status: Raw) -> str:
    """The kubelet's reason for a pod that it would not start; empty for every other pod.

    Such a pod is Failed for ever: whoever made it makes another. One that ran and was evicted then is not refused.
    """
    reason = text(status.get("reason"))
    is_refusal = reason in _REASONS or reason.startswith(_OUT_OF)
    return reason if is_refusal and status.get("phase") == "Failed" and not _has_run(status) else ""
