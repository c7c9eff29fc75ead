"""What REST says of an ask or allocation, as a pod: its name, its place, why it waits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

Json = dict[str, Any]

_NAME: Final = "kubernetes.io/meta/podName"
_NAMESPACE: Final = "kubernetes.io/meta/namespace"


def name(item: Json) -> str:
    """The pod's name; the key of the ask where it is no pod's."""
    tags = item.get("allocationTags") or {}
    return str(tags.get(_NAME) or item["allocationKey"])


def namespace(item: Json) -> str:
    """The namespace of the pod, or an empty string."""
    return str((item.get("allocationTags") or {}).get(_NAMESPACE, ""))


def full_name(item: Json) -> str:
    """As `explain` takes it."""
    return "/".join(filter(None, (namespace(item), name(item))))


def kind(item: Json) -> str:
    """Kind of the item: a placeholder, a pod, or an ask without a pod."""
    if item["placeholder"]:
        return "placeholder"
    return "pod" if _NAME in (item.get("allocationTags") or {}) else "ask"


def state(item: Json) -> str:
    """Where it is: placed, going, parked behind a placeholder, or waiting."""
    if "nodeId" in item:
        return f"terminating: {item['releasing']}" if item.get("releasing") else "bound"
    if item.get("replaces"):
        return f"replaces {item['replaces']['allocationID']}"
    return "pending"


def node(item: Json) -> str:
    """Where it is, or where it will be."""
    return str(item.get("nodeId") or (item.get("replaces") or {}).get("nodeId") or "")


def reason(item: Json) -> Json | None:
    """The entry of its log that says why it waits now."""
    waiting: Iterable[Json] = reversed(item.get("allocationLog") or [])
    return next((entry for entry in waiting if entry.get("reason")), None)


def why(item: Json) -> str:
    """That reason in its own words."""
    found = reason(item)
    return str(found["message"]) if found else ""
