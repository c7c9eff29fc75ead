"""Queue (contract 4.1)."""

from __future__ import annotations

from pydantic import Field

from muster_core.edge.rest.shapes.base import Amounts, Percents, Shape, Texts, TimeNs


class Template(Shape):
    """What a leaf made on demand below the queue gets."""

    maxApplications: int
    maxResource: Amounts
    guaranteedResource: Amounts
    properties: Texts


class Queue(Shape):
    """One queue; its `children` where they were asked for, their names always."""

    queuename: str = Field(description="the full path")
    status: str
    partition: str
    pendingResource: Amounts
    maxResource: Amounts
    guaranteedResource: Amounts
    allocatedResource: Amounts
    preemptingResource: Amounts
    headroom: Amounts
    isLeaf: bool
    isManaged: bool
    properties: Texts
    parent: str
    template: Template | None = None
    childNames: list[str]
    absUsedCapacity: Percents
    maxRunningApps: int = Field(description="0 = unlimited")
    runningApps: int
    currentPriority: int
    allocatingAcceptedApps: list[str]
    sortingPolicy: str
    prioritySorting: bool
    preemptionEnabled: bool
    isPreemptionFence: bool
    preemptionDelay: str
    quotaPreemptionDelay: str
    isPriorityFence: bool
    priorityOffset: int
    isQuotaPreemptionRunning: bool
    quotaPreemptionStartTime: TimeNs | None = None
    preemptionPausedUntil: TimeNs | None = Field(
        default=None, description="till when it may not take back what another queue took from it in turns"
    )
    unschedAskBackoff: int
    askBackoffDelay: str
    pledgedResource: Amounts = Field(description="promised to gangs below here that are not whole yet")
    children: list[Queue]
