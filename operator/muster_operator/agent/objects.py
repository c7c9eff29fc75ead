"""What else filters read (volumes, claims, classes, namespaces): kept, and told to the core when it changes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from muster_operator.agent.ledger import Ledger
from muster_operator.model.news import FactTold, News
from muster_operator.model.objects import ClusterObject
from muster_operator.model.outcome import Outcome


def record(ledger: Ledger, found: ClusterObject) -> None:
    """Keep how the object looks, or that it is gone."""
    key = found.kind, found.name
    if found.gone:
        ledger.objects.pop(key, None)
    else:
        ledger.objects[key] = found


def seen(ledger: Ledger, out: Outcome, found: ClusterObject) -> None:
    """The object looks like this, or is gone; the core is told what is new to it."""
    known = ledger.objects.get((found.kind, found.name))
    record(ledger, found)
    if known != found and (known is not None or not found.gone):
        out.news.append(FactTold(found))


def all_told(ledger: Ledger, at_once: int) -> Iterator[list[News]]:
    """Everything that is known, in portions of that size: what a session begins with."""
    everything = iter(list(ledger.objects.values()))
    while portion := [FactTold(found) for found in islice(everything, at_once)]:
        yield list[News](portion)
