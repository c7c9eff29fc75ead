"""Free TCP ports on the loopback address."""

from __future__ import annotations

import itertools
import os
import socket
from contextlib import suppress

_FIRST = 20_000
"""All shares are below 32768. From there on, Linux assigns ports to connections, and to servers that request port 0."""
_SHARE = 1_000
_SHARES = 12
_offsets = itertools.count(os.getpid())


def free(count: int) -> list[int]:
    """Return ``count`` different free ports. Raises OSError if there are not enough.

    The caller's servers are started later, so another program could take a port in between. Therefore a process does
    not return a port again soon, and each worker of a test run has its own share of the ports.
    """
    first = _FIRST + _share() * _SHARE
    ports: list[int] = []
    for offset in itertools.islice(_offsets, _SHARE):
        port = first + offset % _SHARE
        with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind(("127.0.0.1", port))
            ports.append(port)
        if len(ports) == count:
            return ports
    raise OSError(f"fewer than {count} TCP ports on 127.0.0.1 are free between {first} and {first + _SHARE - 1}")


def _share() -> int:
    """The share of this worker of pytest-xdist (gw0, gw1, ...). All other programs use the last one."""
    number = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    return int(number) % (_SHARES - 1) if number.isdigit() else _SHARES - 1
