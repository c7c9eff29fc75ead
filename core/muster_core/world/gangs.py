"""What a gang has reserved: a part of its application's ledger (world/applications.py)."""

from __future__ import annotations

from dataclasses import dataclass, field

from muster_core.model.ids import AllocationId, TaskGroup
from muster_core.model.resources import NOTHING, Resources


@dataclass(slots=True, eq=False)
class GroupCount:
    """A task group's history (REST: placeholderData)."""

    resources: Resources
    count: int = 0
    replaced: int = 0
    timed_out: int = 0


@dataclass(slots=True, eq=False)
class Gang:
    """What an application has reserved, and how far its reservation is.

    `over`: the reservation ended (reserved, timed out or given up): real asks
    are scheduled from now on and a placeholder ask comes too late.
    """

    #: Of live placeholders.
    reserved: Resources = NOTHING
    #: Of every placeholder, live or going.
    allocated: Resources = NOTHING
    #: Promised on the queues of the path and not yet allocated (semantics 11).
    pledge: Resources = NOTHING
    #: The pledge had its head room when it was made; else it waits for it (Queue.awaited).
    backed: bool = False
    #: Live placeholders by task group, oldest first.
    live: dict[TaskGroup, dict[AllocationId, None]] = field(default_factory=dict)
    groups: dict[TaskGroup, GroupCount] = field(default_factory=dict)
    over: bool = False
    #: It was seen with places when it was reported: its partial placement is not of
    #: this world's making (semantics 12, 17).
    recovered: bool = False
    #: How often in a row places for all its members were looked for in vain.
    searches: int = 0
    #: Capacity of the cluster when it was asked whether an empty one could hold the gang.
    checked_at: Resources | None = None
    #: Which placeholder clock runs; a clock of another number is stale.
    clock: int = 0
    #: From when on it runs.
    since_ns: int = 0
