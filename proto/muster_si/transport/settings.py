"""Limits and deadlines of the gRPC transport, the same on both sides unless said otherwise.

Read by the client and the server when they start; nothing here changes while they run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_KIB: Final = 1024
_MIB: Final = 1024 * _KIB


@dataclass(frozen=True, slots=True)
class TransportSettings:
    """How much may wait, how big a message may be, how long silence may last.

    max_message_bytes: largest message sent or taken; 16 MiB holds a node with a thousand existing allocations many
      times over. Must be equal on both sides.
    batch_items: asks, allocations, nodes ... that are merged into one message while the stream is busy. Larger saves
      little (100 items cost 1.2 times what 200 cost per item) and delays the first of them.
    batch_bytes: a batch is closed when it reaches this size, so that one slow message does not hold the stream.
    client_outbox_bytes: what may wait for a stream of the client; a call that finds it full waits.
    server_outbox_bytes: what may wait for a resource manager that does not read; more ends its session. Large enough
      for the answers to a recovery of 100,000 pods.
    keepalive_s, keepalive_timeout_s: silence after which the peer is pinged, and how long the answer may take. A dead
      peer is noticed after their sum (20 s); a closed socket at once.
    register_timeout_s: how long a registration waits for the server to come up and answer.
    question_timeout_s: how long a call of administration waits for the server to come up and answer. Shorter than what
      the API server gives a webhook, which may have to wait for it.
    attach_timeout_s: a session whose resource manager opens no stream for this long counts as lost.
    farewell_s: how long an ending session may still deliver what it has to say.
    """

    max_message_bytes: int = 16 * _MIB
    batch_items: int = 200
    batch_bytes: int = 1 * _MIB
    client_outbox_bytes: int = 8 * _MIB
    server_outbox_bytes: int = 64 * _MIB
    keepalive_s: float = 10.0
    keepalive_timeout_s: float = 10.0
    register_timeout_s: float = 10.0
    question_timeout_s: float = 2.5
    attach_timeout_s: float = 60.0
    farewell_s: float = 1.0

    def options(self) -> list[tuple[str, int | str]]:
        """As gRPC channel arguments, for both sides."""
        return [
            ("grpc.max_receive_message_length", self.max_message_bytes),
            ("grpc.max_send_message_length", self.max_message_bytes),
            ("grpc.keepalive_time_ms", round(self.keepalive_s * 1000)),
            ("grpc.keepalive_timeout_ms", round(self.keepalive_timeout_s * 1000)),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.http2.ping_timeout_ms", round(self.keepalive_timeout_s * 1000)),
            # The server lets clients ping twice as often as ours do, before it calls it abuse.
            ("grpc.http2.min_ping_interval_without_data_ms", round(self.keepalive_s * 500)),
            # Two cores on one port would each get some of the streams; the second must fail to start.
            ("grpc.so_reuseport", 0),
            # A core that restarts is back within a second; the default backs off to two minutes.
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", 5000),
            ("grpc.max_reconnect_backoff_ms", 1000),
            # Every client object has its own connection: one that breaks takes nobody else's session along.
            ("grpc.use_local_subchannel_pool", 1),
        ]
