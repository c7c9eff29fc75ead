"""Identifiers, enumerations and resource amounts."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import Final, NewType


class TextEnum(StrEnum):
    """A StrEnum with the hash of its text, which is faster than Enum's."""

    __hash__ = str.__hash__


class NumberEnum(IntEnum):
    """An IntEnum with the hash of its number, which is faster than Enum's."""

    __hash__ = int.__hash__


AppId = NewType("AppId", str)
PodUid = NewType("PodUid", str)
NodeName = NewType("NodeName", str)
AllocationId = NewType("AllocationId", str)

#: ID of an allocation that the core has not assigned yet, or has removed.
NO_ALLOCATION_ID = AllocationId("")

#: Name of no node.
NO_NODE = NodeName("")


def application_id(namespace: str, name: str, sharing_groups: Mapping[str, str]) -> AppId:
    """The identity of the application `name` of a pod in `namespace`. `sharing_groups`: group by namespace.

    Namespace names contain no `@` and no slash, so that identities of namespaces and groups are distinct.
    """
    group = sharing_groups.get(namespace)
    return AppId(f"@{group}/{name}" if group else f"{namespace}/{name}")


def run_id(app: AppId, number: int) -> AppId:
    """The identity of another run of the application. Namespaces and groups contain no `#`."""
    space, _, name = app.partition("/")
    return AppId(f"{space}#{number}/{name}")


def application_name(app: AppId) -> str:
    """The application ID as written on the pods: the part after the first slash. It is the same for all runs."""
    return app.partition("/")[2] or app


Resources = Mapping[str, int]

#: Maximum amount of a Quantity in the Scheduler Interface.
MAX_AMOUNT: Final = 2**63 - 1


def added(left: Resources, right: Resources) -> dict[str, int]:
    """The sum by resource."""
    total = dict(left)
    for name, amount in right.items():
        total[name] = total.get(name, 0) + amount
    return total


def larger(left: Resources, right: Resources) -> dict[str, int]:
    """The maximum by resource."""
    peak = dict(left)
    for name, amount in right.items():
        peak[name] = max(peak.get(name, 0), amount)
    return peak


def times(amounts: Resources, count: int) -> dict[str, int]:
    """The amounts of ``count`` equal members."""
    return {name: amount * count for name, amount in amounts.items()}
