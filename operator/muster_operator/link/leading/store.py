"""Reads and writes the Lease object: three requests, which no fence stops, and which do not wait for long."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from muster_operator.link.api.session import KubeSession, Reply, Request
from muster_operator.link.errors import ApiRefused
from muster_operator.link.leading.lease import LABELS, Lease, body, read


class Store:
    """The Lease of that namespace and name. `serves`: what it says beside. `within_s`: what each request may take."""

    def __init__(
        self,
        session: KubeSession,
        place: tuple[str, str],
        serves: frozenset[str],
        within_s: float,
        labels: Mapping[str, str] = LABELS,
    ) -> None:
        self._session, self._serves, self._within_s, self._labels = session, serves, within_s, labels
        self._namespace, self._name = place

    async def get(self) -> Lease | None:
        """What it says, None = there is none.

        Raises:
            ApiRefused: the server does not show it.
            Unreachable: no answer came.
        """
        reply = await self._send("GET", f"/{self._name}")
        return None if reply.status == 404 else _read(reply)

    async def put(self, lease: Lease) -> Lease | None:
        """Make it say that, over the version it had when it was read; None = another was faster.

        Raises:
            ApiRefused: the server does not do it.
            Unreachable: no answer came; it may have been done.
        """
        raw = orjson.dumps(body(self._namespace, self._name, lease, self._serves, self._labels))
        method, path = ("PUT", f"/{self._name}") if lease.version else ("POST", "")
        reply = await self._send(method, path, raw)
        is_overtaken = reply.status == 409 or (reply.status == 404 and lease.version)
        return None if is_overtaken else _read(reply)

    async def _send(self, method: str, path: str, raw: bytes = b"") -> Reply:
        where = f"/apis/coordination.k8s.io/v1/namespaces/{self._namespace}/leases{path}"
        return await self._session.send(Request(method, where, raw, is_fenced=False, within_s=self._within_s))


def _read(reply: Reply) -> Lease:
    if not reply.ok:
        raise ApiRefused("the lease", reply.status, reply.message())
    return read(reply.json())
