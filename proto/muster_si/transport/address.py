"""The address of the core: a unix socket, or TCP.

`unix:///run/muster/si.sock` is the default between two containers of a pod (docs/internals/semantics.md, 29).
`host:port` is for a core on another host and requires TLS files, except on the loopback interface.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster_si.errors import AddressError

_SCHEME: Final = "unix://"
#: sun_path has 108 bytes including its terminator (Linux). gRPC fails with an unclear error beyond that.
_PATH_BYTES: Final = 107
#: Results in mode 0660 of the socket.
_UMASK: Final = 0o117


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed address. `target` is in gRPC's format; `path` is set for a unix socket only."""

    target: str
    path: Path | None
    is_loopback: bool


def parse_address(text: str) -> Address:
    """Parses `unix:///absolute/path` or `host:port`.

    Raises:
        AddressError: the text has neither format.
    """
    if text.startswith("unix:"):
        return _unix(text)
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise AddressError(text, "neither unix:///path nor host:port")
    return Address(text, None, _is_loopback(host.strip("[]")))


def _unix(text: str) -> Address:
    path = Path(text.removeprefix(_SCHEME))
    if not text.startswith(_SCHEME) or not path.is_absolute():
        raise AddressError(text, "write the socket as unix:///absolute/path")
    if len(os.fsencode(path)) > _PATH_BYTES:
        raise AddressError(text, f"the path is longer than the {_PATH_BYTES} bytes a socket's name may have")
    return Address(f"unix:{path}", path, is_loopback=True)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def require_protection(text: str, *, has_tls: bool, allow_plaintext: bool) -> None:
    """Rejects plaintext on connections that others could read or use.

    Raises:
        AddressError: TCP outside of loopback has no TLS files, and plaintext is not allowed explicitly.
    """
    if has_tls or allow_plaintext or parse_address(text).is_loopback:
        return
    reason = "TCP beyond loopback needs certificate, key and CA (mutual TLS), or plaintext allowed explicitly"
    raise AddressError(text, reason)


def clear_stale_socket(address: str, path: Path) -> None:
    """Removes the socket file of a process that was killed.

    Raises:
        AddressError: the directory is missing, the file is not a socket, or a process listens on it.
    """
    if not path.parent.is_dir():
        raise AddressError(address, f"the folder {path.parent} does not exist")
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise AddressError(address, "this file is not a socket; it is left alone")
    if _is_served(path):
        raise AddressError(address, "another process listens on this socket")
    path.unlink(missing_ok=True)


def _is_served(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:  # its queue is full, so that a process listens
            return True
        except OSError:
            return False
    return True


@contextmanager
def private_socket() -> Iterator[None]:
    """Creates unix sockets with mode 0660, without a moment of wider permissions (docs/internals/semantics.md, 29)."""
    before = os.umask(_UMASK)
    try:
        yield
    finally:
        os.umask(before)
