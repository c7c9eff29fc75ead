"""The connection of a port-forward: the data channel of a WebSocket to the API server, as `http.client` uses a socket.

A message begins with the number of its channel (subprotocol v4.channel.k8s.io): 0 = data, 1 = an error of the kubelet.
The first message of each channel has the port instead. Requests and responses alternate, so that no thread is needed.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from io import BufferedReader, RawIOBase
from typing import Any, Final, TypeVar

import orjson
import websocket

from muster.clients.http import Http, PortForwardForbidden

T = TypeVar("T")

_DATA: Final = b"\0"


class _Channel(RawIOBase):
    """What `http.client` needs of a socket. Subclasses have `readinto`, `sendall` and `end`."""

    _readers = 0
    _is_closing = False

    def readable(self) -> bool:
        """Always."""
        return True

    def makefile(self, *_: object) -> BufferedReader:
        """A reader for one response."""
        self._readers += 1
        return _Reader(self)

    def close(self) -> None:
        """End the connection, after the response that is being read: `http.client` closes before it reads that."""
        self._is_closing = True
        if not self._readers and not self.closed:
            self.end()
            super().close()

    def reader_closed(self) -> None:
        """A response was read."""
        self._readers -= 1
        if self._is_closing:
            self.close()

    def end(self) -> None:
        """End the connection."""
        raise NotImplementedError


class _Reader(BufferedReader):
    """Leaves the channel open when it is closed, as the files of a socket do."""

    def __init__(self, channel: _Channel) -> None:
        super().__init__(channel)
        self._channel: _Channel | None = channel

    def close(self) -> None:
        """Close this reader only."""
        channel, self._channel = self._channel, None
        if channel is not None:
            self.detach()
            channel.reader_closed()


class PortChannel(_Channel):
    """Opens the port-forward at a path of the API server. Raises OSError if the server refuses it."""

    def __init__(self, api_server: Http, path: str) -> None:
        self._connection, self._left, self._opened = api_server.connect(), b"", set[int]()
        self._connection.connect()  # through the proxy and with the certificates of the kubeconfig
        self._socket = websocket.WebSocket()
        try:
            self._socket.connect(
                f"ws://{self._connection.host}{api_server.prefix}{path}",
                socket=self._connection.sock,
                # A kubelet answers 406 to a request that accepts a content type.
                header=[f"{name}: {value}" for name, value in api_server.headers if name != "Accept"],
                subprotocols=["v4.channel.k8s.io"],
                suppress_origin=True,
            )
        except websocket.WebSocketException as error:
            self._connection.close()
            failure = PortForwardForbidden if getattr(error, "status_code", 0) == 403 else OSError
            raise failure(f"port-forward failed: {_reason(error)}") from error

    def readinto(self, buffer: Any) -> int:
        """Read data; 0 = the pod closed the connection. Raises OSError."""
        while not self._left:
            try:
                code, message = self._socket.recv_data()
            except websocket.WebSocketConnectionClosedException:
                return 0
            except websocket.WebSocketException as error:
                raise OSError(f"port-forward failed: {error}") from error
            if code == websocket.ABNF.OPCODE_CLOSE:
                return 0
            if not message:
                continue
            channel, content = message[0], bytes(message[1:])
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
        try:
            self._socket.send_binary(_DATA + data)
        except websocket.WebSocketException as error:
            raise OSError(f"port-forward failed: {error}") from error

    def end(self) -> None:
        """Close the connection to the API server."""
        self._connection.close()


def _reason(error: websocket.WebSocketException) -> str:
    """The message of the API server's Status object, else that of the error."""
    try:
        found = orjson.loads(getattr(error, "resp_body", None) or b"")
    except orjson.JSONDecodeError:
        found = {}
    return str((found.get("message") if isinstance(found, dict) else "") or error)


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

    def end(self) -> None:
        """Close the channel."""
        self._channel.close()

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
