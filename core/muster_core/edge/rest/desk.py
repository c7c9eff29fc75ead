"""What answers are made of besides the request: the core, and what REST itself keeps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from muster_core.edge.log_level import LevelControl
from muster_core.edge.rest.connections import Connections
from muster_core.edge.rest.history import History
from muster_core.edge.rest.shapes.records import Health
from muster_core.edge.scheduler import Scheduler


@dataclass(slots=True, eq=False)
class Desk:
    """One per server. `levels`: None where the log is not this process's to steer."""

    core: Scheduler
    now_ns: Callable[[], int] = time.time_ns
    levels: LevelControl | None = None
    history: History = field(default_factory=History)
    #: Of the last checks; None = there were none yet.
    health: Health | None = None
    #: One dump at a time (contract 4), and one profile.
    dumping: asyncio.Lock = field(default_factory=asyncio.Lock)
    profiling: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: Configurations are checked one at a time: a large one takes a second of the machine.
    checking: asyncio.Lock = field(default_factory=asyncio.Lock)
    connections: Connections = field(default_factory=Connections)
    started_ns: int = 0

    def __post_init__(self) -> None:
        """It starts now."""
        self.started_ns = self.now_ns()
