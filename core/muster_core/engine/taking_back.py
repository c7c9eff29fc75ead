"""Allocations are taken back, by whoever decides it: who has a pod is told to go, and gone when that is confirmed.

A place without a pod (semantics 16, Direct) has nobody to tell: it is gone at once. Every module that takes
something back does it here, so that no other one has to know of the difference.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster_core.engine import ledger
from muster_core.model.effects import Release
from muster_core.model.release import Termination
from muster_core.world.applications import Allocation, Application
from muster_core.world.outbox import Answer
from muster_core.world.world import Partition


def time_out(
    partition: Partition, app: Application, taken: Iterable[Allocation], why: str, now_ns: int, answer: Answer
) -> None:
    """Take allocations of one application back (TIMEOUT); what there is to tell goes into the answer."""
    for allocation in list(taken):
        ledger.mark_releasing(app, allocation, Termination.TIMEOUT, now_ns)
        if allocation.spec.podless:
            ledger.drop(partition, app, allocation, now_ns)
        else:
            key = allocation.spec.key
            answer.released.append(Release(partition.id, app.id, key, allocation.id, Termination.TIMEOUT, why))


def vacate(partition: Partition, victims: Iterable[tuple[Application, Allocation]], now_ns: int) -> None:
    """Of those that were told to go by a preemption the places without pods are gone now: the room is held for
    whoever they went for.
    """
    for app, victim in victims:
        if victim.spec.podless:
            ledger.drop(partition, app, victim, now_ns)
