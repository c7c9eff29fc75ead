"""The Kubernetes events on the Lease: who leads, as other controllers report it, and whether its watches are stale."""

from __future__ import annotations

from typing import Final

from muster_operator.model.commands import EventType, Importance, PostEvent, Subject

REASON: Final = "LeaderElection"


#: The event about watches that deliver nothing, and that they do again.
WATCHES_STALE: Final = "WatchesStale"
WATCHES_FRESH: Final = "WatchesFresh"


def announcement(namespace: str, name: str, uid: str, leader: str) -> PostEvent:
    """Say that this one leads."""
    return about_lease(namespace, name, uid, REASON, f"{leader} became leader")


def about_lease(namespace: str, name: str, uid: str, reason: str, note: str) -> PostEvent:
    """An event on the Lease."""
    return PostEvent(
        subject=Subject.LEASE,
        namespace=namespace,
        name=name,
        uid=uid,
        type=EventType.WARNING if reason == WATCHES_STALE else EventType.NORMAL,
        reason=reason,
        action=REASON,
        note=note,
        importance=Importance.PROBLEM,
    )
