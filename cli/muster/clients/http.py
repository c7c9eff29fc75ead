"""One server over HTTP/1.1, asked one thing at a time; the connection is kept while it is of use."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection, RemoteDisconnected
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from muster.errors import BadUsage, Unreachable

#: Seconds without a byte after which a server is taken for dead.
PATIENCE_S: Final = 20.0
Connect = Callable[[], HTTPConnection]


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    def json(self) -> Any:
        """The body as data, None where it is none."""
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return None


class Http:
    """`where`: how messages call the server. `prefix`: put before every path."""

    def __init__(
        self, where: str, connect: Connect, prefix: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        self.where = where
        self._connect, self._prefix, self._headers = connect, prefix, dict(headers or {})
        self._connection: HTTPConnection | None = None

    def send(self, method: str, path: str, body: object = None) -> Reply:
        """Ask, once more on a new connection where a kept one turns out to be closed.

        Raises:
            Unreachable: no answer came.
        """
        try:
            is_new = self._connection is None
            try:
                return self._send(method, path, body)
            except (RemoteDisconnected, ConnectionError):
                self.close()
                if is_new:
                    raise
                return self._send(method, path, body)
        except (OSError, HTTPException) as error:
            self.close()
            said = error.reason if isinstance(error, ssl.SSLError) else getattr(error, "strerror", None)
            raise Unreachable(self.where, said or error) from error

    def _send(self, method: str, path: str, body: object) -> Reply:
        if self._connection is None:
            self._connection = self._connect()
        raw = None if body is None else orjson.dumps(body)
        headers = self._headers | ({"Content-Type": "application/json"} if raw is not None else {})
        self._connection.request(method, self._prefix + path, raw, headers)
        answer = self._connection.getresponse()
        return Reply(answer.status, answer.read(), dict(answer.getheaders()))

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def to_url(url: str, tls: Callable[[], ssl.SSLContext]) -> tuple[Connect, str]:
    """How to connect to the server that a URL names, and what goes before its paths.

    Raises:
        BadUsage: it is not the URL of a server.
    """
    wrong = f"{url!r} is not the URL of a server; write http://HOST:PORT or https://HOST:PORT"
    try:
        parts = urlsplit(url)
    except ValueError as error:  # half of an IPv6 address
        raise BadUsage(wrong) from error
    host = parts.hostname
    if parts.scheme not in ("http", "https") or not host:
        raise BadUsage(wrong)
    try:
        port = parts.port
    except ValueError as error:
        raise BadUsage(f"{url!r} has no usable port: {error}") from error
    prefix = parts.path.rstrip("/")
    if parts.scheme == "http":
        return lambda: HTTPConnection(host, port, timeout=PATIENCE_S), prefix
    context = tls()
    return lambda: HTTPSConnection(host, port, timeout=PATIENCE_S, context=context), prefix
