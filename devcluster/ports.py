"""Free TCP ports on the loopback address."""

from __future__ import annotations

import socket
from contextlib import ExitStack


def free(count: int) -> list[int]:
    """Return ``count`` different free ports.

    The ports are closed again before the caller starts its servers. If another program takes one in between, the server
    fails to start and reports it.
    """
    with ExitStack() as held:
        ports: list[int] = []
        for _ in range(count):
            listener = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            listener.bind(("127.0.0.1", 0))
            ports.append(listener.getsockname()[1])
        return ports
