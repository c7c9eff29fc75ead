"""The `muster` command line: what it offers, and one line instead of a traceback where it cannot start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from muster.main import app
from muster_operator.link.errors import StartupRefused
from muster_operator.main import tls_files
from muster_si.api import SI_VERSION


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, with an environment of its own."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "PYTHONPATH")}
    return subprocess.run(
        [sys.executable, *arguments], env=kept | env, capture_output=True, text=True, timeout=50, check=False
    )


def test_the_version_names_the_scheduler_interface_too() -> None:
    result = CliRunner().invoke(app, ["version"])
    assert result.exit_code == 0
    assert SI_VERSION in result.output


@pytest.mark.parametrize("command", ["run", "core", "operator", "version", "validate"])
def test_every_command_says_what_it_does(command: str) -> None:
    assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0


def test_run_without_embedded_says_what_to_do() -> None:
    result = CliRunner().invoke(app, ["run"])
    assert result.exit_code == 2
    assert "--embedded" in result.output


def test_an_operator_that_cannot_serve_says_why_in_one_line(tmp_path: Path) -> None:
    result = run("-m", "muster_operator", "--health-port=0", HOME=str(tmp_path), KUBECONFIG=str(tmp_path / "none"))
    assert result.returncode == 1
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("muster operator cannot serve: no credentials")
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("files", [("cert", None, None), ("cert", "key", "missing")])
def test_the_files_of_mutual_tls_go_together_and_have_to_be_there(
    files: tuple[str | None, ...], tmp_path: Path
) -> None:
    for name in ("cert", "key"):
        (tmp_path / name).touch()
    certificate, key, authority = (None if name is None else tmp_path / name for name in files)
    with pytest.raises(StartupRefused, match=r"--tls-cert, --tls-key and --tls-ca go together|does not exist"):
        tls_files(certificate, key, authority)
