"""The core inside of a cluster: which pod it is in, and a port-forward to it, as `kubectl port-forward` makes one.

Of several replicas only the leader's core knows the cluster: the one with which an operator has registered.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence
from http.client import HTTPConnection
from typing import Any, Final

from muster.clients.http import PATIENCE_S, Http
from muster.clients.kubernetes import Cluster, Json
from muster.clients.rest import Rest
from muster.errors import Unreachable

#: Pods of Muster: operator and core in one, or the core by itself, as deploy/ and the chart label them.
SELECTOR: Final = "app=muster,component in (scheduler, core)"
#: REST's port where no port of a container is called so.
PORT: Final = 9080
PORT_NAME: Final = "rest"
#: What says in a container that its REST is served over TLS.
TLS_WORDS: Final = ("--rest-tls-cert", "MUSTER_CORE_REST_TLS_CERT")


def pods(cluster: Cluster, namespace: str) -> list[Json]:
    """Muster's pods that run, in one namespace or (empty) wherever they are. Raises Unreachable."""
    path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
    found = cluster.list(path, labelSelector=SELECTOR, fieldSelector="status.phase=Running")
    return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))


def core(cluster: Cluster, namespace: str, headers: dict[str, str]) -> Rest:
    """The core of the pod that leads, else of the first that answers.

    Raises:
        Unreachable: there is no pod of ours, or none answers.
    """
    candidates = with_core(pods(cluster, namespace))
    if not candidates:
        place = f"namespace {namespace}" if namespace else "the cluster"
        raise Unreachable("the core", f"no pod of Muster runs in {place} ({SELECTOR}); say --namespace or --server")
    answering: list[Rest] = []
    reasons: list[str] = []
    for rest in (Rest(http(cluster, pod, headers)) for pod in candidates):
        try:
            leads = bool(rest.clusters())
        except Unreachable as error:
            reasons.append(str(error))
            continue
        if leads:
            return rest
        rest.close()
        answering.append(rest)
    if not answering:
        raise Unreachable("the core", "; ".join(reasons))
    return answering[0]


def http(cluster: Cluster, pod: Json, headers: dict[str, str]) -> Http:
    """A client whose connections go through port-forwards to that pod."""
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    port, is_tls = port_of(pod), serves_tls(pod)
    return Http(
        f"the core in pod {namespace}/{name}",
        lambda: _Forwarded(cluster.settings, (namespace, name, port), is_tls=is_tls),
        headers=headers,
    )


def with_core(found: list[Json]) -> list[Json]:
    """Those that serve REST by the name of a port; all of them where none has such a name."""
    named = [pod for pod in found if any(port.get("name") == PORT_NAME for port in _ports(pod))]
    return named or found


def port_of(pod: Json) -> int:
    """Where REST listens: a port that is called so, else the usual one."""
    return next((int(port["containerPort"]) for port in _ports(pod) if port.get("name") == PORT_NAME), PORT)


def serves_tls(pod: Json) -> bool:
    """Whether a container of it says so."""
    return any(word.startswith(TLS_WORDS) for container in _containers(pod) for word in _words(container))


def _containers(pod: Json) -> Sequence[Json]:
    return (pod.get("spec") or {}).get("containers") or []


def _ports(pod: Json) -> Iterator[Json]:
    for container in _containers(pod):
        yield from container.get("ports") or []


def _words(container: Json) -> Iterator[str]:
    yield from container.get("command") or []
    yield from container.get("args") or []
    yield from (entry.get("name", "") for entry in container.get("env") or [])


class _Forwarded(HTTPConnection):
    """A connection whose bytes go through the API server and the pod's kubelet."""

    def __init__(self, settings: Any, place: tuple[str, str, int], *, is_tls: bool) -> None:
        super().__init__("localhost", place[2], timeout=PATIENCE_S)
        self._settings, self._place, self._is_tls = settings, place, is_tls

    def connect(self) -> None:
        """Open the port-forward. Raises OSError where the cluster does not."""
        # Its own half of a second --help need not wait for; what is generated for each kind would take another whole.
        from kubernetes.client.exceptions import ApiException  # noqa: PLC0415
        from kubernetes.stream import ws_client  # noqa: PLC0415

        namespace, name, port = self._place
        url = f"{self._settings.host}/api/v1/namespaces/{namespace}/pods/{name}/portforward"
        headers = {auth["key"]: auth["value"] for auth in self._settings.auth_settings().values()}
        open_one: Any = ws_client.portforward_call  # the client ships no types
        try:
            forward = open_one(self._settings, "GET", url, query_params=[("ports", str(port))], headers=headers)
        except ApiException as error:
            raise OSError(f"no port-forward: {error.reason or error.status}") from error
        self.sock = forward.socket(port)
        self.sock.settimeout(PATIENCE_S)
        if self._is_tls:
            # Cluster and kubelet already vouch for the pod at the other end; its certificate names a service.
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            self.sock = context.wrap_socket(self.sock)
