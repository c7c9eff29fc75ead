"""The Kubernetes event on the Lease that says who leads now, as other controllers tell it."""

from __future__ import annotations

from typing import Final

from muster_operator.model.commands import EventType, Importance, PostEvent, Subject

REASON: Final = "LeaderElection"


def announcement(namespace: str, name: str, uid: str, leader: str) -> PostEvent:
    """Say that this one leads."""
    return PostEvent(
        subject=Subject.LEASE,
        namespace=namespace,
        name=name,
        uid=uid,
        type=EventType.NORMAL,
        reason=REASON,
        action=REASON,
        note=f"{leader} became leader",
        importance=Importance.PROBLEM,
    )
