"""What a theme is: what it does to nodes, to pods that run, to pods that wait, and which other objects it adds."""

from __future__ import annotations

from tests.judge.dice import Dice
from tests.judge.scene import Raw, Scene


class Theme:
    """One subject of placement. Each part does nothing unless a theme says otherwise.

    A cluster has one theme that rules it and perhaps others beside it, so that filters meet.
    """

    def node(self, dice: Dice, node: Raw) -> None:
        """Dress a node."""

    def objects(self, dice: Dice, scene: Scene) -> None:
        """Add what is neither node nor pod; nodes are there already."""

    def running(self, dice: Dice, scene: Scene, pod: Raw) -> None:
        """Dress a pod that has a node."""

    def pending(self, dice: Dice, scene: Scene, pod: Raw) -> None:
        """Dress a pod that is to be placed."""
