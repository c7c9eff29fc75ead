"""What directories said, for as long as it is believed (contract 2.9)."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from muster_core.edge.groups.answers import Answer
from muster_core.model.config import GroupResolver

#: How long groups are believed.
GROUPS_S: Final = 300.0
#: How long a "no" is believed.
PROBLEM_S: Final = 30.0
#: Users that are remembered; beyond it the one that was told first is forgotten.
_MOST: Final = 10_000

Key = tuple[GroupResolver, str]


class Cache:
    """Answers by resolver and user. Times are seconds of any clock that only goes forward."""

    def __init__(self, most: int = _MOST) -> None:
        self._answers: OrderedDict[Key, tuple[float, Answer]] = OrderedDict()
        self._most = most

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, key: Key, now_s: float) -> Answer | None:
        """What is known; None = nothing, or not any more."""
        known = self._answers.get(key)
        if known is None:
            return None
        until_s, answer = known
        if now_s >= until_s:
            del self._answers[key]
            return None
        return answer

    def put(self, key: Key, answer: Answer, now_s: float) -> None:
        """Remember an answer from now on."""
        self._answers.pop(key, None)
        self._answers[key] = (now_s + (PROBLEM_S if answer.problem else GROUPS_S), answer)
        if len(self._answers) > self._most:
            self._answers.popitem(last=False)
