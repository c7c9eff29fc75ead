"""What the properties of a queue mean, inheritance done: one value per queue.

Source: contract 2.5, 10.1, 10.4, 10.5. Spans are in nanoseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_SECOND = 1_000_000_000


class ApplicationOrder(StrEnum):
    """`application.sort.policy` of a leaf."""

    FIFO = "fifo"
    FAIR = "fair"


class PriorityPolicy(StrEnum):
    """`priority.policy`: a fence shows its offset to those above and nothing of what is below."""

    DEFAULT = "default"
    FENCE = "fence"


class PreemptionPolicy(StrEnum):
    """`preemption.policy`: a fence keeps preemption inside; disabled keeps its allocations from it."""

    DEFAULT = "default"
    FENCE = "fence"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class QueuePolicies:
    """The effective properties of a queue (contract 2.5)."""

    order: ApplicationOrder = ApplicationOrder.FIFO
    #: `application.sort.priority`: priority goes before the order's own key; else it breaks ties.
    sorts_by_priority: bool = True
    priority: PriorityPolicy = PriorityPolicy.DEFAULT
    priority_offset: int = 0
    preemption: PreemptionPolicy = PreemptionPolicy.DEFAULT
    #: How long an ask waits before it may preempt.
    preemption_delay_ns: int = 30 * _SECOND
    #: How long a queue may stay over a lowered maximum; 0 = for ever.
    quota_preemption_delay_ns: int = 0
    #: So many unschedulable asks in one pass send the application to sleep; 0 = never.
    backoff_after: int = 0
    backoff_delay_ns: int = 30 * _SECOND


DEFAULT_POLICIES: Final = QueuePolicies()
