"""The pod and the port of a port-forward."""

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from muster.clients import kubernetes, port_forward
from muster.errors import Unreachable

Json = dict[str, Any]
REST = {"name": "rest", "containerPort": 9999}


def a_pod(name: str, *containers: Json) -> Json:
    return {"metadata": {"name": name, "namespace": "muster"}, "spec": {"containers": list(containers)}}


def test_the_port_named_rest_is_used_or_the_default() -> None:
    operator = {"name": "operator", "ports": [{"name": "health", "containerPort": 8081}]}
    assert port_forward.port_of(a_pod("both", operator, {"name": "core", "ports": [REST]})) == 9999
    assert port_forward.port_of(a_pod("plain", operator)) == 9080
    assert port_forward.port_of({"metadata": {}}) == 9080


def test_an_operator_only_pod_is_skipped_if_the_core_has_a_separate_pod() -> None:
    core, operator = a_pod("core", {"name": "core", "ports": [REST]}), a_pod("operator", {"name": "operator"})
    assert port_forward.with_core([operator, core]) == [core]
    assert port_forward.with_core([operator]) == [operator]


@pytest.mark.parametrize(
    "container, is_tls",
    [
        ({"args": ["--rest-port=9080"]}, False),
        ({"args": ["--rest-tls-cert=/run/tls.crt", "--rest-tls-key=/run/tls.key"]}, True),
        ({"command": ["muster-core", "--rest-tls-cert", "/run/tls.crt"]}, True),
        ({"env": [{"name": "MUSTER_CORE_REST_TLS_CERT", "value": "/run/tls.crt"}]}, True),
        ({"env": [{"name": "MUSTER_CORE_REST_PORT", "value": "1"}]}, False),
    ],
)
def test_the_container_reports_whether_the_core_serves_tls(container: Json, *, is_tls: bool) -> None:
    assert port_forward.serves_tls(a_pod("p", container)) is is_tls


class RefusingServer(BaseHTTPRequestHandler):
    """An API server that refuses every port-forward, and puts token and path into its reason."""

    def do_GET(self) -> None:
        self.send_response(403, f"{self.headers.get('Authorization')} {self.path}")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[str]:
    """A user with a token at an API server with a certificate of a private authority."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    server = HTTPServer(("127.0.0.1", 0), RefusingServer)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    cluster = {"server": f"https://127.0.0.1:{server.server_port}", "certificate-authority": "ca.pem"}
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "a-token"}}],
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    yield str(tmp_path / "config")
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_port_forward_uses_the_authority_and_the_token_of_the_kubeconfig(kubeconfig: str) -> None:
    http = port_forward.http(kubernetes.connect(kubeconfig, ""), a_pod("core", {"name": "core", "ports": [REST]}), {})
    with pytest.raises(Unreachable) as caught:
        http.send("GET", "/")
    assert "Bearer a-token /api/v1/namespaces/muster/pods/core/portforward?ports=9999" in str(caught.value)
