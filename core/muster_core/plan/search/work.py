"""How much a search may look at: rows and members, not time, so that equal input gives equal output."""

from __future__ import annotations

from typing import Final

from muster_core.plan.draft import Draft
from muster_core.plan.search.demand import is_entangled
from muster_core.plan.shape import Shape

#: What a question costs beside the rows it looks at, in rows.
_QUESTION: Final = 2_000
#: Rows that one search looks at, about 10 ms.
_ENOUGH: Final = 800_000
#: Each of so many searches in vain for the same is a thorough one, the others look at this part of it.
_THOROUGH: Final = 8


class Work:
    """What is left to be done. A first try is always made; what comes after it costs at most this much, or a few times
    as much as the first. `in_vain`: how often the same was searched before and not found; most of the later searches
    are short ones, so that who waits for long slows nobody down.
    """

    __slots__ = ("_left", "_spent")

    def __init__(self, in_vain: int = 0) -> None:
        self._left = _ENOUGH if in_vain % _THOROUGH == 0 else _ENOUGH // _THOROUGH
        self._spent = 0

    @property
    def is_left(self) -> bool:
        """Whether one more question may be asked."""
        return self._left > 0

    def covers(self, questions: int, draft: Draft) -> bool:
        """Whether so many about all rows may still be asked."""
        return questions * (_QUESTION + draft.size) <= self._left

    def look(self, draft: Draft, shape: Shape | None = None, count: int = 0) -> None:
        """Count one question about all rows; `count` members of a shape are placed with it, or none."""
        each = draft.size if shape is not None and is_entangled(shape) else 1
        amount = _QUESTION + draft.size + count * each
        self._left -= amount
        self._spent += amount

    def begin(self, times: int) -> None:
        """What was spent so far was the first try: it may be spent so many times again."""
        self._left = max(self._left, times * self._spent)
