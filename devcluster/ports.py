"""Free TCP ports on the loopback address."""

from __future__ import annotations

import socket
from contextlib import ExitStack


def free(count: int) -> list[int]:
    """``count`` different ports that nobody listened on a moment ago.

    All are held at once while picking, so they differ; they are let go before the caller starts its servers,
    so another program may still take one: the server then fails to start and says so.
    """
    with ExitStack() as held:
        ports: list[int] = []
        for _ in range(count):
            listener = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            listener.bind(("127.0.0.1", 0))
            ports.append(listener.getsockname()[1])
        return ports
