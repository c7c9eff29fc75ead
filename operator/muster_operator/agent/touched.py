"""Whom a word is about: names and keys whose state may differ on the two sides while the word travels (ADR 0015)."""

from __future__ import annotations

from collections.abc import Iterator

from muster_operator.model.news import (
    AllocationReleased,
    AllocationReported,
    ApplicationRemoved,
    ApplicationSubmitted,
    AskReleased,
    AskSubmitted,
    FactTold,
    News,
    NodeCreated,
    NodeDecommissioned,
    NodeDrained,
    NodeOpened,
    NodeUpdated,
)
from muster_operator.model.verdicts import AllocationVerdict, ApplicationVerdict, NodeVerdict, Verdict


def by_news(item: News) -> Iterator[str]:
    """Keys, applications and nodes of what we say."""
    match item:
        case ApplicationSubmitted(spec):
            yield spec.app
        case ApplicationRemoved(app):
            yield app
        case AskSubmitted(ask):
            yield ask.key
        case AllocationReported(allocation):
            yield allocation.ask.key
        case AllocationReleased(key=key) | AskReleased(key=key):
            yield key
        case NodeCreated(node, _, existing):
            yield node.name
            yield from (allocation.ask.key for allocation in existing)
        case NodeUpdated(node):
            yield node.name
        case FactTold():
            return  # no inventory shows it
        case NodeDrained(name) | NodeOpened(name) | NodeDecommissioned(name):
            yield name


def by_verdict(verdict: Verdict) -> Iterator[str]:
    """Keys, applications and nodes of what the core says; who says all of an application means it."""
    match verdict:
        case AllocationVerdict():
            yield from (each.key or each.app for each in verdict.cancelled_asks)
            yield from (each.key or each.app for each in verdict.released)
            yield from (each.key for each in verdict.allocated)
            yield from (each.key for each in verdict.rejected_asks)
            yield from (each.key for each in verdict.rejected_allocations)
        case ApplicationVerdict():
            yield from (found.app for found in verdict.accepted)
            yield from (found.app for found in verdict.rejected)
            yield from (found.app for found in verdict.updated)
        case NodeVerdict():
            yield from verdict.accepted
            yield from verdict.rejected or ()
        case _:
            return
