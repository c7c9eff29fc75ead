"""Cores that require a token, and kubeconfigs that do not work."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from muster_core.rest.auth import AccessSettings, ServerTls
from muster_core.rest.server import RestSettings
from tests.unit.cli.conftest import NO_CLUSTER, Served, a_scenario, core_thread, run

TOKEN = "a token of sixteen characters"
AUTHORITY = trustme.CA()
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: "{server}"}}}}]
users: [{{name: u, user: {{token: t}}}}]
"""


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Served]:
    """A core with TLS that requires a token for every request; the files are in `tmp_path`."""
    certificate = AUTHORITY.issue_cert("127.0.0.1")
    certificate.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    certificate.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    AUTHORITY.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    access = AccessSettings(token_file=tmp_path / "token", closed=True)
    tls = ServerTls(tmp_path / "cert.pem", tmp_path / "key.pem")
    with core_thread(a_scenario(), RestSettings(port=0, tls=tls, access=access)) as served:
        yield served


def test_a_protected_core_accepts_a_token_over_tls(closed: Served, tmp_path: Path) -> None:
    trusting = ("--certificate-authority", str(tmp_path / "ca.pem"))
    token = ("--token-file", str(tmp_path / "token"))
    assert closed.run("queues", *trusting, *token).exit_code == 0
    assert closed.run("queues", "--insecure-skip-tls-verify", *token).exit_code == 0


def test_a_protected_core_reports_the_missing_credential(closed: Served, tmp_path: Path) -> None:
    trusting = ("--certificate-authority", str(tmp_path / "ca.pem"))
    nobody = closed.run("queues", *trusting)
    assert nobody.exit_code == 3
    assert "set --token-file" in nobody.stderr
    (tmp_path / "other").write_text("another token of that length")
    assert closed.run("queues", *trusting, "--token-file", str(tmp_path / "other")).exit_code == 3


def test_a_certificate_of_an_unknown_authority_is_rejected(closed: Served, tmp_path: Path) -> None:
    result = closed.run("queues", "--token-file", str(tmp_path / "token"))
    assert result.exit_code == 3
    assert len(result.stderr.splitlines()) == 1
    assert "CERTIFICATE_VERIFY_FAILED" in result.stderr


def test_an_unreachable_cluster_gives_one_line_and_exit_code_3(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG.format(server=NO_CLUSTER))
    for command in ("queues", "doctor"):
        result = run(command, "--kubeconfig", str(path))
        assert result.exit_code == 3
        assert result.stderr == f"muster: request to the API server {NO_CLUSTER} failed: Connection refused\n"


@pytest.mark.parametrize(
    "text", [None, "", "nonsense: [", "clusters: 1", KUBECONFIG.format(server="x").replace("name: u", "name: v")]
)
def test_an_invalid_kubeconfig_gives_one_line_and_exit_code_2_or_3(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    if text is not None:
        path.write_text(text)
    result = run("queues", "--kubeconfig", str(path))
    assert result.exit_code in (2, 3)
    assert len(result.stderr.splitlines()) == 1, result.output


def test_an_unknown_context_gives_one_line_and_exit_code_2(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG.format(server=NO_CLUSTER))
    for command in (["queues"], ["apps", "--server", NO_CLUSTER], ["config", "show"], ["smoke-test", "--image", "x"]):
        result = run(*command, "--kubeconfig", str(path), "--context", "prod")
        assert result.exit_code == 2
        assert result.stderr == f'muster: context "prod" does not exist in {path}\n'
        assert result.stdout == ""


def test_a_missing_token_file_is_named_without_a_number(tmp_path: Path) -> None:
    result = run("status", "--server", "http://127.0.0.1:9", "--token-file", str(tmp_path / "none"))
    assert result.stderr == f"muster: --token-file {tmp_path / 'none'} cannot be read: No such file or directory\n"


@pytest.mark.parametrize("command", [(), ("simulate",), ("config", "show")])
def test_the_short_option_shows_the_help(command: tuple[str, ...]) -> None:
    found = run(*command, "-h")
    assert (found.exit_code, found.stdout) == (0, run(*command, "--help").stdout)
    assert max(map(len, found.stdout.splitlines())) <= 80
