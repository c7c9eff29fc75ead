"""HTTP/1.1 client of one server: one request at a time, over one connection that is kept open.

Requests to https:// pass an HTTP proxy through a tunnel (CONNECT); requests to http:// name the server in their path.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection, RemoteDisconnected
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import orjson

from muster.errors import BadUsage, Forbidden, Unreachable

#: Seconds without a byte after which a request fails.
TIMEOUT_S: Final = 20.0
Connect = Callable[[], HTTPConnection]


class PortForwardForbidden(OSError):
    """The API server denies the port-forward (403)."""


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

    def __init__(self, where: str, connect: Connect, prefix: str = "", headers: Iterable[tuple[str, str]] = ()) -> None:
        self.where, self.connect, self.headers = where, connect, tuple(headers)
        self.prefix = prefix
        self._connection: HTTPConnection | None = None

    def send(self, method: str, path: str, body: object = None, accept: str = "") -> Reply:
        """Send a request; repeat it once on a new connection if the kept one was closed.

        `accept`: the content type of the response, if it is not that of all requests.

        Raises:
            Unreachable: there was no response.
            Forbidden: the connection needs a right that is missing.
        """
        try:
            is_new = self._connection is None
            try:
                return self._send(method, path, body, accept)
            except (RemoteDisconnected, ConnectionError):
                self.close()
                if is_new:
                    raise
                return self._send(method, path, body, accept)
        except (OSError, HTTPException) as error:
            self.close()
            reason = error.reason if isinstance(error, ssl.SSLError) else getattr(error, "strerror", None)
            failure = Forbidden if isinstance(error, PortForwardForbidden) else Unreachable
            raise failure(self.where, reason or error) from error

    def _send(self, method: str, path: str, body: object, accept: str) -> Reply:
        if self._connection is None:
            self._connection = self.connect()
        raw = None if body is None else orjson.dumps(body)
        self._connection.putrequest(method, self.prefix + path)
        for name, value in self.headers:
            self._connection.putheader(name, accept if accept and name == "Accept" else value)
        if raw is not None:
            self._connection.putheader("Content-Type", "application/json")
            self._connection.putheader("Content-Length", str(len(raw)))
        self._connection.endheaders(raw)
        answer = self._connection.getresponse()
        return Reply(answer.status, answer.read(), dict(answer.getheaders()))

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def client(
    where: str,
    url: str,
    tls: Callable[[], ssl.SSLContext],
    headers: Iterable[tuple[str, str]],
    proxy: str = "",
) -> Http:
    """A client of the server of a URL. Raises BadUsage if the URL is invalid."""
    host, port, prefix, is_secure = _parts(url)
    if not proxy:
        if not is_secure:
            return Http(where, lambda: HTTPConnection(host, port, timeout=TIMEOUT_S), prefix, headers)
        context = tls()
        return Http(where, lambda: HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context), prefix, headers)
    of_proxy = urlsplit(proxy)
    proxy_host, proxy_port = of_proxy.hostname or "", of_proxy.port or 80
    where = f"{where} through the proxy {proxy_host}:{proxy_port}"
    authorization = {}
    if of_proxy.username:
        pair = f"{unquote(of_proxy.username)}:{unquote(of_proxy.password or '')}"
        authorization = {"Proxy-Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
    if not is_secure:
        of_server = f"http://{urlsplit(url).netloc}{prefix}"
        return Http(
            where,
            lambda: HTTPConnection(proxy_host, proxy_port, timeout=TIMEOUT_S),
            of_server,
            [*headers, *authorization.items()],
        )
    context = tls()

    def tunnel() -> HTTPConnection:
        connection = HTTPSConnection(proxy_host, proxy_port, timeout=TIMEOUT_S, context=context)
        connection.set_tunnel(host, port or 443, authorization)
        return connection

    return Http(where, tunnel, prefix, headers)


def _parts(url: str) -> tuple[str, int | None, str, bool]:
    """Host, port and path of a URL, and whether it is https. Raises BadUsage."""
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
    return host, port, parts.path.rstrip("/"), parts.scheme == "https"
