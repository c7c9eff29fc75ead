"""Whether a node reaches a volume: the volume's node affinity and the node's labels (Kubernetes, NodeSelector)."""

from __future__ import annotations

from muster_operator.model.nodes import Node
from muster_operator.model.storage import Requirement, Volume
from muster_si import keys


def reaches(node: Node, volume: Volume) -> bool:
    """Whether one of the terms holds; an empty term never does."""
    if volume.reach is None:
        return True
    return any(term and all(_holds(node, requirement) for requirement in term) for term in volume.reach)


def _holds(node: Node, requirement: Requirement) -> bool:
    value = node.attributes.get(keys.NODE_LABEL_PREFIX + requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(value, requirement)
        case _:
            return False


def _compares(value: str | None, requirement: Requirement) -> bool:
    try:
        [bound] = requirement.values
        number, limit = int(value or ""), int(bound)
    except ValueError:
        return False
    return number > limit if requirement.operator == "Gt" else number < limit
