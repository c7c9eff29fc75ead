"""Requests for nodes to Cluster Autoscaler (ProvisioningRequest)."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from muster_operator.model.ids import AppId
from muster_operator.model.pods import PlaceholderSpec, PodRef

#: The classes of Cluster Autoscaler.
CHECK_CAPACITY: Final = "check-capacity.autoscaling.x-k8s.io"
BEST_EFFORT_ATOMIC: Final = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
CLASSES: Final = (CHECK_CAPACITY, BEST_EFFORT_ATOMIC)

#: Maximum number of pod sets of one request in the API.
MAX_POD_SETS: Final = 32


class PodSet(Struct, frozen=True, gc=False):
    """Members of a task group without a node. ``group``: index of the group in its gang."""

    group: int
    count: int
    placeholder: PlaceholderSpec


class NodesRequest(Struct, frozen=True, gc=False):
    """A request of a gang for the nodes of its members without a node."""

    name: str
    app: AppId
    originator: PodRef
    provisioning_class: str
    pod_sets: tuple[PodSet, ...]
