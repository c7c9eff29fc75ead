"""Connection to a core in the cluster: finds its pod and opens a port-forward, as `kubectl port-forward` does.

Only the core of the leader has the state of the cluster: the one with which an operator has registered. The Leases of
the scheduler names lead to the leader's pod. A token is sent to this pod, or to pods of Muster's namespace, and to no
other namespace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from http.client import HTTPConnection
from typing import Any, Final

from muster import leases
from muster.clients import installations
from muster.clients.http import TIMEOUT_S, Http
from muster.clients.kubernetes import Cluster, Json
from muster.clients.port_channel import PortChannel, TlsChannel
from muster.clients.rest import Rest
from muster.errors import Forbidden, Unreachable

#: Labels of pods with a core, in the chart and in deploy/.
SELECTOR: Final = "app=muster,component in (scheduler, core)"
#: Port of REST if no container port is named `rest`.
PORT: Final = 9080
PORT_NAME: Final = "rest"
#: Arguments and variables with which a core serves REST over TLS.
TLS_OPTIONS: Final = ("--rest-tls-cert", "MUSTER_CORE_REST_TLS_CERT")


def pods(cluster: Cluster, namespace: str) -> list[Json]:
    """Running pods of Muster in its namespace. Raises Unreachable."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    found = cluster.list(path, labelSelector=SELECTOR, fieldSelector="status.phase=Running")
    own = (pod for pod in found if pod["metadata"]["namespace"] == namespace)
    return sorted(own, key=lambda pod: str(pod["metadata"]["name"]))


def core(cluster: Cluster, namespace: str, headers: dict[str, str]) -> Rest:
    """The core of the leader, else of the first pod in Muster's namespace that answers.

    `namespace`: of Muster; empty = the Leases of the scheduler names name it, else `muster`.

    Raises:
        BadUsage: there are several installations.
        Forbidden: the user may not list Muster's pods, or open a port-forward to any of them.
        Unreachable: Muster has no running pod, or none answers; or a token is to be sent, and neither the option nor
            the Leases name the namespace, because the Leases cannot be listed.
    """
    home, lease = _installation(cluster, namespace, has_token="Authorization" in headers)
    leader = installations.leader(cluster, home, lease) if lease else None
    # With split.enabled, the core is not in the leader's pod.
    candidates = [leader] if leader and has_core(leader) else with_core(pods(cluster, home))
    if not candidates:
        raise Unreachable(
            "the core",
            f"no running pod of Muster in namespace {home} ({SELECTOR}); set --muster-namespace or --server",
        )
    responding: list[Rest] = []
    failures: list[Unreachable] = []
    for rest in (Rest(http(cluster, pod, headers)) for pod in candidates):
        try:
            is_leader = bool(rest.clusters())
        except Unreachable as error:
            failures.append(error)
            continue
        if is_leader:
            return rest
        rest.close()
        responding.append(rest)
    if not responding:
        failure = Forbidden if all(isinstance(error, Forbidden) for error in failures) else Unreachable
        raise failure("the core", "; ".join(map(str, failures)))
    return responding[0]


def _installation(cluster: Cluster, namespace: str, *, has_token: bool) -> tuple[str, str]:
    """Namespace, and name of the leader's Lease. Any user may own namespace `muster`, so a token needs an answer."""
    try:
        found, now = installations.name_leases(cluster), cluster.server_time()
    except Unreachable as error:
        if has_token and not namespace:
            why = f"the Leases that name Muster's namespace cannot be listed ({error}); set --muster-namespace"
            raise Unreachable("the core", why) from error
        return namespace or leases.DEFAULT_NAMESPACE, ""
    return leases.installation(found, namespace, now)


def http(cluster: Cluster, pod: Json, headers: dict[str, str]) -> Http:
    """A client whose connections are port-forwards to that pod."""
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    port, is_tls = port_of(pod), serves_tls(pod)
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/portforward?ports={port}"
    return Http(
        f"the core in pod {namespace}/{name}",
        lambda: _Forwarded(cluster.http, path, port, is_tls=is_tls),
        headers=headers.items(),
    )


def with_core(found: list[Json]) -> list[Json]:
    """The pods with a port named `rest`; all pods if none has one."""
    return list(filter(has_core, found)) or found


def has_core(pod: Json) -> bool:
    """Whether a container has a port named `rest`."""
    return any(port.get("name") == PORT_NAME for port in _ports(pod))


def port_of(pod: Json) -> int:
    """The port named `rest`, else the default."""
    return next((int(port["containerPort"]) for port in _ports(pod) if port.get("name") == PORT_NAME), PORT)


def serves_tls(pod: Json) -> bool:
    """Whether the options of a container enable TLS for REST."""
    return any(option.startswith(TLS_OPTIONS) for container in _containers(pod) for option in _options(container))


def _containers(pod: Json) -> Sequence[Json]:
    return (pod.get("spec") or {}).get("containers") or []


def _ports(pod: Json) -> Iterator[Json]:
    for container in _containers(pod):
        yield from container.get("ports") or []


def _options(container: Json) -> Iterator[str]:
    yield from container.get("command") or []
    yield from container.get("args") or []
    yield from (entry.get("name", "") for entry in container.get("env") or [])


class _Forwarded(HTTPConnection):
    """An HTTP connection through the API server and the kubelet of the pod."""

    def __init__(self, api_server: Http, path: str, port: int, *, is_tls: bool) -> None:
        super().__init__("localhost", port, timeout=TIMEOUT_S)
        self._api_server, self._path, self._is_tls = api_server, path, is_tls

    def connect(self) -> None:
        """Open the port-forward. Raises OSError if the API server refuses."""
        channel = PortChannel(self._api_server, self._path)
        self.sock: Any = TlsChannel(channel) if self._is_tls else channel
