"""What a request is called in metrics: verbs and resources in Kubernetes' words, never the name of an object."""

from __future__ import annotations

from collections.abc import Callable

#: Hears of each request: verb, resource, status (0 = no answer), seconds until the answer (of a watch: its head).
Measure = Callable[[str, str, int, float], None]


def named(method: str, path: str) -> tuple[str, str]:
    """Verb and resource of a request, as in `apiserver_request_total`: LIST of pods, POST of pods/binding."""
    path, _, query = path.partition("?")
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if not rest:
        return method, "discovery"
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    resource = rest[0] if len(rest) < 3 else f"{rest[0]}/{rest[2]}"
    if method != "GET":
        return method, resource
    if "watch=true" in query:
        return "WATCH", resource
    return "GET" if len(rest) > 1 else "LIST", resource


def unmeasured(verb: str, resource: str, status: int, seconds: float) -> None:
    """Hears and keeps nothing."""
