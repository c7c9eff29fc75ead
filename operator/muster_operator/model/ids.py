"""Identifiers, enumerations and resource amounts."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import Final, NewType


class TextEnum(StrEnum):
    """A StrEnum with the hash of its text."""

    __hash__ = str.__hash__


class NumberEnum(IntEnum):
    """An IntEnum with the hash of its number."""

    __hash__ = int.__hash__


AppId = NewType("AppId", str)
PodUid = NewType("PodUid", str)
NodeName = NewType("NodeName", str)
AllocationId = NewType("AllocationId", str)

#: An allocation that the core has not named yet, or one that only Kubernetes knows.
NO_ALLOCATION_ID = AllocationId("")


def application_id(namespace: str, name: str, sharing_groups: Mapping[str, str]) -> AppId:
    """The identity of the application `name` of a pod in `namespace`. `sharing_groups`: group by namespace.

    No namespace has an `@` or a slash in its name, so that identities of namespaces and groups never meet.
    """
    group = sharing_groups.get(namespace)
    return AppId(f"@{group}/{name}" if group else f"{namespace}/{name}")


def application_name(app: AppId) -> str:
    """The ID that the pods of the application name: what follows the first slash."""
    return app.partition("/")[2] or app


Resources = Mapping[str, int]

#: The largest amount that the Scheduler Interface can carry (seed 003, Quantity).
MAX_AMOUNT: Final = 2**63 - 1


def added(left: Resources, right: Resources) -> dict[str, int]:
    """The sum, name by name."""
    total = dict(left)
    for name, amount in right.items():
        total[name] = total.get(name, 0) + amount
    return total


def larger(left: Resources, right: Resources) -> dict[str, int]:
    """The larger amount of each name."""
    peak = dict(left)
    for name, amount in right.items():
        peak[name] = max(peak.get(name, 0), amount)
    return peak


def times(amounts: Resources, count: int) -> dict[str, int]:
    """The amounts of ``count`` equal members."""
    return {name: amount * count for name, amount in amounts.items()}
