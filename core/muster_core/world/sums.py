"""Amounts that change often and are read seldom: what the asks of a queue still want.

Changes by one and the same amount are only counted; they are added up when
another amount comes or somebody reads. A burst of asks of one class so costs
one addition per queue, not one per ask and queue.
"""

from __future__ import annotations

from muster_core.model.resources import NOTHING, Resources


class Sum:
    """A total. Its value is the same object for as long as nothing was added."""

    __slots__ = ("_latest", "_times", "_total")

    def __init__(self) -> None:
        self._total = NOTHING
        self._latest = NOTHING
        self._times = 0

    def add(self, amount: Resources, times: int) -> None:
        """Add `times` of an amount; negative `times` takes away."""
        if amount is not self._latest:
            self._fold()
            self._latest = amount
        self._times += times

    @property
    def value(self) -> Resources:
        """What it comes to."""
        if self._times:
            self._fold()
        return self._total

    def _fold(self) -> None:
        self._total = self._total.plus(self._latest, self._times)
        self._times = 0
