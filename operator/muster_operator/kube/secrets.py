"""Reads and writes one Secret of Muster's namespace. Writes use optimistic concurrency (resourceVersion)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import orjson

from muster_operator.kube.session import KubeSession, Request
from muster_operator.model.errors import ApiRefused
from muster_operator.translate.values import Raw, mapping, text


class SecretStore:
    """A Secret by namespace and name."""

    def __init__(self, session: KubeSession, namespace: str, name: str) -> None:
        self._session, self._name = session, name
        self._path = f"/api/v1/namespaces/{namespace}/secrets"

    async def read(self) -> Raw | None:
        """Reads the object. Returns None if it does not exist.

        Raises:
            ApiRefused, Unreachable: the API server answered with an error, or not at all.
        """
        try:
            return await self._session.get(f"{self._path}/{self._name}")
        except ApiRefused as error:
            if error.status == 404:
                return None
            raise

    async def write(self, entries: Mapping[str, bytes], found: Raw | None) -> bool:
        """Creates the Secret, or replaces the version `found`. Returns False if another client changed it first.

        Raises:
            NotLeading: this replica is not the leader.
            ApiRefused, Unreachable: the API server answered with an error, or not at all.
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
