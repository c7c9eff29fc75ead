"""Reads the core's state dump: whether its ledgers are empty."""

from __future__ import annotations

from devcluster.api import Json


def leftovers(dump: Json) -> list[str]:
    """What applications, queues and nodes still hold or want, by the core's own dump (contract 4.1 and 10.9)."""
    found = [
        f"application {app.get('applicationID')}: {key}"
        for app in dump["applications"]
        for key in ("allocations", "requests", "usedResource", "pendingResource")
        if _amount(app.get(key))
    ]
    queues = dump["queues"] if isinstance(dump["queues"], list) else [dump["queues"]]
    while queues:
        queue = queues.pop()
        queues += queue.get("children") or []
        found += [
            f"queue {queue.get('queuename')}: {key}"
            for key in ("allocatedResource", "pendingResource")
            if _amount(queue.get(key))
        ]
    nodes = [node for partition in dump["nodes"] for node in partition["nodesInfo"] or []]
    return found + [f"node {node.get('nodeID')}: allocations" for node in nodes if node.get("allocations")]


def _amount(value: object) -> bool:
    """Whether a list has elements or a map of resources a number other than zero."""
    return any(value.values()) if isinstance(value, dict) else bool(value)
