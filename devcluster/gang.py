"""What can be seen of a gang from outside: counts per task group, taken from the pods' watch alone.

Pure: the watcher tells it what it saw and when. A placeholder that went is *released*; as many of the released ones as
there are bound real pods in the group are *replaced*. The API server does not say which was meant.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from devcluster.api import Json

PLACEHOLDER = "internal.yunikorn.apache.org/placeholder"
GROUP = "yunikorn.apache.org/task-group-name"
GROUPS = "yunikorn.apache.org/task-groups"


@dataclass(slots=True)
class GroupCounts:
    """One task group. The sets hold pod names."""

    asked: int = 0
    created: set[str] = field(default_factory=set)
    reserved: set[str] = field(default_factory=set)
    released: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)
    finished: set[str] = field(default_factory=set)

    @property
    def replaced(self) -> int:
        """Released placeholders whose place a real pod took."""
        return min(len(self.released), len(self.bound))

    @property
    def left(self) -> int:
        """Placeholders that are still there."""
        return len(self.created) - len(self.released)


@dataclass(slots=True)
class PodLife:
    """One pod of the gang, and when (seconds, the caller's clock) it was first seen, bound, and at its end."""

    group: str
    is_placeholder: bool
    seen: float
    bound: float | None = None
    ended: float | None = None


@dataclass(slots=True)
class GangView:
    """All groups, and when (seconds, the caller's clock) each milestone was first seen."""

    groups: dict[str, GroupCounts] = field(default_factory=dict)
    milestones: dict[str, float] = field(default_factory=dict)
    lives: dict[str, PodLife] = field(default_factory=dict)
    """By name of the pod."""

    def see(self, kind: str, pod: Json, now: float) -> None:
        """Take in one watch event of a pod that belongs to some task group; others are ignored."""
        annotations = pod["metadata"].get("annotations") or {}
        name = annotations.get(GROUP)
        if name is None:
            return
        self._announce(annotations.get(GROUPS))
        counts = self.groups.setdefault(name, GroupCounts())
        is_placeholder = annotations.get(PLACEHOLDER) == "true"
        if is_placeholder:
            _see_placeholder(counts, kind, pod)
        else:
            _see_real(counts, kind, pod)
        life = self.lives.setdefault(pod["metadata"]["name"], PodLife(name, is_placeholder, now))
        if life.bound is None and pod["spec"].get("nodeName"):
            life.bound = now
        if life.ended is None and (kind == "DELETED" or (not is_placeholder and _is_over(pod))):
            life.ended = now
        self._note_milestones(now)

    def total(self, what: str) -> int:
        """Sum of one of the counts over all groups."""
        values = [getattr(counts, what) for counts in self.groups.values()]
        return sum(value if isinstance(value, int) else len(value) for value in values)

    def _announce(self, task_groups: str | None) -> None:
        for group in json.loads(task_groups or "[]"):
            self.groups.setdefault(group["name"], GroupCounts()).asked = group["minMember"]

    def _note_milestones(self, now: float) -> None:
        asked = self.total("asked")
        reached = {
            "first pod seen": True,
            "first placeholder created": self.total("created") > 0,
            "all placeholders created": self.total("created") >= asked,
            "all placeholders bound": self.total("reserved") >= asked,
            "first real pod bound": self.total("bound") > 0,
            "all real pods bound": self.total("bound") >= asked,
            "last placeholder gone": self.total("created") >= asked and self.total("left") == 0,
            "all real pods done": self.total("finished") >= asked,
        }
        for milestone, is_reached in reached.items():
            if is_reached:
                self.milestones.setdefault(milestone, now)


def _see_placeholder(counts: GroupCounts, kind: str, pod: Json) -> None:
    name = pod["metadata"]["name"]
    counts.created.add(name)
    if pod["spec"].get("nodeName"):
        counts.reserved.add(name)
    if kind == "DELETED":
        counts.released.add(name)


def _see_real(counts: GroupCounts, kind: str, pod: Json) -> None:
    name = pod["metadata"]["name"]
    if pod["spec"].get("nodeName"):
        counts.bound.add(name)
    if kind == "DELETED" or _is_over(pod):
        counts.finished.add(name)


def _is_over(pod: Json) -> bool:
    return pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}
