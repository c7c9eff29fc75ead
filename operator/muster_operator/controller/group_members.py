"""The pods that name a PodGroup, as `pod_groups` records them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TypeVar

from muster_operator.model.ids import PodUid
from muster_operator.model.pod_groups import GroupCondition, PodGroup

_T = TypeVar("_T")


@dataclass(slots=True)
class GroupMembers:
    """The pods that name a PodGroup, whether it exists or not.

    ``living``: their scheduler names, which ``schedulers`` counts. Of these, ``bound`` have a node, ``ready`` wait and
    can be requested (they have no gates and no missing claims): for which gang of the group, which ``sizes`` counts;
    and ``disagreeing`` contradict the group: how, which ``disagreements`` counts. ``succeeded``: those that have ended
    successfully. ``declared``: how the living and succeeded ones declare the group if there is no object, which
    ``declarations`` counts.
    ``status``: the group and why its pods wait, as the pods were compared with it last. ``reported``: the condition
    that was written last. ``checked_at``: time of the timer for it and the conditions of the pods, whose last text is
    ``told``; ``report_s``: the least time until it is written again. ``pause_s``: length of the last pause before the
    group was requested again, which lasts until ``paused_until``.
    """

    living: dict[PodUid, str] = field(default_factory=dict)
    schedulers: Counter[str] = field(default_factory=Counter)
    ready: dict[PodUid, str] = field(default_factory=dict)
    sizes: Counter[str] = field(default_factory=Counter)
    bound: set[PodUid] = field(default_factory=set)
    succeeded: set[PodUid] = field(default_factory=set)
    disagreeing: dict[PodUid, str] = field(default_factory=dict)
    disagreements: Counter[str] = field(default_factory=Counter)
    declared: dict[PodUid, PodGroup] = field(default_factory=dict)
    declarations: Counter[PodGroup] = field(default_factory=Counter)
    status: tuple[PodGroup | None, str] | None = None
    reported: GroupCondition | None = None
    checked_at: float = 0.0
    told: str = ""
    report_s: float = 0.0
    is_paused: bool = False
    pause_s: float = 0.0
    paused_until: float = 0.0

    def add(self, uid: PodUid, scheduler: str) -> None:
        """Adds a pod that has not ended."""
        self.living[uid] = scheduler
        self.schedulers[scheduler] += 1

    def await_start(self, uid: PodUid, gang: str) -> None:
        """Adds a living pod that can be requested. ``gang``: its gang in the group; empty = there is only one."""
        self.ready[uid] = gang
        self.sizes[gang] += 1

    def disagree(self, uid: PodUid, problem: str) -> None:
        """Records how a living pod contradicts the group; empty = it does not."""
        before = self.disagreeing.pop(uid, "")
        _decrease(self.disagreements, before)
        if problem:
            self.disagreeing[uid] = problem
            self.disagreements[problem] += 1

    def declare(self, uid: PodUid, group: PodGroup | None) -> None:
        """Records how a pod declares the group; None = it does not, or is gone. Equal declarations keep their order."""
        before = self.declared.get(uid)
        if before == group:
            return
        if before is not None:
            del self.declared[uid]
            _decrease(self.declarations, before)
        if group is not None:
            self.declared[uid] = group
            self.declarations[group] += 1

    def forget(self, uid: PodUid) -> None:
        """Removes a pod, except its declaration."""
        self.disagree(uid, "")
        _decrease(self.schedulers, self.living.pop(uid, ""))
        if uid in self.ready:
            self.sizes[self.ready.pop(uid)] -= 1
        self.bound.discard(uid)
        self.succeeded.discard(uid)

    @property
    def has_started(self) -> bool:
        """Whether a member has a node or has succeeded. Later ones need not be as many as start together."""
        return bool(self.bound or self.succeeded)

    @property
    def is_empty(self) -> bool:
        """Whether no pod names the group."""
        return not self.living and not self.succeeded


def _decrease(counter: Counter[_T], key: _T) -> None:
    """Subtracts one, and removes a key with zero, so that the counter has only keys that exist."""
    if key:
        counter[key] -= 1
        if not counter[key]:
            del counter[key]
