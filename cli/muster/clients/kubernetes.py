"""Client of the Kubernetes API: raw JSON over HTTP."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, Self
from urllib.parse import urlencode

from muster.clients import kubeconfig as kubeconfig_files
from muster.clients.http import Http, Reply, client
from muster.errors import Forbidden, NotThere, Unreachable
from muster_si.kubeconfig import Access

Json = dict[str, Any]

_PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class Cluster:
    """One API server. `access`: its URL and credentials, for connections that are not plain HTTP."""

    http: Http
    access: Access

    def __enter__(self) -> Self:
        """Use `with` to close the connection at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def get(self, path: str) -> Json:
        """One object. Raises NotThere, and Unreachable for every other failure."""
        return self._read(path)

    def server_time(self) -> datetime:
        """The current time of the server. Raises Unreachable."""
        reply = self.http.send("GET", "/version")
        self._checked(reply, "/version")
        return parsedate_to_datetime(reply.headers["Date"])

    def list(self, path: str, **query: str) -> Iterator[Json]:
        """All objects of a list, page by page, as of the first page. Raises NotThere, Unreachable."""
        pages = {"limit": str(_PAGE), **query}
        while True:
            found = self._read(f"{path}?{urlencode(pages)}")
            yield from found.get("items") or []
            more = (found.get("metadata") or {}).get("continue")
            if not more:
                return
            pages["continue"] = more

    def create(self, path: str, body: Json) -> Json:
        """Create an object, and return it as the server stored it. Raises NotThere, Unreachable."""
        return self._checked(self.http.send("POST", path, body), path)

    def delete(self, path: str, uid: str = "", version: str = "") -> bool:
        """Delete an object; False = it is not there. `uid`, `version`: delete only the object that has these.

        Raises Unreachable for every other failure.
        """
        conditions = {key: value for key, value in (("uid", uid), ("resourceVersion", version)) if value}
        reply = self.http.send("DELETE", path, {"preconditions": conditions} if conditions else None)
        if reply.status == 409 and uid and self._is_gone(path, uid):
            return False
        try:
            self._checked(reply, path)
        except NotThere:
            return False
        return True

    def _is_gone(self, path: str, uid: str) -> bool:
        try:
            return bool(self.get(path)["metadata"]["uid"] != uid)
        except NotThere:
            return True

    def _read(self, path: str) -> Json:
        return self._checked(self.http.send("GET", path), path)

    def _checked(self, reply: Reply, path: str) -> Json:
        found = reply.json()
        if 200 <= reply.status < 300 and isinstance(found, dict):
            return found
        message = found.get("message", "") if isinstance(found, dict) else ""
        if reply.status == 404:
            raise NotThere(message or f"{path} not found")
        error = Forbidden if reply.status == 403 else Unreachable
        raise error(self.http.where, f"{reply.status} {message or path}")


def connect(kubeconfig: str, context: str) -> Cluster:
    """The cluster that kubectl would use. Raises BadUsage, Unreachable."""
    access = kubeconfig_files.access(kubeconfig, context)
    headers = [("Accept", "application/json"), ("User-Agent", "muster"), *access.headers]
    where = f"the API server {access.server}"
    return Cluster(client(where, access.server, lambda: _tls(access), headers, access.proxy), access)


def _tls(access: Access) -> ssl.SSLContext:
    try:
        return access.tls.context()
    except OSError as error:  # ssl.SSLError is one
        raise Unreachable("the cluster", f"the kubeconfig's certificates cannot be used: {error}") from error
