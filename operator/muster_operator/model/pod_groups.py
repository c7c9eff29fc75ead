"""PodGroups of Kubernetes (scheduling.k8s.io), as far as a scheduler reads and writes them, and what resembles them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from muster_operator.model.ids import AppId

#: Versions of the API, preferred one first, and the condition type that each has for the scheduler.
CONDITION_OF: Final = {"v1beta1": "PodGroupInitiallyScheduled", "v1alpha2": "PodGroupScheduled"}
VERSIONS: Final = tuple(CONDITION_OF)

#: Reasons of the condition that the API defines, and kube-scheduler's for True.
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"
SCHEDULED: Final = "Scheduled"

#: Gangs in a title.
_SHOWN: Final = 3

_NOT_RECORDED: Final = AppId("")


@dataclass(frozen=True, slots=True)
class GroupCondition:
    """The scheduler's condition of a PodGroup."""

    is_scheduled: bool
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class PodGroup:
    """A PodGroup.

    ``min_count``: 0 = its policy is basic. ``priority``, ``preemption_policy``: None or empty = those of its pods.
    ``topology``: the node label that its pods must have the same value of; empty = none.
    ``app``, ``queue``: from the keys that pods have; empty = not set. ``app_id``: the application of its pods, which
    has its name if ``app`` is empty; set when it is recorded. ``problem``: why its pods cannot
    be scheduled; empty if they can. ``condition``: None = not written yet.

    Without an object, ``uid`` is empty, and the pods declare the group: ``declared_by`` is the label or annotation that
    does it, ``size_key`` the one with ``min_count``, and ``identity`` what distinguishes the group from others. A
    PodGroup of scheduler-plugins has these too, because a label names it.

    ``gangs``: name and minimum of each gang of Koordinator that starts together with others, as far as pods have
    declared them; that of a pod has its own one. ``identity`` has the names of all, and ``name`` is the first one.
    """

    namespace: str
    name: str
    uid: str
    generation: int = 0
    min_count: int = 0
    priority: int | None = None
    preemption_policy: str = ""
    topology: str = ""
    app: str = ""
    queue: str = ""
    app_id: AppId = _NOT_RECORDED
    problem: str = ""
    condition: GroupCondition | None = None
    declared_by: str = ""
    size_key: str = ""
    identity: str = ""
    gangs: tuple[tuple[str, int], ...] = ()

    @property
    def gang(self) -> str:
        """The gang of the pod that declares this group; empty = it is the only one."""
        return self.gangs[0][0] if self.gangs else ""

    @property
    def gang_names(self) -> tuple[str, ...]:
        """The gangs that start together."""
        return tuple(self.identity.split(",")) if self.gangs else (self.name,)

    @property
    def id(self) -> str:
        """What identifies the group in its namespace. Names of objects contain no equals sign."""
        return f"{self.declared_by}={self.identity}" if self.declared_by else self.name

    @property
    def key(self) -> str:
        """``namespace/name``, or what takes its place."""
        return f"{self.namespace}/{self.id}"

    @property
    def title(self) -> str:
        """The name of the group in messages."""
        if self.gangs:
            named = ", ".join(f'"{name}"' for name in self.gang_names[:_SHOWN])
            return f"gangs {named}{', ...' if len(self.gang_names) > _SHOWN else ''}"
        return f'gang "{self.name}" ({self.declared_by})' if self.declared_by else f'PodGroup "{self.name}"'
