"""Amounts of resources as text, for messages: names and quantities as manifests have them."""

from __future__ import annotations

from typing import Final

from muster_si import keys

_MILLI: Final = 1000
_KIBI: Final = 1024
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_IN_BYTES: Final = ("memory", "ephemeral-storage")


def quantity(resource: str, amount: int) -> str:
    """An amount as a manifest has it, not rounded: `500m`, `1`, `1536Mi`. CPU is in millicores, memory in bytes."""
    if resource == keys.CPU:
        return f"{amount}m" if amount % _MILLI else str(amount // _MILLI)
    if resource not in _IN_BYTES and not resource.startswith("hugepages-"):
        return str(amount)
    step = 0
    while amount and amount % _KIBI == 0 and step < len(_BINARY) - 1:
        amount, step = amount // _KIBI, step + 1
    return f"{amount}{_BINARY[step]}"


def resource_name(resource: str) -> str:
    """The name that Kubernetes uses."""
    return {keys.CPU: "cpu", "cpu": '"cpu" (not vcore)'}.get(resource, resource)
