"""Certificates, kubeconfig files, manifests and ports are valid for servers and clients."""

import socket
import ssl
import stat
from pathlib import Path

import yaml

from devcluster import kubeconfig, ports
from devcluster.certificates import Authority, write_signing_key
from devcluster.connection import load, trusting
from devcluster.nodes import FakeNode, is_ready
from devcluster.resources import BY_KIND, BY_PLURAL


def handshake(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> None:
    """Both ends of a TLS handshake in memory; raises when the client does not trust the server."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue


def test_a_certificate_is_good_for_its_hosts_and_no_other(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = authority.issue("apiserver", ["127.0.0.1", "localhost"]).context()
    handshake(trusting(authority.file), server, "127.0.0.1")
    handshake(trusting(authority.file), server, "localhost")
    refused = False
    try:
        handshake(trusting(authority.file), server, "example.org")
    except ssl.SSLCertVerificationError:
        refused = True
    assert refused


def test_private_files_are_for_their_owner(tmp_path: Path) -> None:
    private, _ = write_signing_key(tmp_path)
    config = kubeconfig.write(tmp_path / "kubeconfig", kubeconfig.document("https://127.0.0.1:1", "ca.crt", "token"))
    issued = Authority(tmp_path).issue("gate", ["127.0.0.1"])
    assert {stat.S_IMODE(file.stat().st_mode) for file in (private, config, issued.key)} == {0o600}


async def test_a_written_kubeconfig_is_read_back(tmp_path: Path) -> None:
    authority = Authority(tmp_path).file
    document = kubeconfig.document("https://127.0.0.1:6443", str(authority), "secret", "muster")
    access = await load(kubeconfig.write(tmp_path / "kubeconfig", document))
    assert (access.server, access.token) == ("https://127.0.0.1:6443", "secret")
    assert yaml.safe_load((tmp_path / "kubeconfig").read_text())["contexts"][0]["context"]["namespace"] == "muster"


def test_free_ports_differ_and_can_be_listened_on() -> None:
    found = ports.free(10)
    assert len(set(found)) == 10
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", found[0]))


def test_a_fake_node_reports_what_it_has() -> None:
    taint = {"key": "gpu", "effect": "NoSchedule"}
    node = FakeNode("n", cpu="4", labels={"zone": "a"}, taints=[taint], extra={"nvidia.com/gpu": "2"}).manifest()
    assert node["status"]["allocatable"] == {"cpu": "4", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": "2"}
    assert node["metadata"]["labels"]["zone"] == "a"
    assert node["spec"] == {"taints": [taint]}


def test_a_node_is_ready_only_without_the_not_ready_taint() -> None:
    taints = [{"key": "node.kubernetes.io/not-ready"}]
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    assert is_ready({"spec": {}, "status": ready})
    assert not is_ready({"spec": {"taints": taints}, "status": ready})
    assert not is_ready({"spec": {}, "status": {}})


def test_paths_of_the_api_server() -> None:
    assert BY_PLURAL["pods"].path() == "/api/v1/pods"
    assert BY_PLURAL["pods"].path("ns", "p", "binding") == "/api/v1/namespaces/ns/pods/p/binding"
    assert BY_KIND["Node"].path("ignored", "n") == "/api/v1/nodes/n"
    assert BY_KIND["Job"].path("ns") == "/apis/batch/v1/namespaces/ns/jobs"
