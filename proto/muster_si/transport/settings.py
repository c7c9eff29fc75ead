"""Limits and timeouts of the gRPC transport, for both sides unless stated otherwise.

Client and server read them when they start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_KIB: Final = 1024
_MIB: Final = 1024 * _KIB


@dataclass(frozen=True, slots=True)
class TransportSettings:
    """Limits of queues and messages, and timeouts in seconds.

    max_message_bytes: largest message that is sent or received. 16 MiB is several times the size of a node with a
       thousand existing allocations. It must be equal on both sides.
    batch_items: maximum number of items (requests, allocations, nodes) in a merged message. A larger value saves
       little (100 items cost 1.2 times what 200 cost per item) and delays the first item.
    batch_bytes: maximum size of a merged message, so that one slow message does not block the stream.
    client_outbox_bytes: what can be queued for a stream of the client. Calls wait while the queue is full.
    server_outbox_bytes: what can be queued for a resource manager that does not read. Beyond it its session ends.
       It is sufficient for the responses to a recovery of 100,000 pods.
    keepalive_s, keepalive_timeout_s: idle time until the peer is pinged, and timeout of the response. A lost peer is
       detected after their sum (20 s), a closed socket immediately.
    register_timeout_s: timeout of a registration, including the wait for the server to start.
    question_timeout_s: timeout of an administration call, including the wait for the server to start. It is shorter
       than the API server's timeout of a webhook that waits for the call.
    attach_timeout_s: time after which a session without any stream counts as lost.
    farewell_s: time in which an ending session can send what is queued.
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
        """The settings as gRPC channel arguments for both sides."""
        return [
            ("grpc.max_receive_message_length", self.max_message_bytes),
            ("grpc.max_send_message_length", self.max_message_bytes),
            ("grpc.keepalive_time_ms", round(self.keepalive_s * 1000)),
            ("grpc.keepalive_timeout_ms", round(self.keepalive_timeout_s * 1000)),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.http2.ping_timeout_ms", round(self.keepalive_timeout_s * 1000)),
            # The server tolerates twice as many pings as the client sends before it closes the connection.
            ("grpc.http2.min_ping_interval_without_data_ms", round(self.keepalive_s * 500)),
            # Two cores on one port would each get a part of the streams. The second one must fail to start.
            ("grpc.so_reuseport", 0),
            # A core restarts within a second, but gRPC's default backoff grows to two minutes.
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", 5000),
            ("grpc.max_reconnect_backoff_ms", 1000),
            # Every client has its own connection, so that a broken one does not affect other sessions.
            ("grpc.use_local_subchannel_pool", 1),
        ]
