"""The collector of everything that is not counted as it happens: read from its owners when somebody scrapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from muster_core.edge.events.pushes import Pushes
from muster_core.edge.events.store import EventStore
from muster_core.edge.mailbox import Mailbox
from muster_core.edge.metrics import applications, nodes, queues, scarcity
from muster_core.edge.metrics.counted import Metrics
from muster_core.edge.metrics.family import counter, gauge
from muster_core.edge.session import Session
from muster_core.model.ids import RmId
from muster_core.world.world import World


@dataclass(frozen=True, slots=True)
class Owners:
    """Whom the collector asks. `world`: it is another one after the loop began anew."""

    world: Callable[[], World]
    mailbox: Mailbox
    events: EventStore
    pushes: Pushes
    sessions: Mapping[RmId, Session]
    metrics: Metrics


class Watched(Collector):
    """Reads between two turns of the loop; changes nothing."""

    def __init__(self, owners: Owners) -> None:
        self._owners = owners

    def describe(self) -> list[Metric]:
        """No names beforehand: they depend on queues and resources."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Every metric, one after the other: time may pass between two of them."""
        owners = self._owners
        partitions = list(owners.world().partitions.values())
        counted = owners.metrics
        yield from nodes.families(partitions, counted.nodes_refused, counted.nodes_gone)
        yield from applications.families(partitions)
        yield from queues.families(partitions)
        yield from scarcity.families(partitions)
        yield from self._events()
        yield from self._core()

    def _events(self) -> Iterator[Metric]:
        events, pushes = self._owners.events, self._owners.pushes
        for name, meaning, value in (
            ("created", "Records noted since the start.", events.stored),
            ("channeled", "Records handed to the store.", events.stored),
            ("not_channeled", "Records that the store could not take: it never refuses one.", 0),
            ("processed", "Records that the store took in.", events.stored),
            ("stored", "Records put into the ring.", events.stored),
            ("not_stored", "Records that the ring could not take: it never refuses one.", 0),
            ("collected", "Records sent to resource managers.", pushes.told),
        ):
            yield gauge(f"yunikorn_event_total_{name}", meaning, [({}, value)])
        yield gauge("muster_core_events_kept", "Records in the ring.", [({}, len(events))])
        yield gauge("muster_core_event_streams", "Streams of events that are open.", [({}, events.open_streams)])
        held_back = "Events kept from resource managers because they were too many, or the same again."
        yield counter("muster_core_events_held_back_total", held_back, [({}, pushes.held_back)])

    def _core(self) -> Iterator[Metric]:
        owners = self._owners
        mailbox = owners.mailbox
        yield gauge("muster_core_mailbox_depth", "Messages that wait for the world.", [({}, len(mailbox))])
        lag = "Age of the oldest message that waits for the world."
        yield gauge("muster_core_mailbox_lag_seconds", lag, [({}, mailbox.oldest_s())])
        is_open = sum(session.is_open for session in owners.sessions.values())
        yield gauge("muster_core_sessions", "Resource managers with an open session.", [({}, is_open)])
        if owners.metrics.healthy is not None:
            meaning = "1 = the last health checks found nothing."
            yield gauge("muster_core_healthy", meaning, [({}, float(owners.metrics.healthy))])
        ignored = owners.world().ignored
        yield counter(
            "muster_core_ignored_total",
            "What was heard and left without effect, by kind.",
            [({"kind": kind}, count) for kind, count in ignored.items()],
        )
