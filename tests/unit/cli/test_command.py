"""The `muster` command line: its commands, and one line instead of a traceback if it cannot start."""

import os
import shlex
import subprocess
import sys
import sysconfig
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from muster.main import COMMANDS, Entry, app
from muster_operator.main import tls_files
from muster_operator.model.errors import StartupRefused
from muster_si.api import SI_VERSION
from tests.unit.repo.tree import ROOT

#: What takes long to load.
HEAVY = ("muster_core", "muster_operator", "kubernetes", "grpc", "kopf", "aiohttp", "numpy", "pydantic", "cryptography")
NEED_BOTH = ("run", "simulate", "apply", "plan", "validate", "config", "smoke-test", "uninstall", "placeholders")


def joined(text: str) -> str:
    """The text without line breaks."""
    return " ".join(text.split())


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a separate process with a separate environment."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "PYTHONPATH")}
    return subprocess.run(
        [sys.executable, *arguments], env=kept | env, capture_output=True, text=True, timeout=50, check=False
    )


def test_the_version_names_the_scheduler_interface_too() -> None:
    result = CliRunner().invoke(app, ["version", "--client"])
    assert result.exit_code == 0
    assert SI_VERSION in result.output


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_the_help_of_every_command_shows_its_examples(entry: Entry) -> None:
    result = CliRunner().invoke(app, [entry.name, "--help"])
    assert result.exit_code == 0
    assert [example for example in entry.examples if " ".join(example.split()) not in joined(result.stdout)] == []


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_examples_are_valid_command_lines(entry: Entry) -> None:
    for example in entry.examples:
        line = shlex.split(example.rpartition("| ")[2])
        assert line[:2] == ["muster", entry.name]
        context: Any = typer.main.get_command(app).make_context("muster", line[1:2])
        entry.command.make_context(entry.name, line[2:], context)


def test_help_of_the_read_only_commands_imports_neither_core_nor_operator() -> None:
    commands = [entry.name for entry in COMMANDS if entry.source.startswith("muster.") and entry.name not in NEED_BOTH]
    assert len(commands) > 5
    code = f"""
import sys
from typer.testing import CliRunner
from muster.main import app
for line in (["--help"], *([command, "--help"] for command in {commands!r})):
    assert CliRunner().invoke(app, line).exit_code == 0, line
    assert not [name for name in {HEAVY!r} if name in sys.modules], line
"""
    result = run("-c", code)
    assert result.returncode == 0, result.stderr


def test_the_shell_completes_commands() -> None:
    script = str(Path(sysconfig.get_path("scripts")) / "muster")
    result = run(script, _MUSTER_COMPLETE="complete_bash", COMP_WORDS="muster no", COMP_CWORD="1")
    assert result.stdout.split() == ["nodes"]


@pytest.mark.parametrize(
    "begun, answers",
    [
        (["no"], ["nodes"]),
        (["config", ""], ["show"]),
        (["nodes", "-o", ""], ["table", "wide", "yaml", "json"]),
        (["nodes", "--o"], ["--output"]),
        (["validate", ""], []),  # a file: that is the shell's to complete
    ],
    ids=" ".join,
)
def test_kubectl_completes_commands(begun: list[str], answers: list[str]) -> None:
    script = str(Path(sysconfig.get_path("scripts")) / "kubectl_complete-muster")
    *found, directive = run(script, *begun).stdout.splitlines()
    assert [line.partition("\t")[0] for line in found] == answers
    assert directive == ":0"


def test_the_command_is_a_plugin_of_kubectl_too() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["kubectl-muster"] == scripts["muster"]


def test_run_needs_no_option_with_one_legal_value() -> None:
    parameters = next(entry for entry in COMMANDS if entry.name == "run").command.params
    assert [one.name for one in parameters if one.required] == []
    assert "embedded" not in [one.name for one in parameters]


def test_the_version_is_an_option_too() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"muster {version('muster-scheduler')}\n")


def test_the_options_of_the_connection_have_a_command_and_one_line_in_other_help() -> None:
    apps, connection = (CliRunner().invoke(app, line).output for line in (["apps", "--help"], ["options"]))
    assert "muster options" in apps
    assert "--certificate-authority" not in apps
    assert "--certificate-authority" in connection


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_help_fits_80_columns_without_boxes_and_types_of_flags(entry: Entry) -> None:
    result = CliRunner().invoke(app, [entry.name, "--help"])
    assert [line for line in result.output.splitlines() if len(line) > 80] == []
    assert not {*"│╭╰"} & {*result.output}
    assert "<bool>" not in result.output


def test_an_operator_that_cannot_start_reports_the_reason_in_one_line(tmp_path: Path) -> None:
    result = run("-m", "muster_operator", "--health-port=0", HOME=str(tmp_path), KUBECONFIG=str(tmp_path / "none"))
    assert result.returncode == 1
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("muster operator cannot serve: no credentials")
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("files", [("cert", None, None), ("cert", "key", "missing")])
def test_the_files_of_mutual_tls_are_required_together_and_must_exist(
    files: tuple[str | None, ...], tmp_path: Path
) -> None:
    for name in ("cert", "key"):
        (tmp_path / name).touch()
    certificate, key, authority = (None if name is None else tmp_path / name for name in files)
    with pytest.raises(StartupRefused, match=r"--tls-cert, --tls-key and --tls-ca must be set together|does not exist"):
        tls_files(certificate, key, authority)


@pytest.mark.parametrize("entry", COMMANDS, ids=[entry.name for entry in COMMANDS])
def test_a_usage_line_names_arguments_as_the_help_does(entry: Entry) -> None:
    usage, _, rest = CliRunner().invoke(app, [entry.name, "--help"], prog_name="muster").output.partition("\n\n")
    assert "{" not in usage
    [*_, last] = usage.split()
    assert last.startswith(("[OPTIONS]", "COMMAND", "[ARGS]")) or last.strip("[].") in rest


def test_the_plugin_of_kubectl_calls_itself_as_its_user_does() -> None:
    plugin = Path(sysconfig.get_path("scripts")) / "kubectl-muster"
    shown = subprocess.run([plugin, "queues", "--help"], capture_output=True, text=True, check=True).stdout
    assert shown.startswith("Usage: kubectl muster queues [OPTIONS] [QUEUE]\n")
    assert "kubectl muster queues --tree" in shown
    assert "'kubectl muster options' lists" in joined(shown)
    wrong = subprocess.run([plugin, "queuse"], capture_output=True, text=True, check=False).stderr
    assert wrong == "kubectl muster: No such command 'queuse'. Did you mean 'queues'; see kubectl muster --help\n"
