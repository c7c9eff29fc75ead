"""What stands in an application's way, as values.

Every "no" of plan/ names one of these; scheduling_queue.py keeps the lines before them, engine/growth.py opens them.
"""

from __future__ import annotations

from dataclasses import dataclass

from muster_core.model.ids import ApplicationId, NodeId, QueuePath
from muster_core.model.resources import Resources
from muster_core.world.classes import AskClass
from muster_core.world.users import Holder


@dataclass(frozen=True, slots=True)
class NoNode:
    """The nodes have no room for so many of a class."""

    kind: AskClass
    count: int


@dataclass(frozen=True, slots=True)
class NotTogether:
    """What an application wants of the nodes is more than one class at a time: any growth may help it."""

    app: ApplicationId


@dataclass(frozen=True, slots=True)
class NotHeld:
    """The node where room is held for an ask of the application has too little yet."""

    app: ApplicationId
    node: NodeId


@dataclass(frozen=True, slots=True)
class NoRoom:
    """A holder's maximum leaves too little. `owner`: the gang to whom something is pledged there; it sees
    another head room than the rest.
    """

    holder: Holder
    amount: Resources
    owner: ApplicationId | None = None


@dataclass(frozen=True, slots=True)
class NoStart:
    """As many applications run as the holder may have."""

    holder: Holder


@dataclass(frozen=True, slots=True)
class NoTurn:
    """A gang of the leaf goes first (semantics 11)."""

    leaf: QueuePath


Obstacle = NoNode | NotTogether | NotHeld | NoRoom | NoStart | NoTurn
