"""Names and counts of the Kubernetes events that we posted, so that equal ones become one series (semantics 28)."""

from __future__ import annotations

import os
import socket
from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from muster_operator.model.commands import PostEvent

#: Series remembered; the one longest silent is forgotten first and would begin anew.
REMEMBERED: Final = 4096


@dataclass(frozen=True, slots=True)
class Known:
    """An event that stands in the API server: its name, and how often it was said."""

    name: str
    count: int


class Series:
    """What stands in the API server, by object and series."""

    def __init__(self) -> None:
        self.instance: Final = f"muster-operator-{socket.gethostname()}"[:128]
        self._known: OrderedDict[tuple[str, str, str], Known] = OrderedDict()
        self._number = 0

    def turn(self, command: PostEvent) -> Known | None:
        """The series' event with its count moved on; None = it has to be made."""
        known = self._known.get(_key(command)) if command.series else None
        if known is None:
            return None
        known = replace(known, count=known.count + 1)
        self._known[_key(command)] = known
        self._known.move_to_end(_key(command))
        return known

    def start(self, command: PostEvent, now: datetime) -> str:
        """A name for a new event, unique among processes and restarts; remembered if it begins a series."""
        self._number += 1
        name = f"{command.name[:200]}.{int(now.timestamp() * 1e6):x}{os.getpid():x}{self._number:x}"
        if command.series:
            self._known[_key(command)] = Known(name, 1)
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return name

    def forget(self, command: PostEvent) -> None:
        """The event could not be made."""
        self._known.pop(_key(command), None)


def _key(command: PostEvent) -> tuple[str, str, str]:
    return (command.namespace, command.uid or command.name, command.series)
