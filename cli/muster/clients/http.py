"""HTTP/1.1 client of one server: one request at a time, over one connection that is kept open."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection, RemoteDisconnected
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from muster.errors import BadUsage, Unreachable

#: Seconds without a byte after which a request fails.
TIMEOUT_S: Final = 20.0
Connect = Callable[[], HTTPConnection]


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP response."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    def json(self) -> Any:
        """The parsed body, None if it is not JSON."""
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return None


class Http:
    """`where`: name of the server in messages. `prefix`: prepended to every path."""

    def __init__(
        self, where: str, connect: Connect, prefix: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        self.where = where
        self._connect, self._prefix, self._headers = connect, prefix, dict(headers or {})
        self._connection: HTTPConnection | None = None

    def send(self, method: str, path: str, body: object = None) -> Reply:
        """Send a request; repeat it once on a new connection if the kept one was closed.

        Raises:
            Unreachable: there was no response.
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
            reason = error.reason if isinstance(error, ssl.SSLError) else getattr(error, "strerror", None)
            raise Unreachable(self.where, reason or error) from error

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
    """A function that connects to the server of a URL, and the prefix of its paths.

    Raises:
        BadUsage: the URL is invalid.
    """
    wrong = f"{url!r} is not a URL of a server; use http://HOST:PORT or https://HOST:PORT"
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
        raise BadUsage(f"{url!r} has an invalid port: {error}") from error
    prefix = parts.path.rstrip("/")
    if parts.scheme == "http":
        return lambda: HTTPConnection(host, port, timeout=TIMEOUT_S), prefix
    context = tls()
    return lambda: HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context), prefix
