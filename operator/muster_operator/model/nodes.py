"""A node as the agent sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from muster_operator.model.ids import NodeName
from muster_operator.model.resources import Resources


@dataclass(frozen=True, slots=True)
class Node:
    """What a node offers (``status.allocatable``) and what filters read of it (contract 1.7).

    ``attributes`` are in the vocabulary of ``muster_si.keys``: labels, taints, host name, instance type, readiness.
    ``schedulable`` is false for a cordoned node (``spec.unschedulable``).
    """

    name: NodeName
    uid: str
    capacity: Resources
    attributes: Mapping[str, str]
    schedulable: bool = True
