"""The history of a cluster: its first objects and later changes, in any order of the kinds.

kube-scheduler gets the final state. A stateful scheduler must have the same state after any history.
"""

from copy import deepcopy
from typing import Final

from tests.conformance.choices import Choices
from tests.conformance.objects import APPS, PLENTY, ClusterState, Event, Raw

#: Percentage of objects that are added later, and of those that are changed.
_ADDED_LATER: Final = 15
_CHANGED: Final = 25


def add_history(choices: Choices, state: ClusterState) -> None:
    """Create a history: some objects are added later, some are changed, and some are deleted."""
    events: list[Event] = []
    for plural, raw in state.listed():
        if choices.chance(_ADDED_LATER):
            events.append(Event(plural, "ADDED", raw))
            continue
        earlier = _earlier(choices, state, plural, raw) if choices.chance(_CHANGED) else raw
        state.before.append((plural, earlier))
        if earlier != raw:
            events.append(Event(plural, "MODIFIED", raw))
    for plural, raw in _deleted_objects(choices, state):
        state.before.append((plural, raw))
        events.append(Event(plural, "DELETED", raw))
    while events:
        state.events.append(events.pop(choices.below(len(events))))


def _earlier(choices: Choices, state: ClusterState, plural: str, raw: Raw) -> Raw:
    """An earlier version of the object, or the object itself if it cannot change."""
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
    """An earlier version of the pod: its labels may change, and it is bound at most once."""
    if pod["status"]["phase"] == "Running" and choices.chance(30):
        del pod["spec"]["nodeName"]
        pod["status"] = {"phase": "Pending"}
    else:
        pod["metadata"]["labels"]["app"] = choices.pick(APPS)


def _deleted_objects(choices: Choices, state: ClusterState) -> list[tuple[str, Raw]]:
    """Copies of existing objects with other names, which are deleted."""
    lists = [("pods", state.pods)] * 3 + [
        ("nodes", state.nodes),
        ("persistentvolumes", state.volumes),
        ("persistentvolumeclaims", state.claims),
        ("csistoragecapacities", state.capacities),
        ("volumeattachments", state.attachments),
    ]
    return [(plural, _copy(choices, objects)) for plural, objects in lists if objects and choices.chance(40)]


def _copy(choices: Choices, objects: list[Raw]) -> Raw:
    found: Raw = deepcopy(choices.pick(objects))
    metadata = found["metadata"]
    metadata["name"] += f"-{choices.below(1000)}"
    if "uid" in metadata:
        metadata["uid"] = f"gone-{metadata['name']}"
    return found
