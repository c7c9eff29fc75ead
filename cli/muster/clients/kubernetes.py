"""The Kubernetes API as raw JSON.

The official client reads the kubeconfig, for it knows plug-ins and inline certificates. Loading it takes most of a
second: only who needs a cluster imports it, through `connected`.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import yaml

from muster.clients.http import Http, Reply, to_url
from muster.errors import NotThere, Unreachable

Json = dict[str, Any]

_PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class Cluster:
    """`settings`: the official client's Configuration, for what only it can do; `http`: the same server otherwise."""

    http: Http
    settings: Any

    def get(self, path: str) -> Json:
        """One object. Raises NotThere, and Unreachable for every other no."""
        return self._read(path)

    def clock(self) -> datetime:
        """The time as the server has it: clocks of two machines are not compared. Raises Unreachable."""
        reply = self.http.send("GET", "/version")
        self._checked(reply, "/version")
        return parsedate_to_datetime(reply.headers["Date"])

    def list(self, path: str, **query: str) -> Iterator[Json]:
        """All objects of a list, page by page, in the state of the first page."""
        pages = {"limit": str(_PAGE), **query}
        while True:
            found = self._read(f"{path}?{urlencode(pages)}")
            yield from found.get("items") or []
            more = (found.get("metadata") or {}).get("continue")
            if not more:
                return
            pages["continue"] = more

    def create(self, path: str, body: Json) -> Json:
        """Post an object, and what the server made of it."""
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
        said = found.get("message", "") if isinstance(found, dict) else ""
        if reply.status == 404:
            raise NotThere(said or f"{path} not found")
        raise Unreachable(self.http.where, f"{reply.status} {said or path}")


def connected(kubeconfig: str, context: str) -> Cluster:
    """The cluster that kubectl would talk to; empty = what KUBECONFIG, ~/.kube/config or the pod we are in say.

    Raises:
        Unreachable: nothing says how.
    """
    if kubeconfig and os.pathsep not in kubeconfig and not Path(kubeconfig).expanduser().exists():
        raise Unreachable("the cluster", f"--kubeconfig {kubeconfig} does not exist")
    from kubernetes import client, config  # noqa: PLC0415  # half a second, which --help need not wait for

    # The client ships no types.
    load_kube_config: Any = config.load_kube_config
    load_incluster_config: Any = config.load_incluster_config
    settings: Any = client.Configuration()
    try:
        load_kube_config(kubeconfig or None, context or None, client_configuration=settings)
    except config.ConfigException as error:
        if kubeconfig or context:
            raise Unreachable("the cluster", error) from error
        try:
            load_incluster_config(client_configuration=settings)
        except config.ConfigException:
            raise Unreachable(
                "the cluster", f"{error}; set --kubeconfig, or --server to connect to a core without a cluster"
            ) from error
    except (OSError, ValueError, TypeError, KeyError, AttributeError, yaml.YAMLError) as error:
        raise Unreachable("the cluster", f"the kubeconfig cannot be used: {error}") from error
    connect, prefix = to_url(settings.host, lambda: _tls(settings))
    headers = {"Accept": "application/json", "User-Agent": "muster"}
    for auth in settings.auth_settings().values():
        if auth.get("in") == "header" and auth.get("value"):
            headers[auth["key"].title()] = auth["value"]
    return Cluster(Http(f"the API server {settings.host}", connect, prefix, headers), settings)


def _tls(settings: Any) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=settings.ssl_ca_cert or None)
        if not settings.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if settings.cert_file:
            context.load_cert_chain(settings.cert_file, settings.key_file)
    except OSError as error:  # ssl.SSLError is one
        raise Unreachable("the cluster", f"the kubeconfig's certificates cannot be used: {error}") from error
    return context
