"""One registration of a resource manager: its callback, its decoder, what it counts and waits for.

Made by scheduler.py, one at a time per rmID; an older one is over before a
newer one begins. Both the scheduler and the loop run on one event loop, so
nothing here is locked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from muster_core.edge.si_decode import Decoder
from muster_core.model.config import GroupResolver
from muster_core.model.ids import PartitionId, RmId
from muster_si import muster_pb2
from muster_si.api import ResourceManagerCallback
from muster_si.errors import SessionLost


class Kind(Enum):
    """The three streams of seed 003: order holds within each, never across (semantics 19)."""

    APPLICATION = "application"
    NODE = "node"
    ALLOCATION = "allocation"


@dataclass(slots=True, eq=False)
class Fence:
    """Waits until as many messages of each kind were taken in as the resource manager counted.

    `recovers`: it ends a recovery; else somebody only wants to know when.
    """

    counts: Mapping[Kind, int]
    passed: asyncio.Future[None]
    recovers: bool = True

    def open(self) -> None:
        """Let the one who waits go on, if it still does."""
        if not self.passed.done():
            self.passed.set_result(None)


@dataclass(slots=True, eq=False)
class Session:
    """`ended`: why it is over, empty while it is not. `taken`: messages that the world has seen."""

    rm: RmId
    callback: ResourceManagerCallback
    decoder: Decoder
    build_info: Mapping[str, str]
    extra_config: Mapping[str, str]
    config_text: str = ""
    #: `config_text` says something: the default queues are not in force.
    has_queues: bool = False
    ended: str = ""
    #: The world has heard of it: what was decided before is not for it.
    is_in_force: bool = False
    taken: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(Kind, 0))
    #: Items said of allocations and applications (muster_si.words).
    words: int = 0
    fences: list[Fence] = field(default_factory=list)
    #: Where the groups of users come from, by partition, where applications do not name them.
    resolvers: Mapping[PartitionId, GroupResolver] = field(default_factory=dict)
    #: Of messages of applications: a lookup of groups lets no later message pass.
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: What it declared it wants to be asked; nothing until it attends.
    attendance: muster_pb2.Attendance = field(default_factory=muster_pb2.Attendance)
    #: State dumps asked for, by the question's id.
    questions: dict[int, asyncio.Future[muster_pb2.StateDumpAnswer]] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether messages still pass."""
        return not self.ended

    def require_open(self) -> None:
        """Raises SessionLost once the session is over."""
        if self.ended:
            raise SessionLost(self.ended)

    def end(self, reason: str) -> None:
        """Over: whoever waits for something of this session hears SessionLost."""
        if self.ended:
            return
        self.ended = reason
        waiting: list[asyncio.Future[None] | asyncio.Future[muster_pb2.StateDumpAnswer]] = [
            *(fence.passed for fence in self.fences),
            *self.questions.values(),
        ]
        self.fences.clear()
        self.questions.clear()
        for future in waiting:
            if not future.done():
                future.set_exception(SessionLost(reason))

    def take_passed_fences(self) -> list[Fence]:
        """The fences whose counts are all reached; each is handed out once."""
        passed = [
            fence for fence in self.fences if all(self.taken[kind] >= count for kind, count in fence.counts.items())
        ]
        if passed:
            self.fences = [fence for fence in self.fences if fence not in passed]
        return passed
