"""How many pods hold a place of a task group, counted as they come and go and never by walking all of them."""

from __future__ import annotations

from muster_operator.agent.ledger import Task
from muster_operator.model.allocations import TerminationType
from muster_operator.model.states import TaskState


def recount(task: Task) -> None:
    """To be called whenever `held`, `release`, the state or the task group of a task may have changed."""
    group = task.pod.membership.task_group if stands(task) else None
    if group == task.counted:
        return
    if task.counted is not None:
        task.counts[task.counted] -= 1
    if group is not None:
        task.counts[group] = task.counts.get(group, 0) + 1
    task.counted = group


def stands(task: Task) -> bool:
    """Whether it is a member's place that stays one: also a placeholder that goes for its member."""
    is_swapped = task.release is TerminationType.PLACEHOLDER_REPLACED
    return task.held and (is_swapped or (task.release is None and task.state is not TaskState.KILLING))
