"""The steps of a scheduling cycle, for whoever times them: the core below its edge has no clock (style 12).

A cycle says after each step which one it was; what is made of it changes nothing in the world.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class Step(StrEnum):
    """QUEUE: choosing the next leaf; APPLICATION: ordering a leaf's applications; NODE: finding places for one of
    them and carrying that out.
    """

    QUEUE = "queue"
    APPLICATION = "app"
    NODE = "node"


Lap = Callable[[Step], None]


def untimed(step: Step) -> None:
    """Nobody times it."""
