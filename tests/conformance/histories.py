"""The history of a cluster: its first objects and later changes, in any order of the kinds.

kube-scheduler is shown the present. Whoever keeps books about a cluster must arrive at the same from any past.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Final

from tests.conformance.choices import Choices
from tests.conformance.objects import APPS, PLENTY, ClusterState, Event, Raw

#: Of a hundred objects, how many came later, and how many were otherwise.
_CAME: Final = 15
_CHANGED: Final = 25


def give_past(choices: Choices, state: ClusterState) -> None:
    """Let some objects come later, some be otherwise before, and some be gone by now."""
    events: list[Event] = []
    for plural, raw in state.listed():
        if choices.chance(_CAME):
            events.append(Event(plural, "ADDED", raw))
            continue
        earlier = _earlier(choices, state, plural, raw) if choices.chance(_CHANGED) else raw
        state.before.append((plural, earlier))
        if earlier != raw:
            events.append(Event(plural, "MODIFIED", raw))
    for plural, raw in _gone(choices, state):
        state.before.append((plural, raw))
        events.append(Event(plural, "DELETED", raw))
    while events:
        state.events.append(events.pop(choices.below(len(events))))


def _earlier(choices: Choices, state: ClusterState, plural: str, raw: Raw) -> Raw:
    """How the object may have been; itself where it cannot have been otherwise."""
    found: Raw = deepcopy(raw)
    match plural:
        case "nodes":
            _node(choices, state, found)
        case "pods":
            _pod(choices, found)
        case "namespaces":
            found["metadata"]["labels"] = {"team": choices.pick(("one", "two"))}
        case "persistentvolumeclaims":
            found["metadata"].pop("annotations", None)
            found["spec"].pop("volumeName", None)
            found["status"] = {"phase": "Pending"}
        case "persistentvolumes":
            found["metadata"].pop("labels", None)
            found["spec"].pop("claimRef", None)
            found["status"] = {"phase": "Available"}
        case "csinodes":
            for driver in found["spec"]["drivers"]:
                driver["allocatable"] = {"count": choices.below(3)}
        case "csistoragecapacities":
            found["capacity"] = choices.pick(("1Gi", "10Gi"))
        case _:
            pass
    return found


def _node(choices: Choices, state: ClusterState, node: Raw) -> None:
    other = choices.pick(state.nodes)
    match choices.pick(("labels", "taints", "cordon", "room", "features")):
        case "labels":
            node["metadata"]["labels"] = dict(other["metadata"]["labels"])
        case "taints":
            node["spec"]["taints"] = [{"key": "dedicated", "effect": "NoSchedule"}] if choices.chance(50) else []
        case "cordon":
            node["spec"]["unschedulable"] = not node["spec"].get("unschedulable", False)
        case "room":
            node["status"]["allocatable"] = dict(PLENTY)
        case _:
            node["status"].pop("declaredFeatures", None)


def _pod(choices: Choices, pod: Raw) -> None:
    """Labels change at any time; a node is given once. A node's name in a pod that waits is not the API server's."""
    if pod["status"]["phase"] == "Running" and choices.chance(30):
        del pod["spec"]["nodeName"]
        pod["status"] = {"phase": "Pending"}
    else:
        pod["metadata"]["labels"]["app"] = choices.pick(APPS)


def _gone(choices: Choices, state: ClusterState) -> list[tuple[str, Raw]]:
    """Twins of what is there, under other names."""
    lists = [("pods", state.pods)] * 3 + [
        ("nodes", state.nodes),
        ("persistentvolumes", state.volumes),
        ("persistentvolumeclaims", state.claims),
        ("csistoragecapacities", state.capacities),
        ("volumeattachments", state.attachments),
    ]
    return [(plural, _twin(choices, objects)) for plural, objects in lists if objects and choices.chance(40)]


def _twin(choices: Choices, objects: list[Raw]) -> Raw:
    found: Raw = deepcopy(choices.pick(objects))
    metadata = found["metadata"]
    metadata["name"] += f"-{choices.below(1000)}"
    if "uid" in metadata:
        metadata["uid"] = f"gone-{metadata['name']}"
    return found
