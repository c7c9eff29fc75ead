"""What a gang has reserved: a part of its application's ledger (world/applications.py)."""

from __future__ import annotations

from dataclasses import dataclass, field

from muster_core.model.ids import AllocationId, ApplicationId, TaskGroup
from muster_core.model.resources import NOTHING, Resources
from muster_core.world.takeovers import GangKey


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
    #: Its placeholders that were reported: that they are a part of its places is not of this world's making.
    recovered: dict[AllocationId, None] = field(default_factory=dict)
    #: Its place among gangs that contend for the same resources; None = nothing was asked for yet.
    key: GangKey | None = None
    #: Gangs that took over reservations of this one and are not complete yet: it is not planned before they are.
    lost_to: dict[ApplicationId, None] = field(default_factory=dict)
    #: Take-overs that failed in a row, when the next one may be tried, and the epoch of the last one.
    takeover_failures: int = 0
    takeover_at_ns: int = 0
    takeover_epoch: tuple[int, int] = (-1, -1)
    #: How often in a row places for all its members were looked for in vain.
    searches: int = 0
    #: Capacity of the cluster when it was asked whether an empty one could hold the gang, and whether it could not.
    checked_at: Resources | None = None
    exceeds_nodes: bool = False
    #: Which placeholder timer runs; one of another number is stale. 0 = none: nothing was reserved yet, or it pauses.
    clock: int = 0
    #: From when on it runs.
    since_ns: int = 0
    #: For how long it ran before it paused.
    elapsed_ns: int = 0
    #: It runs although nothing was reserved yet: an Atomic gang waits for requests, or the gang is impossible.
    is_early: bool = False
    #: It pauses: a take-over or a preemption took all that the gang held.
    is_paused: bool = False
    #: Why its queue or its limits can never hold it; empty = they may.
    impossible: str = ""
