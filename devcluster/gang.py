"""The observable state of a gang: counts per task group, computed from watch events of pods.

Pure: the caller passes events and times. A deleted placeholder is *released*. The number of *replaced* placeholders is
the smaller of released placeholders and bound real pods, because the API server does not record which pod replaced
which placeholder.
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
    """Counts of one task group. The sets contain pod names."""

    asked: int = 0
    created: set[str] = field(default_factory=set)
    reserved: set[str] = field(default_factory=set)
    released: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)
    finished: set[str] = field(default_factory=set)

    @property
    def replaced(self) -> int:
        """Number of released placeholders that a real pod replaced."""
        return min(len(self.released), len(self.bound))

    @property
    def left(self) -> int:
        """Number of placeholders that still exist."""
        return len(self.created) - len(self.released)


@dataclass(slots=True)
class PodLife:
    """One pod of the gang, and when it was first seen, bound and ended (seconds of the caller's clock)."""

    group: str
    is_placeholder: bool
    seen: float
    bound: float | None = None
    ended: float | None = None


@dataclass(slots=True)
class GangView:
    """All groups, and when each milestone was first reached (seconds of the caller's clock)."""

    groups: dict[str, GroupCounts] = field(default_factory=dict)
    milestones: dict[str, float] = field(default_factory=dict)
    lives: dict[str, PodLife] = field(default_factory=dict)
    """By pod name."""

    def see(self, kind: str, pod: Json, now: float) -> None:
        """Process one watch event. Pods without a task group are ignored."""
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
