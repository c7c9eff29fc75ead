"""Client of the core's REST interface (docs/reference/rest.md): plain JSON with the names of openapi.json there."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from muster.clients.http import Http
from muster.errors import BadUsage, NotThere, Unreachable

Json = dict[str, Any]

PARTITION: Final = "/ws/v1/partition/default"
_NO_ROUTE: Final = "Not Found"
_NO_PARTITION: Final = "Partition not found"


class Rest:  # long: a question each
    """One core. Every question raises Unreachable where it has no usable answer, NotThere where it is 404."""

    def __init__(self, http: Http) -> None:
        self._http = http

    @property
    def where(self) -> str:
        """How messages call it."""
        return self._http.where

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def ready(self) -> tuple[bool, str]:
        """Whether it schedules, and its words on that."""
        reply = self._http.send("GET", "/readyz")
        return reply.status == 200, reply.body.decode(errors="replace").strip()

    def get(self, path: str, what: str = "") -> Any:
        """The JSON at a path; `what`: the name to say where it is not there."""
        reply = self._http.send("GET", path)
        found = reply.json()
        if reply.status == 200 and found is not None:
            return found
        said = found.get("message", "") if isinstance(found, dict) else ""
        if said == _NO_PARTITION:
            raise Unreachable(self.where, "no operator has registered yet")
        if reply.status == 404 and said not in ("", _NO_ROUTE):
            raise NotThere(f"{said}: {what}" if what else said)
        if reply.status == 400 and said:
            raise BadUsage(said.replace("add ?namespace=<one of them>", "write NAMESPACE/ID"))
        if reply.status in (401, 403):
            raise Unreachable(self.where, f"{said or reply.status}; set --token-file")
        raise Unreachable(self.where, f"answered {reply.status} {said}; is it the REST address of a Muster core?")

    def clusters(self) -> list[Json]:
        """Who schedules what."""
        return self._all("/ws/v1/clusters")

    def partitions(self) -> list[Json]:
        """In numbers."""
        return self._all("/ws/v1/partitions")

    def health(self) -> Json | None:
        """What the last checks found; None = there were none."""
        try:
            found: Json = self.get("/ws/v1/scheduler/healthcheck")
        except NotThere:
            return None
        return found

    def outstanding(self) -> list[Json]:
        """Places that no node has room for."""
        return self._all(f"{PARTITION}/autoscaling")

    def queue(self, path: str = "root") -> Json:
        """A queue with all below it."""
        found: Json = self.get(f"{PARTITION}/queue/{name(path)}?subtree", path)
        return found

    def line(self, queue: str) -> list[Json]:
        """Who waits in a leaf, who is tried first comes first."""
        return self._all(f"{PARTITION}/queue/{name(queue)}/waiting")

    def applications(self, state: str = "active") -> list[Json]:
        """Active, rejected or completed ones."""
        return self._all(f"{PARTITION}/applications/{state}")

    def application(self, app_id: str) -> Json:
        """A live one, else the newest of that ID that ended; `[NAMESPACE/]ID`, an ID itself may have a slash.

        Raises BadUsage where applications of several namespaces have the ID.
        """
        try:
            return self._application(app_id)
        except NotThere:
            namespace, _, plain = app_id.partition("/")
            if not plain:
                raise
        return self._application(plain, f"?namespace={name(namespace)}", app_id)

    def application_of(self, namespace: str, app_id: str) -> Json:
        """The application of that ID that has a pod in the namespace."""
        return self._application(app_id, f"?namespace={name(namespace)}")

    def _application(self, app_id: str, query: str = "", shown: str = "") -> Json:
        found: Json = self.get(f"{PARTITION}/application/{name(app_id)}{query}", shown or app_id)
        return found

    def nodes(self) -> list[Json]:
        """And what runs on them."""
        return self._all(f"{PARTITION}/nodes")

    def node(self, node_id: str) -> Json:
        """One of them."""
        found: Json = self.get(f"{PARTITION}/node/{name(node_id)}", node_id)
        return found

    def _all(self, path: str) -> list[Json]:
        found: list[Json] = self.get(path)
        return found


def name(text: str) -> str:
    """A name as a part of a path: escaped twice, because the core unescapes it twice, as YuniKorn does."""
    return quote(quote(text, safe=""), safe="")
