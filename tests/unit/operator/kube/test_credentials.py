"""Credentials for the API server: the kubeconfig, which is read again after a rejection."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from muster_operator.kube import session
from muster_operator.kube.session import Credentials
from muster_operator.model.errors import NoCredentials


def write(path: Path, user: dict[str, object]) -> None:
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": "https://api.example:6443"}}],
                "users": [{"name": "u", "user": user}],
            }
        )
    )


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config"
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.setenv("HOME", str(tmp_path))
    return path


def test_a_kubeconfig_token_is_used_unchanged(kubeconfig: Path) -> None:
    write(kubeconfig, {"token": "abc"})
    info = Credentials().current()
    assert info.server == "https://api.example:6443"
    assert info.as_http_headers() == {"Authorization": "Bearer abc"}


def test_a_client_certificate_is_used_unchanged(kubeconfig: Path) -> None:
    write(kubeconfig, {"client-certificate": "/c.pem", "client-key": "/k.pem"})
    info = Credentials().current()
    assert (info.certificate_path, info.private_key_path) == ("/c.pem", "/k.pem")


def test_an_exec_credential_plugin_is_run(kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The official client reads the environment once, when it is imported.
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(kubeconfig))
    program = tmp_path / "login"
    status = '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "made"}}'
    program.write_text(f"#!/bin/sh\necho '{status}'\n")
    program.chmod(0o755)
    run = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program), "interactiveMode": "Never"}
    write(kubeconfig, {"exec": run})
    assert Credentials().current().as_http_headers() == {"Authorization": "Bearer made"}


def test_a_rejected_token_is_replaced_by_the_one_in_the_file(kubeconfig: Path) -> None:
    write(kubeconfig, {"token": "old"})
    credentials = Credentials()
    assert credentials.current().token == "old"
    write(kubeconfig, {"token": "new"})
    assert credentials.current().token == "old"
    assert credentials.reread().token == "new"


def test_an_invalid_kubeconfig_leaves_the_old_credentials_in_use(kubeconfig: Path) -> None:
    write(kubeconfig, {"token": "old"})
    credentials = Credentials()
    credentials.current()
    kubeconfig.write_text("{")
    assert credentials.reread().token == "old"


def test_missing_credentials_are_reported_with_the_fix(kubeconfig: Path) -> None:
    with pytest.raises(NoCredentials, match="set KUBECONFIG"):
        Credentials().current()


def test_a_rotated_kubeconfig_is_read_at_the_next_check(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "CHECK_INTERVAL_S", -1.0)
    write(kubeconfig, {"token": "old"})
    credentials = Credentials()
    first = credentials.current()
    assert credentials.current() is first
    write(kubeconfig, {"token": "newer"})
    assert credentials.current().token == "newer"


def test_a_renewed_certificate_file_is_detected(
    kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "CHECK_INTERVAL_S", -1.0)
    certificate = tmp_path / "c.pem"
    certificate.write_text("one")
    write(kubeconfig, {"client-certificate": str(certificate), "client-key": "/k.pem"})
    credentials = Credentials()
    first = credentials.current()
    assert credentials.current() is first
    certificate.write_text("another")
    assert credentials.current() is not first
