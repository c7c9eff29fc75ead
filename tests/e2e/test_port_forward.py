"""The command's port-forward through the API server and a kubelet's server, which KWOK has.

The node exists only as an object, with the address of that server.
"""

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from devcluster import binaries, kwok, ports, programs
from devcluster.api import Json
from devcluster.certificates import Authority
from devcluster.cluster import Cluster
from devcluster.process import Process
from devcluster.waiting import until
from muster.clients import kubernetes, port_forward
from muster.clients.http import Http
from muster.errors import Unreachable

NODE, NAMESPACE, NAME = "port-forward", "default", "forwarded"
LARGE = 3_000_000
"""Bytes of a response that needs many messages."""


class _Server(BaseHTTPRequestHandler):
    """Answers with the path, or with many bytes, and keeps the connection."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        content = b"x" * LARGE if self.path == "/large" else self.path.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture(params=["plain", "tls"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[int, bool]]:
    """The port of what runs in the pod, and whether it serves TLS."""
    listening = ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    is_tls = request.param == "tls"
    if is_tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        files = Authority(tmp_path).issue("pod", ["muster.muster.svc"])
        context.load_cert_chain(files.certificate, files.key)
        listening.socket = context.wrap_socket(listening.socket, server_side=True)
    thread = threading.Thread(target=listening.serve_forever)
    thread.start()
    yield listening.server_port, is_tls
    listening.shutdown()
    thread.join()
    listening.server_close()


@pytest_asyncio.fixture(loop_scope="session")
async def forwarded(home: Cluster, server: tuple[int, bool], tmp_path: Path) -> AsyncIterator[Http]:
    """A client of the server in the pod."""
    if home.plane is None:
        pytest.skip("the API server of another cluster may not reach 127.0.0.1 of this machine")
    port, is_tls = server
    [kubelet_port] = ports.free(1)
    files = home.plane.authority.issue("kubelet", ["127.0.0.1"])
    (tmp_path / "kwok.yaml").write_text(yaml.safe_dump(_forward_of(port)))
    kubelet = Process(
        "kubelet",
        [
            str(binaries.ensure([programs.KWOK], exact=True)[programs.KWOK.name]),
            f"--kubeconfig={await home.admin_kubeconfig()}",
            f"--config={kwok.STAGES}",
            f"--config={tmp_path / 'kwok.yaml'}",
            "--manage-all-nodes=false",
            "--manage-nodes-with-annotation-selector=devcluster.muster/no-node=true",
            f"--server-address=127.0.0.1:{kubelet_port}",
            f"--tls-cert-file={files.certificate}",
            f"--tls-private-key-file={files.key}",
        ],
        tmp_path / "kubelet.log",
    )
    kubelet.start()
    try:
        await home.admin.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port}},
        }
        await home.admin.patch("nodes", NODE, {"status": status}, subresource="status")
        pod = await home.admin.create(_pod(port, is_tls=is_tls), NAMESPACE)
        cluster = kubernetes.connect(str(await home.admin_kubeconfig()), "")
        client = port_forward.http(cluster, pod, {"Accept": "application/json", "Authorization": "Bearer a-token"})

        async def answers() -> bool:
            kubelet.check()
            return (await asyncio.to_thread(client.send, "GET", "/ready")).status == 200

        await until("the port-forward is open", answers, 30, tolerate=(Unreachable,))
        yield client
        client.close()
    finally:
        await home.admin.delete("pods", NAME, NAMESPACE)
        await home.admin.delete("nodes", NODE)
        await kubelet.stop()


def _forward_of(port: int) -> Json:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "PortForward",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {"forwards": [{"ports": [port], "target": {"address": "127.0.0.1", "port": port}}]},
    }


def _pod(port: int, *, is_tls: bool) -> Json:
    container: Json = {
        "name": "core",
        "image": "muster",
        "args": ["--rest-tls-cert=/run/tls.crt"] if is_tls else [],
        "ports": [{"name": "rest", "containerPort": port}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": NAME},
        "spec": {"nodeName": NODE, "containers": [container], "terminationGracePeriodSeconds": 0},
    }


async def test_requests_go_through_the_api_server_and_the_kubelet(forwarded: Http) -> None:
    for path in ("/first", "/large", "/first"):
        reply = await asyncio.to_thread(forwarded.send, "GET", path)
        assert reply.body == (b"x" * LARGE if path == "/large" else path.encode())


async def test_the_reason_of_a_port_that_nothing_serves_is_shown(home: Cluster, forwarded: Http) -> None:
    del forwarded  # the kubelet runs
    cluster = kubernetes.connect(str(await home.admin_kubeconfig()), "")
    pod = _pod(1, is_tls=False)
    pod["metadata"]["namespace"] = NAMESPACE
    with pytest.raises(Unreachable, match="port 1 "):
        await asyncio.to_thread(port_forward.http(cluster, pod, {}).send, "GET", "/")
