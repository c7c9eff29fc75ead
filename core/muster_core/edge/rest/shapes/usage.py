"""What users and groups use, per queue (contract 4.1)."""

from __future__ import annotations

from pydantic import Field

from muster_core.edge.rest.shapes.base import Amounts, Shape, Texts


class UsageTree(Shape):
    """One queue's part of somebody's usage, and the queues below it."""

    queuePath: str
    resourceUsage: Amounts
    runningApplications: list[str]
    maxResources: Amounts | None = None
    maxApplications: int = Field(description="0 = unlimited")
    children: list[UsageTree]


class UserUsage(Shape):
    """What one user uses."""

    userName: str
    groups: Texts = Field(description="application -> the group whose limit it counts against")
    queues: UsageTree


class GroupUsage(Shape):
    """What the applications of one group use."""

    groupName: str
    applications: list[str]
    queues: UsageTree
