"""One listening socket for IPv4 and IPv6, where the machine has both: who comes may come by either."""

from __future__ import annotations

import socket

from muster_operator.link.errors import StartupRefused


def listener(option: str, port: int) -> socket.socket:
    """On all interfaces; 0 = any free port. `option` names the port to people.

    Raises:
        StartupRefused: the port cannot be used.
    """
    try:
        if socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        return socket.create_server(("", port))
    except OSError as error:
        raise StartupRefused(f"{option} {port} cannot be used: {error.strerror or error}") from error
