"""Credentials for the API server: the kubeconfig, which is read again after a rejection."""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest
import yaml

from muster_operator.kube.session import KubeSession, Request
from muster_operator.model.errors import NoCredentials, Unreachable
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


async def test_credentials_that_are_invalid_later_leave_the_old_ones_in_use(kubeconfig: Path) -> None:
    write(kubeconfig, {"token": "t"})
    credentials = Credentials()
    old = credentials.current()
    write(kubeconfig, {"token": "t", "as": "ann", "as-user-extra": {"k": None}})
    assert await credentials.renewed(old) == old


def counted(folder: Path) -> tuple[Path, dict[str, object]]:
    """A plugin that ends when something was written to the pipe, and the file with a line per run."""
    os.mkfifo(folder / "pipe")
    program, runs = folder / "login", folder / "runs"
    status = '{"status": {"token": "t"}}'
    program.write_text(f"#!/bin/sh\necho run >> {runs}\nread line < {folder}/pipe\necho '{status}'\n")
    program.chmod(0o755)
    return runs, {"exec": {"command": str(program)}}


async def test_a_slow_credential_plugin_does_not_block_the_event_loop_and_runs_once(
    kubeconfig: Path, tmp_path: Path
) -> None:
    runs, user = counted(tmp_path)
    write(kubeconfig, user)
    credentials = Credentials()
    readers = [asyncio.create_task(credentials.now()) for _ in range(5)]
    pipe = await asyncio.to_thread((tmp_path / "pipe").open, "w")  # the event loop runs while the plugin waits
    assert not any(reader.done() for reader in readers)
    pipe.write("go\n")
    pipe.close()
    assert {token_of(access) for access in await asyncio.gather(*readers)} == {"t"}
    assert runs.read_text().split() == ["run"]


async def test_a_request_does_not_wait_for_a_credential_plugin_longer_than_its_timeout(
    kubeconfig: Path, tmp_path: Path
) -> None:
    _, user = counted(tmp_path)
    write(kubeconfig, user)
    session = KubeSession(Credentials())
    with pytest.raises(Unreachable, match="no answer in"):
        await session.send(Request("GET", "/version", within_s=0.1))
    async with asyncio.timeout(20):
        (await asyncio.to_thread((tmp_path / "pipe").open, "w")).close()
    await session.close()


def test_threads_share_one_reading_after_a_rejection() -> None:
    reads = count(1)
    credentials = Credentials(lambda: Access("https://api", context=str(next(reads))))
    old = credentials.current()
    with ThreadPoolExecutor(8) as pool:
        renewed = {*pool.map(lambda _: credentials.reread(old).context, range(32))}
    assert (renewed, next(reads)) == ({"2"}, 3)


async def test_repeated_rejections_read_credentials_once_per_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []

    def read() -> Access:
        reads.append(1)
        return Access("https://api")

    credentials = Credentials(read)
    for _ in range(9):
        await credentials.renewed(await credentials.now())
    assert len(reads) == 2
    monkeypatch.setattr(files, "REJECTION_INTERVAL_S", -1.0)
    await credentials.renewed(await credentials.now())
    assert len(reads) == 3


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
