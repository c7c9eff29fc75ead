"""Credentials for the API server: the kubeconfig, which is read again after a rejection."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from muster_operator.kube.session import KubeSession
from muster_operator.model.errors import NoCredentials
from muster_si import kubeconfig as files
from muster_si.kubeconfig import Access, Credentials


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


def token_of(access: Access) -> str:
    return dict(access.headers)["Authorization"].removeprefix("Bearer ")


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config"
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.setenv("HOME", str(tmp_path))
    return path


def test_a_kubeconfig_token_is_used_unchanged(kubeconfig: Path) -> None:
    write(kubeconfig, {"token": "abc"})
    access = Credentials().current()
    assert access.server == "https://api.example:6443"
    assert token_of(access) == "abc"


def test_a_client_certificate_is_used_unchanged(kubeconfig: Path) -> None:
    write(kubeconfig, {"client-certificate": "/c.pem", "client-key": "/k.pem"})
    tls = Credentials().current().tls
    assert (tls.certificate, tls.key) == ("/c.pem", "/k.pem")


def test_an_exec_credential_plugin_is_run(kubeconfig: Path, tmp_path: Path) -> None:
    program = tmp_path / "login"
    status = '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "made"}}'
    program.write_text(f"#!/bin/sh\necho '{status}'\n")
    program.chmod(0o755)
    run = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program), "interactiveMode": "Never"}
    write(kubeconfig, {"exec": run})
    assert token_of(Credentials().current()) == "made"


def test_a_rejected_token_is_replaced_by_the_one_in_the_file(kubeconfig: Path) -> None:
    write(kubeconfig, {"token": "old"})
    credentials = Credentials()
    assert token_of(credentials.current()) == "old"
    write(kubeconfig, {"token": "new"})
    assert token_of(credentials.current()) == "old"
    assert token_of(credentials.reread()) == "new"


def test_an_invalid_kubeconfig_leaves_the_old_credentials_in_use(kubeconfig: Path) -> None:
    warnings: list[str] = []
    write(kubeconfig, {"token": "old"})
    credentials = Credentials(warn=lambda reason: warnings.append(reason))  # noqa: PLW0108 # called by name
    credentials.current()
    kubeconfig.write_text("{")
    assert token_of(credentials.reread()) == "old"
    assert len(warnings) == 1


async def test_missing_credentials_are_reported_with_the_fix(kubeconfig: Path) -> None:
    session = KubeSession(Credentials())
    with pytest.raises(NoCredentials, match="set KUBECONFIG"):
        await session.get("/version")
    await session.close()


def test_a_rotated_kubeconfig_is_read_at_the_next_check(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "CHECK_INTERVAL_S", -1.0)
    write(kubeconfig, {"token": "old"})
    credentials = Credentials()
    first = credentials.current()
    assert credentials.current() is first
    write(kubeconfig, {"token": "newer"})
    assert token_of(credentials.current()) == "newer"


def test_a_renewed_certificate_file_is_detected(
    kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "CHECK_INTERVAL_S", -1.0)
    certificate = tmp_path / "c.pem"
    certificate.write_text("one")
    write(kubeconfig, {"client-certificate": str(certificate), "client-key": "/k.pem"})
    credentials = Credentials()
    first = credentials.current()
    assert credentials.current() is first
    certificate.write_text("another")
    assert credentials.current() is not first
