"""The command prints one line for invalid arguments or a failed write, and nothing for a closed pipe."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from muster.main import app
from muster_core.model.events import ApplicationAdded
from tests.unit.cli.conftest import Served, an_application, run


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["nosuch"], "muster: No such command 'nosuch'; see muster --help"),
        (["queus"], "muster: No such command 'queus'. Did you mean 'queues'; see muster --help"),
        (["queues", "--nosuch"], "muster queues: No such option: --nosuch; see muster queues --help"),
        (
            ["queues", "-o", "jsn"],
            "muster queues: Invalid value for '--output' / '-o': 'jsn' is not one of table, wide, yaml, json; did you",
        ),
        (["app"], "muster app: Missing argument 'APPLICATION'; see muster app --help"),
        (["app", "a", "b"], "muster app: Got unexpected extra argument(s) (b); see muster app --help"),
        (["config", "nosuch"], "muster config: No such command 'nosuch'; see muster config --help"),
        (["queues", "--server", "http://[::1"], "muster: 'http://[::1' is not a URL of a server; "),
    ],
)
def test_an_invalid_command_line_gives_one_line_and_exit_code_2(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith(message)


def test_a_missing_kubeconfig_is_reported_with_its_path() -> None:
    result = run("queues", "--kubeconfig", "missing/config")
    message = "muster: --kubeconfig missing/config does not exist\n"
    assert (result.exit_code, result.stderr) == (2, message)


@pytest.mark.parametrize("arguments", [[], ["config"]])
def test_without_a_command_the_commands_are_shown(arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Usage:" in result.stdout
    assert result.stderr == ""


def test_an_output_that_cannot_be_written_gives_one_line_and_exit_code_1() -> None:
    with Path("/dev/full").open("w") as full:
        line = [sys.executable, "-m", "muster", "version", "--client", "-o", "json"]
        done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "muster: cannot write the output: No space left on device\n"


def test_a_closed_output_pipe_ends_the_command_without_a_message(served: Served) -> None:
    served.scenario.send(
        *(ApplicationAdded(an_application(f"one-more-{number}", queue="root.b")) for number in range(400))
    )
    line = [sys.executable, "-m", "muster", "apps", "-o", "json", "--server", served.url]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "{\n"
        process.stdout.close()
        message = process.stderr.read()
    assert message == ""
    assert process.returncode in (0, 1)


def test_a_narrow_terminal_does_not_truncate_a_table(served: Served) -> None:
    narrow = CliRunner().invoke(app, ["queues", "--server", served.url], env={"COLUMNS": "20"})
    assert narrow.stdout == served.run("queues").stdout, "a pipe has no width"
