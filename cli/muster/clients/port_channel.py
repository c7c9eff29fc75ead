"""The connection of a port-forward: the data channel of a WebSocket to the API server, as `http.client` uses a socket.

A message begins with the number of its channel (subprotocol v4.channel.k8s.io): 0 = data, 1 = an error of the kubelet.
The first message of each channel has the port instead. Frames: RFC 6455, section 5.2. Requests and responses alternate,
so that no thread is needed.
"""

from __future__ import annotations

import base64
import os
import ssl
from collections.abc import Callable
from http.client import HTTPResponse
from io import BufferedReader, RawIOBase
from typing import Any, Final, TypeVar

import orjson

from muster.clients.http import Http

T = TypeVar("T")

_BINARY, _CLOSE, _PING, _PONG = 2, 8, 9, 10
_DATA: Final = b"\0"
_HANDSHAKE: Final = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Protocol": "v4.channel.k8s.io",
}


class _Channel(RawIOBase):
    """What `http.client` needs of a socket. Subclasses have `readinto` and `sendall`."""

    def readable(self) -> bool:
        """Always."""
        return True

    def makefile(self, *_: object) -> BufferedReader:
        """A buffered reader of the channel."""
        return BufferedReader(self)


class PortChannel(_Channel):
    """Opens the port-forward at a path of the API server. Raises OSError if the server refuses it."""

    def __init__(self, api_server: Http, path: str) -> None:
        self._connection, self._left, self._opened = api_server.connect(), b"", set[int]()
        key = base64.b64encode(os.urandom(16)).decode()
        self._connection.putrequest("GET", path)
        for name, value in (*api_server.headers, *_HANDSHAKE.items(), ("Sec-WebSocket-Key", key)):
            self._connection.putheader(name, value)
        self._connection.endheaders()
        self._answer = self._connection.getresponse()
        if self._answer.status != 101:
            raise OSError(f"port-forward failed: {_reason(self._answer)}")

    def readinto(self, buffer: Any) -> int:
        """Read data; 0 = the pod closed the connection. Raises OSError."""
        while not self._left:
            message = self._message()
            if message is None:
                return 0
            channel, content = message[0], message[1:]
            if channel not in self._opened:
                self._opened.add(channel)
            elif channel:
                raise OSError(f"port-forward failed: {content.decode(errors='replace')}")
            else:
                self._left = content
        count = min(len(buffer), len(self._left))
        buffer[:count], self._left = self._left[:count], self._left[count:]
        return count

    def sendall(self, data: bytes) -> None:
        """Send data. Raises OSError."""
        self._send(_BINARY, _DATA + data)

    def close(self) -> None:
        """Close the connection to the API server."""
        self._connection.close()
        super().close()

    def _message(self) -> bytes | None:
        """The next message of a channel; None = the connection was closed."""
        message = b""
        while True:
            first, second = self._exactly(2) or (_CLOSE, 0)
            size = second & 0x7F
            if size > 125:
                size = int.from_bytes(self._exactly(2 if size == 126 else 8), "big")
            content, code = self._exactly(size), first & 0x0F
            if code == _CLOSE:
                return None
            if code == _PING:
                self._send(_PONG, content)
            elif code != _PONG:
                message += content
                if first & 0x80 and message:
                    return message

    def _exactly(self, size: int) -> bytes:
        """Bytes of the server; empty = it closed the connection. The response's reader has those after its headers."""
        found: bytes = self._answer.fp.read(size) if size else b""
        return found if len(found) == size else b""

    def _send(self, code: int, content: bytes) -> None:
        mask, size = os.urandom(4), len(content)
        length = bytes([0x80 | size]) if size < 126 else b"\xff" + size.to_bytes(8, "big")
        repeated = (mask * (size // 4 + 1))[:size]
        masked = int.from_bytes(content, "big") ^ int.from_bytes(repeated, "big")
        self._connection.sock.sendall(bytes([0x80 | code]) + length + mask + masked.to_bytes(size, "big"))


def _reason(answer: HTTPResponse) -> str:
    """The message of the API server's Status object, else the reason of the status line."""
    try:
        found = orjson.loads(answer.read())
    except orjson.JSONDecodeError:
        found = {}
    return str((found.get("message") if isinstance(found, dict) else "") or answer.reason or answer.status)


class TlsChannel(_Channel):
    """TLS over a channel. API server and kubelet authenticate the pod; its certificate has the name of a Service."""

    def __init__(self, channel: PortChannel) -> None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self._channel, self._received, self._to_send = channel, ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._to_send)
        self._complete(self._tls.do_handshake)

    def readinto(self, buffer: Any) -> int:
        """Read data; 0 = the pod closed the connection. Raises OSError."""
        data = self._complete(lambda: self._tls.read(len(buffer)))
        buffer[: len(data)] = data
        return len(data)

    def sendall(self, data: bytes) -> None:
        """Send data. Raises OSError."""
        self._complete(lambda: self._tls.write(data))

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()
        super().close()

    def _complete(self, action: Callable[[], T]) -> T:
        while True:
            try:
                done = action()
            except ssl.SSLWantReadError:
                self._flush()
                if data := self._channel.read(2**16):
                    self._received.write(data)
                else:
                    self._received.write_eof()
            else:
                self._flush()
                return done

    def _flush(self) -> None:
        if data := self._to_send.read():
            self._channel.sendall(data)
