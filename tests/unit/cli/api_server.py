"""An API server on loopback with the objects that a test gives it: GET by path, lists by folder, DELETE."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

Json = dict[str, Any]
#: The time of the server.
NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


#: The path of an object by its kind.
PATHS = {
    "Node": "/api/v1/nodes/{name}",
    "Pod": "/api/v1/namespaces/{namespace}/pods/{name}",
    "Secret": "/api/v1/namespaces/{namespace}/secrets/{name}",
    "Event": "/api/v1/namespaces/{namespace}/events/{name}",
    "ConfigMap": "/api/v1/namespaces/{namespace}/configmaps/{name}",
    "Lease": "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}",
}
#: Collections that the commands list; those without an object are empty.
_OTHERS = {
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
    "deployments",
    "namespaces",
    "priorityclasses",
}
PLURALS = {path.rsplit("/", 2)[1] for path in PATHS.values()} | _OTHERS


def path_of(found: Json) -> str:
    """The path of the object."""
    return PATHS[found["kind"]].format(**found["metadata"])


def _is_in(at: str, listed: str) -> bool:
    """Whether a list contains the object: the list of its namespace, or of all namespaces."""
    folder, _, _ = at.rpartition("/")
    root, _, plural = folder.rpartition("/")
    return listed in (folder, f"{root.partition('/namespaces/')[0]}/{plural}")


@dataclass(slots=True)
class ApiServer:
    """`objects`: by their path. `requests`: method, path and Authorization of each. `failing`: status by path."""

    objects: dict[str, Json]
    url: str = ""
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    failing: dict[str, int] = field(default_factory=dict)

    def kubeconfig(self, folder: Path) -> str:
        """The path of a kubeconfig with the context `prod-eu`."""
        config = {
            "current-context": "prod-eu",
            "contexts": [{"name": "prod-eu", "context": {"cluster": "k", "user": "u", "namespace": "team-a"}}],
            "clusters": [{"name": "k", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {"token": "a-token"}}],
        }
        path = folder / "kubeconfig-of-the-api-server"
        path.write_text(yaml.safe_dump(config))
        return str(path)

    def deleted(self) -> list[str]:
        """The paths of all deletions."""
        return [path for method, path, _ in self.requests if method == "DELETE"]


@contextmanager
def api_server(*objects: Json) -> Iterator[ApiServer]:
    """Serve objects during the `with` block."""
    served = ApiServer({path_of(found): found for found in objects})

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._note()
            path = urlsplit(self.path).path
            if path in served.failing:
                self._reply(served.failing[path], {"message": "refused by the test"})
            elif path in served.objects:
                self._reply(200, served.objects[path])
            elif path == "/version":
                self._reply(200, {})
            elif path.rsplit("/", 1)[-1] in PLURALS:
                self._reply(200, {"items": [found for at, found in served.objects.items() if _is_in(at, path)]})
            else:
                self._reply(404, {"message": f"{path} not found"})

        def do_DELETE(self) -> None:
            self._note()
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            found = served.objects.pop(urlsplit(self.path).path, None)
            self._reply(200 if found else 404, found or {"message": "not found"})

        def date_time_string(self, timestamp: float | None = None) -> str:
            return format_datetime(NOW, usegmt=True)

        def _note(self) -> None:
            served.requests.append((self.command, urlsplit(self.path).path, self.headers.get("Authorization")))

        def _reply(self, status: int, found: Json) -> None:
            body = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
