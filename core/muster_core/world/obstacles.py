"""What stands in an application's way, as values; the lines of those who wait before each.

Every "no" of plan/ names one of these; engine/growth.py opens their lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from muster_core.model.ids import ApplicationId, NodeId, QueuePath
from muster_core.model.resources import Resources
from muster_core.world.applications import Application
from muster_core.world.classes import AskClass
from muster_core.world.lines import Line
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


@dataclass(frozen=True, slots=True)
class NoSlot:
    """Another gang holds a part of its places (semantics 12)."""


Obstacle = NoNode | NotTogether | NotHeld | NoRoom | NoStart | NoTurn | NoSlot


@dataclass(slots=True, eq=False)
class Obstacles:
    """The lines of a partition; one without waiters is forgotten."""

    lines: dict[Obstacle, Line] = field(default_factory=dict)
    #: Lines before nodes, by class and count.
    by_kind: dict[AskClass, dict[int, Line]] = field(default_factory=dict)
    #: Obstacles of quotas, by who has the quota.
    by_holder: dict[Holder, dict[NoRoom, Line]] = field(default_factory=dict)
    together: dict[ApplicationId, Line] = field(default_factory=dict)
    #: Of those for whom room is held, by node.
    by_node: dict[NodeId, dict[ApplicationId, Line]] = field(default_factory=dict)
    #: Lines that are open.
    opened: dict[Line, None] = field(default_factory=dict)
    #: Where each application stands.
    standing: dict[ApplicationId, dict[Obstacle, Line]] = field(default_factory=dict)

    def is_open(self, app: ApplicationId) -> bool:
        """Whether something that it was refused for may have changed."""
        return any(line.is_open for line in self.standing.get(app, {}).values())

    def close(self, line: Line) -> None:
        """Nothing has changed for those who stand in it, after all."""
        line.is_open = False
        self.opened.pop(line, None)

    def before_nodes(self) -> Iterator[Line]:
        """Every line that any growth of nodes may open."""
        for lines in self.by_kind.values():
            yield from lines.values()
        for held in self.by_node.values():
            yield from held.values()
        yield from self.together.values()

    def stand(self, app: Application, obstacles: list[Obstacle]) -> None:
        """Stand before these and nothing else; they are closed for everybody who stands there."""
        self.leave(app)
        for obstacle in obstacles:
            line = self.lines.get(obstacle) or self._open(obstacle)
            self.close(line)
            line.join(app.queue.path, app.id)
            self.standing.setdefault(app.id, {})[obstacle] = line

    def leave(self, app: Application) -> None:
        """Stand nowhere."""
        for obstacle, line in self.standing.pop(app.id, {}).items():
            line.leave(app.queue.path, app.id)
            if not line.waiting and self.lines.get(obstacle) is line:
                self._forget(obstacle)

    def _open(self, obstacle: Obstacle) -> Line:
        line = self.lines[obstacle] = Line()
        match obstacle:
            case NoNode(kind, count):
                self.by_kind.setdefault(kind, {})[count] = line
            case NoRoom():
                self.by_holder.setdefault(obstacle.holder, {})[obstacle] = line
            case NotTogether(app):
                self.together[app] = line
            case NotHeld(app, node):
                self.by_node.setdefault(node, {})[app] = line
            case _:
                pass
        return line

    def _forget(self, obstacle: Obstacle) -> None:
        self.close(self.lines.pop(obstacle))
        match obstacle:
            case NoNode(kind, count):
                lines = self.by_kind[kind]
                del lines[count]
                if not lines:
                    del self.by_kind[kind]
            case NoRoom():
                rooms = self.by_holder[obstacle.holder]
                del rooms[obstacle]
                if not rooms:
                    del self.by_holder[obstacle.holder]
            case NotTogether(app):
                del self.together[app]
            case NotHeld(app, node):
                held = self.by_node[node]
                del held[app]
                if not held:
                    del self.by_node[node]
            case _:
                pass
