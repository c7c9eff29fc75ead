"""Client of the core's REST interface (docs/reference/rest.md): plain JSON with the names of its OpenAPI document."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from muster.clients.http import Http
from muster.errors import BadUsage, NotThere, Unreachable

Json = dict[str, Any]

PARTITION: Final = "/ws/v1/partition/default"
_NO_ROUTE: Final = "Not Found"
_NO_PARTITION: Final = "Partition not found"


class Rest:  # long: a request each
    """One core. Every request raises Unreachable without a usable response, and NotThere for 404."""

    def __init__(self, http: Http) -> None:
        self._http = http

    @property
    def where(self) -> str:
        """Name of the core in messages."""
        return self._http.where

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def ready(self) -> tuple[bool, str]:
        """Whether the core is ready, and the text of its readiness endpoint."""
        reply = self._http.send("GET", "/readyz")
        return reply.status == 200, reply.body.decode(errors="replace").strip()

    def get(self, path: str, what: str = "") -> Any:
        """The JSON at a path; `what`: kind and name of the object in the error if it does not exist."""
        reply = self._http.send("GET", path)
        found = reply.json()
        if reply.status == 200 and found is not None:
            return found
        message = found.get("message", "") if isinstance(found, dict) else ""
        if message == _NO_PARTITION:
            raise Unreachable(self.where, "no operator has registered yet")
        if reply.status == 404 and message not in ("", _NO_ROUTE):
            raise NotThere(f"no {what} found" if what else message)
        if reply.status == 400 and message:
            raise BadUsage(message.replace("add ?namespace=<one of them>", "write NAMESPACE/ID"))
        if reply.status in (401, 403):
            raise Unreachable(self.where, f"{message or reply.status}; set --token-file")
        raise Unreachable(self.where, f"{reply.status} {message}; is it the REST address of a Muster core?")

    def clusters(self) -> list[Json]:
        """The registered resource managers, with versions."""
        return self._all("/ws/v1/clusters")

    def partitions(self) -> list[Json]:
        """Partitions with totals."""
        return self._all("/ws/v1/partitions")

    def health(self) -> Json | None:
        """Result of the last health checks; None = none ran yet."""
        try:
            found: Json = self.get("/ws/v1/scheduler/healthcheck")
        except NotThere:
            return None
        return found

    def outstanding(self) -> list[Json]:
        """Pending requests that fit no node, by size."""
        return self._all(f"{PARTITION}/autoscaling")

    def configuration(self) -> bytes:
        """The active configuration in YAML: `partitions` of queues.yaml, and the settings (`extra`)."""
        reply = self._http.send("GET", "/ws/v1/config", accept="application/x-yaml")
        if reply.status != 200:
            raise Unreachable(self.where, f"{reply.status} for the configuration; set --token-file")
        return reply.body

    def queue(self, path: str = "root") -> Json:
        """A queue with its subtree."""
        found: Json = self.get(f"{PARTITION}/queue/{name(path)}?subtree", f"queue {path}")
        return found

    def pending(self, queue: str) -> list[Json]:
        """Pending applications of a leaf queue, in scheduling order."""
        return self._all(f"{PARTITION}/queue/{name(queue)}/waiting")

    def applications(self, state: str = "active") -> list[Json]:
        """Active, rejected or completed applications."""
        return self._all(f"{PARTITION}/applications/{state}")

    def application(self, app_id: str, namespace: str = "") -> Json:
        """An active application, else the newest completed one. Empty namespace = all namespaces.

        Raises BadUsage if applications of several namespaces have the ID.
        """
        query = f"?namespace={name(namespace)}" if namespace else ""
        found: Json = self.get(f"{PARTITION}/application/{name(app_id)}{query}", f"application {app_id}")
        return found

    def story(self, app_id: str, namespace: str) -> list[Json]:
        """The newest events of an application and its requests, oldest first."""
        return self._all(f"{PARTITION}/application/{name(app_id)}/events?namespace={name(namespace)}")

    def nodes(self) -> list[Json]:
        """Nodes with their allocations."""
        return self._all(f"{PARTITION}/nodes")

    def node(self, node_id: str) -> Json:
        """One node."""
        found: Json = self.get(f"{PARTITION}/node/{name(node_id)}", f"node {node_id}")
        return found

    def _all(self, path: str) -> list[Json]:
        found: list[Json] = self.get(path)
        return found


def name(text: str) -> str:
    """A name as a path segment: escaped twice, because the core unescapes it twice, as YuniKorn does."""
    return quote(quote(text, safe=""), safe="")
