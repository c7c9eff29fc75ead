"""One Secret of Muster's namespace: read, created if it is absent, or replaced over the version that was read."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import orjson

from muster_operator.kube.session import KubeSession, Request
from muster_operator.model.errors import ApiRefused
from muster_operator.translate.values import Raw, mapping, text


class SecretStore:
    """The Secret of this namespace and name."""

    def __init__(self, session: KubeSession, namespace: str, name: str) -> None:
        self._session, self._name = session, name
        self._path = f"/api/v1/namespaces/{namespace}/secrets"

    async def read(self) -> Raw | None:
        """The object; None = there is none. Raises ApiRefused and Unreachable."""
        try:
            return await self._session.get(f"{self._path}/{self._name}")
        except ApiRefused as error:
            if error.status == 404:
                return None
            raise

    async def write(self, entries: Mapping[str, bytes], found: Raw | None) -> bool:
        """Create it, or replace what was found; False = another write came first.

        Raises:
            NotLeading: another replica writes.
            ApiRefused, Unreachable: as the API server has it.
        """
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": self._name, "labels": {"app": "muster"}},
            "type": "Opaque",
            "data": {name: base64.b64encode(value).decode() for name, value in entries.items()},
        }
        method, path = "POST", self._path
        if found is not None:
            body["metadata"]["resourceVersion"] = text(mapping(found.get("metadata")).get("resourceVersion"))
            method, path = "PUT", f"{path}/{self._name}"
        reply = await self._session.send(Request(method, path, orjson.dumps(body)))
        if reply.ok or reply.status in {404, 409}:
            return reply.ok
        raise ApiRefused(f"{method} {path}", reply.status, reply.message())
