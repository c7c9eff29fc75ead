"""Free TCP ports on the loopback address."""

from __future__ import annotations

import itertools
import os
import socket
from contextlib import suppress

_FIRST = 20_000
"""All shares are below 32768. Linux takes the ports of connections, and of servers that ask for any, from there on."""
_SHARE = 1_000
_SHARES = 12
_offsets = itertools.count(os.getpid())


def free(count: int) -> list[int]:
    """Return ``count`` different free ports. Raises OSError if there are not enough.

    The caller's servers are started later, so another program could take a port in between. Therefore a process does
    not return a port again soon, and each worker of a test run has its own share of the ports.
    """
    ports: list[int] = []
    for offset in itertools.islice(_offsets, _SHARE):
        port = _FIRST + _share() * _SHARE + offset % _SHARE
        with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind(("127.0.0.1", port))
            ports.append(port)
        if len(ports) == count:
            return ports
    raise OSError(f"fewer than {count} of {_SHARE} TCP ports on 127.0.0.1 from {_FIRST + _share() * _SHARE} are free")


def _share() -> int:
    """The share of this worker of pytest-xdist (gw0, gw1, ...). Other programs have the last one together."""
    number = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    return int(number) % (_SHARES - 1) if number.isdigit() else _SHARES - 1
