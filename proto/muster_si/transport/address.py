"""Where the core listens and the operator connects: a unix socket, or TCP.

`unix:///run/muster/si.sock` is the default way between two containers of a pod (semantics 29); `host:port` is for a
core elsewhere and asks for TLS files, except on the loopback interface.
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
#: sun_path holds 108 bytes with its end mark (Linux); gRPC fails with a riddle beyond.
_PATH_BYTES: Final = 107
#: What others and executers lose: the socket's mode is 0660.
_UMASK: Final = 0o117


@dataclass(frozen=True, slots=True)
class Address:
    """An address that was understood. `target` is gRPC's spelling; `path` is set for a unix socket only."""

    target: str
    path: Path | None
    is_loopback: bool


def parse_address(text: str) -> Address:
    """Understands `unix:///absolute/path` or `host:port`.

    Raises AddressError.
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
    """Refuses plaintext where somebody else could listen or talk.

    Raises AddressError: TCP off the loopback interface needs TLS files, or to be allowed in so many words.
    """
    if has_tls or allow_plaintext or parse_address(text).is_loopback:
        return
    reason = "TCP beyond loopback needs certificate, key and CA (mutual TLS), or plaintext allowed explicitly"
    raise AddressError(text, reason)


def clear_stale_socket(address: str, path: Path) -> None:
    """Removes the socket file that a killed process left behind.

    Raises AddressError when the folder is missing, the file is no socket, or somebody listens on it.
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
        except BlockingIOError:  # its queue is full, so there is one
            return True
        except OSError:
            return False
    return True


@contextmanager
def private_socket() -> Iterator[None]:
    """A unix socket bound in here is readable and writable by owner and group, and was never more (semantics 29)."""
    before = os.umask(_UMASK)
    try:
        yield
    finally:
        os.umask(before)
