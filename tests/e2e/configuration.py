"""Builders of queues.yaml: a scenario passes only the relevant values. JSON is valid YAML."""

import json
from collections.abc import Mapping, Sequence

from devcluster.api import Json

QUICK_PREEMPTION = {"service.preemptionInterval": "500ms", "service.reservationDelay": "200ms"}
"""Short delays between two preemption attempts, and before a node is reserved for a request."""


def a_queue(
    name: str,
    *children: Json,
    guaranteed: Mapping[str, str] | None = None,
    maximum: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
    **more: object,
) -> Json:
    """One queue; a leaf unless it has children."""
    resources = {"guaranteed": dict(guaranteed or {}), "max": dict(maximum or {})}
    queue: Json = {"name": name, **more}
    if children:
        queue["queues"] = list(children)
    if properties:
        queue["properties"] = dict(properties)
    if found := {key: value for key, value in resources.items() if value}:
        queue["resources"] = found
    return queue


def queue_file(*queues: Json, rules: Sequence[Json] = (), **partition: object) -> dict[str, str]:
    """The entry of the ConfigMap: these queues below a root with submit access for all users."""
    root = {"name": "root", "submitacl": "*", "queues": list(queues)}
    found: Json = {"name": "default", "queues": [root], **partition}
    if rules:
        found["placementrules"] = list(rules)
    return {"queues.yaml": json.dumps({"partitions": [found]})}


def queues(**leaf: object) -> dict[str, str]:
    """A configuration with one leaf, ``root.leaf``."""
    return queue_file({"name": "leaf", **leaf})
