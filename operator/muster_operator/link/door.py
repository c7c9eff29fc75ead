"""Where raw objects end: each is read at once, while the processor still has it at hand, and dropped.

A pod of 8 KB is 60 KB once decoded, and 2 KB as a fact. Held raw in the inbox, the objects of a burst cost 120 MB, and
reading each of them a moment later took ten times as long as reading it here: by then it is in no cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from muster_operator.link.api.decoding import whole
from muster_operator.link.facts import DELETED, fact_of, gone
from muster_operator.link.versions import Versions, version_of
from muster_operator.model.facts import Fact, PodSeen
from muster_operator.model.settings import Settings
from muster_operator.translate.classes import PodClasses
from muster_operator.translate.raw import Raw
from muster_operator.translate.sketch import Sketch


class Door:
    """`settings`: those in force, asked for each object."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings
        self._versions, self._classes = Versions(), PodClasses()

    def fact(self, plural: str, key: str, kind: str | None, raw: Raw | Sketch) -> Fact | None:
        """What an object says; None if it says nothing new, as most of a list does, or is of no use."""
        if not self._versions.is_news(plural, key, kind, version_of(raw)):
            return None
        if not isinstance(raw, Sketch):
            return fact_of(plural, kind, raw, self._settings())
        if kind != DELETED and (pod := self._classes.read(raw, self._settings())) is not None:
            return PodSeen(pod)
        return fact_of(plural, kind, whole(raw), self._settings())

    def begin_list(self, plural: str, *, is_reset: bool) -> None:
        """A list is about to be requested. `is_reset`: the store was set back, so older versions may follow."""
        self._versions.begin_list(plural, is_reset=is_reset)

    def end_list(self, plural: str, version: str) -> Iterator[tuple[str, Fact | None]]:
        """The list is complete: what was deleted unseen, by key. To be consumed to its end."""
        for key in self._versions.end_list(plural, version):
            yield key, gone(plural, key)
