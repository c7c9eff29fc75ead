"""The agent's one heap of times to look at something again. What to look at is ``reminders``' business."""

from __future__ import annotations

import heapq

from muster_operator.agent.ledger import Deadline, Ledger, Phase


def remember(ledger: Ledger, deadline: Deadline) -> None:
    """Put it on the heap; nothing is ever taken off before its time, a subject that is gone is skipped then."""
    ledger.deadline_count += 1
    heapq.heappush(ledger.deadlines, (deadline.due, ledger.deadline_count, deadline))


def next_due(ledger: Ledger) -> float | None:
    """When ``remind`` has something to do next, in the clock of ``now``; None = nothing, or no session."""
    return ledger.deadlines[0][0] if ledger.deadlines and ledger.phase is Phase.LIVE else None


def due(ledger: Ledger, now: float) -> Deadline | None:
    """Take the next one off the heap whose time has come, None = there is none."""
    if not ledger.deadlines or ledger.deadlines[0][0] > now:
        return None
    return heapq.heappop(ledger.deadlines)[2]
