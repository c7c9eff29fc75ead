"""Which features a node's kubelet has to declare for a pod, as kube-scheduler's NodeDeclaredFeatures infers them.

Kubernetes 1.36 knows five declared features, of which two are asked for by what a new pod says; the others are about
changes of running pods and about the API server. Source: KEP-5328.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from muster_operator.translate.raw import Raw, objects


def _restarts_all(spec: Raw) -> bool:
    """KEP-5532: a container that exits in a certain way restarts the whole pod."""
    return any(
        rule.get("action") == "RestartAllContainers"
        for field in ("containers", "initContainers")
        for container in objects(spec.get(field))
        if "restartPolicyRules" in container
        for rule in objects(container["restartPolicyRules"])
    )


def _is_on_the_host_with_users_of_its_own(spec: Raw) -> bool:
    """KEP-5607: the node's network, but not its user namespace."""
    return spec.get("hostNetwork") is True and spec.get("hostUsers") is False


_FEATURES: Final[Mapping[str, Callable[[Raw], bool]]] = {
    "RestartAllContainersOnContainerExits": _restarts_all,
    "UserNamespacesHostNetworkSupport": _is_on_the_host_with_users_of_its_own,
}


def required_features(spec: Raw) -> list[str]:
    """Their names in order; of nearly every pod there are none."""
    return [name for name, is_required in _FEATURES.items() if is_required(spec)]
