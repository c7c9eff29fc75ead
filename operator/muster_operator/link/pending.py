"""Object updates that wait for the agent: at most three per object, however long they wait.

Watches are always read, because an API server ends a watch that is not. While the core is slow, the updates of one
object are coalesced here: a newer state replaces an older one that nothing has read yet. A deletion, and a pod's
completion, are never replaced, so `seen, completed, deleted, seen` arrives as `completed, deleted, seen`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from muster_operator.model.facts import (
    AttachmentGone,
    ClaimGone,
    Fact,
    NamespaceGone,
    NodeGone,
    PodGone,
    PodSeen,
    VolumeGone,
)

M = TypeVar("M")

_GONE: Final = (PodGone, NodeGone, NamespaceGone, VolumeGone, ClaimGone, AttachmentGone)


class PendingObjects(Generic[M]):
    """Facts by object, oldest object first, and marks of type M between them that are taken after what was put before.

    `coalesced`: called for each fact that was replaced.
    """

    def __init__(self, coalesced: Callable[[], None] = lambda: None) -> None:
        self._coalesced = coalesced
        self._facts: dict[tuple[str, str], list[Fact]] = {}
        self._order: deque[tuple[int, tuple[str, str] | M]] = deque()

    def __len__(self) -> int:
        return len(self._order)

    @property
    def oldest(self) -> int:
        """The number under which the first object was put; there is one."""
        return self._order[0][0]

    def put(self, number: int, plural: str, key: str, fact: Fact) -> None:
        """A new state of an object. `number`: of the input, growing."""
        at = plural, key
        facts = self._facts.get(at)
        if facts is None:
            self._facts[at] = [fact]
            self._order.append((number, at))
            return
        if isinstance(fact, _GONE) and any(isinstance(one, _GONE) for one in facts):
            while not isinstance(facts[-1], _GONE):  # made and deleted again unread: the first deletion says it all
                facts.pop()
                self._coalesced()
            return
        if _is_replaced_by(facts[-1], fact):
            facts.pop()
            self._coalesced()
        facts.append(fact)

    def mark(self, number: int, mark: M) -> None:
        """Something that is to be taken after all that waits now."""
        self._order.append((number, mark))

    def take(self) -> Fact | M:
        """The first fact of the first object, or the mark that is next; there is one."""
        _, at = self._order[0]
        if not isinstance(at, tuple):
            self._order.popleft()
            return at
        facts = self._facts[at]
        if len(facts) > 1:
            return facts.pop(0)
        del self._facts[at]
        self._order.popleft()
        return facts[0]


def _is_replaced_by(old: Fact, new: Fact) -> bool:
    """Whether nothing is lost if only the newer fact is read."""
    if isinstance(old, _GONE):
        return False
    if isinstance(old, PodSeen) and old.pod.has_ended:
        return isinstance(new, PodSeen) and new.pod.has_ended
    return True
