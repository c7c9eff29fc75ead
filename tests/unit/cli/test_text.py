"""Text of users cannot control the terminal of the person who reads it."""

import ast
import json
import os
import pty
import re
import subprocess
import sys
import termios
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Group
from typer.testing import CliRunner

from muster import printers
from muster.main import app
from muster.output import Output, console, emit, print_page, table
from muster.text import print_line, printable, wrapped
from muster_core.model.events import ApplicationAdded
from muster_core.model.resources import Limit
from tests.unit.builders import an_ask, resources
from tests.unit.cli.conftest import Served, an_application, rows, run
from tests.unit.repo.tree import ROOT

EVIL = "eve\x1b]0;owned\x07\x1b[2J\x7f\x9b31m\u202etxt.\u2028\rx\ty"
SHOWN = "eve\\u001b]0;owned\\u0007\\u001b[2J\\u007f\\u009b31m\\u202etxt.\\u2028\\u000dx\\u0009y"


@pytest.mark.parametrize("text", ["", "plain", "two\nlines", "größe 数 🙂"])
def test_printable_text_is_unchanged(text: str) -> None:
    assert printable(text) == text


def test_control_characters_are_escaped_as_in_json() -> None:
    assert printable(EVIL) == SHOWN
    assert json.loads(f'"{printable(EVIL)}"') == EVIL
    assert printable("\ud800\U000e0001") == "\\ud800\\udb40\\udc01"


def test_tables_lines_and_errors_are_printed_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    page = table("USER")
    page.add_row(EVIL)
    screen = console()
    with screen.capture() as text:
        screen.print(page, EVIL)
    assert text.get().count(SHOWN) == 2
    print_line(f"muster: {EVIL}", err=True)
    assert capsys.readouterr().err == f"muster: {SHOWN}\n"


def test_a_user_with_escape_sequences_is_printed_as_text_in_the_list_of_applications() -> None:
    app: dict[str, Any] = {
        **dict.fromkeys(("applicationID", "queueName", "applicationState", "user", "rejectedMessage"), EVIL),
        **{key: [] for key in ("allocations", "requests")},
        **{key: {} for key in ("usedResource", "pendingResource")},
        "submissionTime": 0,
        "namespace": "b",
        "maxRequestPriority": 0,
        "gangSchedulingStyle": "",
    }
    screen = console(1000)
    with screen.capture() as text:
        screen.print(printers.apps([app], True, 10**18))
    assert text.get().count(SHOWN) == 5
    assert "\x1b" not in text.get()


@pytest.mark.parametrize("output, read", [(Output.JSON, json.loads), (Output.YAML, yaml.safe_load)])
def test_data_has_no_control_characters_and_the_same_values(
    output: Output, read: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    emit({"user": EVIL, "queue": "größe"}, output)
    text = capsys.readouterr().out
    assert printable(text) == text
    assert read(text) == {"user": EVIL, "queue": "größe"}


def test_commands_print_only_through_the_modules_that_escape() -> None:
    calls = [
        f"{path.name}:{node.lineno}"
        for path in (ROOT / "cli/muster").rglob("*.py")
        if path.name not in ("text.py", "output.py", "completing.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "typer.echo", "typer.secho", "Console")
    ]
    assert not calls


# -- Tables on a terminal of 80 columns: columns are left out, and no cell is broken within a word.

APPLICATION = "spark-0123456789abcdef0123456789abcdef"
_TIME = re.compile(r"2\d{3}-.*Z")
#: Columns that `-o wide` shows.
WIDE = {"TAKES", "EFFECT", "(-o", "wide)"}


def terminal(served: Served, *arguments: str, columns: int = 80) -> str:
    """What a terminal shows, without styles."""
    return shown(*arguments, "--server", served.url, columns=columns)


def shown(*arguments: str, columns: int) -> str:
    """What a terminal shows, without styles."""
    env = {"TTY_COMPATIBLE": "1", "COLUMNS": str(columns), "NO_COLOR": "1"}
    result = CliRunner().invoke(app, arguments, env=env, prog_name="muster")
    assert result.exit_code == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", result.output)


@pytest.fixture
def crowded(served: Served) -> Served:
    """A core with names as long as real ones."""
    spec = an_application(APPLICATION, gang=40, queue="root.b")
    served.scenario.gang(spec, 40)
    served.scenario.ask(an_ask("member-of-a-gang-that-has-a-long-name", app=APPLICATION, group="workers"))
    return served


@pytest.mark.parametrize(
    "line",
    [
        *("status", "queues", "queues --tree", "apps", "apps -A", "apps --state rejected", "nodes", "version"),
        *(f"app {APPLICATION}", f"explain {APPLICATION}", f"explain {APPLICATION} --history"),
    ],
)
def test_no_line_is_longer_than_the_terminal_and_no_word_is_broken(crowded: Served, line: str) -> None:
    lines = [text for text in terminal(crowded, *line.split()).splitlines() if not text.startswith("not shown: ")]
    assert [text for text in lines if len(text.rstrip()) > 80] == []
    words = set(crowded.run(*line.split()).output.split())
    shown = {word for text in lines for word in text.split() if "─" not in word and not _TIME.fullmatch(word)}
    assert shown - words == set()


@pytest.mark.parametrize("columns", [40, 80])
def test_settings_and_defaults_fit_the_terminal(columns: int) -> None:
    for line in ("config show --defaults", f"config show -f {ROOT / 'examples' / 'queues.yaml'}"):
        found = shown(*line.split(), columns=columns).splitlines()
        words = {word for text in run(*line.split()).stdout.splitlines() for word in text.split()}
        assert {word for text in found for word in text.split() if "─" not in word} <= words | {"not", "shown:", *WIDE}
        assert [text for text in found if len(text) > columns and " " in text.strip()] == []


def test_a_cell_without_room_is_below_its_row() -> None:
    page = console(30)
    made = table("NAME", "VALUE", "FROM", sentences=("VALUE",))
    made.add_row("a.long.name.of.a.setting", "short", "x")
    made.add_row("b", "a value of several words that needs its own lines", "x")
    with page.capture() as captured:
        page.print(made)
    lines = captured.get().splitlines()
    assert lines[lines.index("─" * 30) + 1 :] == [
        "a.long.name.of.a.setting",
        "    short   x",
        "b",
        "    a value of several words",
        "    that needs its own lines",
        "    x",
    ]


@pytest.mark.parametrize(
    "text, lines",
    [
        ("cpu 100m, memory 64Mi, pods 2", ["cpu 100m,", "memory 64Mi,", "pods 2"]),
        ("cpu 100m, a, pods 2", ["cpu 100m, a,", "pods 2"]),
        ("queue root.an-unbroken-name ends", ["queue", "root.an-unbroken-name", "ends"]),
        ("a 1 2 3 4 5 6 7 8 9", ["a 1 2 3 4 5 6", "7 8 9"]),
        ("  kept", ["  kept"]),
        ("  kept in a longer line", ["  kept in a", "longer line"]),
        ("one\ntwo", ["one", "two"]),
        ("", [""]),
    ],
)
def test_lines_end_between_words_and_not_before_a_number(text: str, lines: list[str]) -> None:
    assert list(wrapped(text, 13)) == lines
    page = console(13)
    with page.capture() as captured:
        print_page(page, Group(text))
    assert [line.rstrip() for line in captured.get().splitlines()] == (lines if text else [""])


def test_an_error_on_a_terminal_ends_its_lines_between_words() -> None:
    reader, writer = pty.openpty()
    termios.tcsetwinsize(writer, (24, 40))
    line = [sys.executable, "-m", "muster", "apps", "--kubeconfig", "/nowhere/in/this/file/system/config"]
    subprocess.run(line, stderr=writer, env={"PATH": os.environ["PATH"]}, check=False)
    lines = os.read(reader, 10_000).decode().splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= 40
    assert [text[:2] for text in lines[1:]] == ["  "] * (len(lines) - 1)


def test_columns_that_are_left_out_are_named_with_the_option_that_shows_them(crowded: Served) -> None:
    assert "not shown: USER" in terminal(crowded, "apps", "-A")
    wide = terminal(crowded, "apps", "-A", "-o", "wide")
    assert "not shown" not in wide
    assert {"USER", "PLACEHOLDERS", "REASON"} <= set(wide.splitlines()[0].split())


def test_a_pipe_has_all_columns(crowded: Served) -> None:
    assert "PLACEHOLDERS" in crowded.run("apps", "-A").output


def test_a_table_that_cannot_fit_is_not_broken_within_words(crowded: Served) -> None:
    assert APPLICATION in terminal(crowded, "apps", columns=30)


def test_resources_that_a_queue_limits_have_a_column(served: Served) -> None:
    [partition] = served.scenario.scheduler_state.partitions.values()
    [queue] = [leaf for leaf in partition.queues.leaves() if leaf.path == "root.b"]
    queue.max = Limit({"nvidia.com/gpu": 4})
    assert rows(served.run("queues", "root.b"))[0][:6] == ["root.b", "Active", "0", "0", "0", "0/4"]
    assert "GPU" in served.run("queues").output.splitlines()[0].split()


def test_two_kinds_of_gpus_are_shown_by_their_full_names(served: Served) -> None:
    served.scenario.send(ApplicationAdded(an_application("gpus", queue="root.b")))
    amounts = resources(pods=1, **{"nvidia.com/gpu": 1, "amd.com/gpu": 1})
    served.scenario.ask(replace(an_ask("g", app="gpus"), resources=amounts))
    assert {"NVIDIA.COM/GPU", "AMD.COM/GPU"} <= set(served.run("apps").output.splitlines()[0].split())


def test_queues_are_shown_as_a_tree(served: Served) -> None:
    names = [line.partition("Active")[0] for line in served.run("queues", "--tree").output.splitlines()[2:]]
    assert [name.rstrip() for name in names] == ["root", "  a", "  b"]


def test_an_empty_list_is_a_sentence_on_standard_error(served: Served) -> None:
    result = served.run("apps", "-n", "nowhere")
    message = "No active applications found in namespace nowhere (-n or -A selects others)"
    others = "; --state completed lists those that have ended\n"
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"{message}{others}")
    assert (
        served.run("apps", "-q", "root.a", "-A", "-u", "x").stderr
        == f"No active applications found in queue root.a of user x{others}"
    )


def test_states_have_colors_on_a_terminal_only(served: Served) -> None:
    env = {"FORCE_COLOR": "1", "COLUMNS": "120", "TERM": "xterm-256color"}
    colored = CliRunner().invoke(app, ["apps", "--server", served.url], env=env)
    assert "\x1b[32mRunning" in colored.output
    assert "\x1b" not in served.run("apps").output


# -- The command prints one line for invalid arguments or a failed write, and nothing for a closed pipe.


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["nosuch"], "muster: No such command 'nosuch'; see muster --help"),
        (["queus"], "muster: No such command 'queus'. Did you mean 'queues'; see muster --help"),
        (["queues", "--outptu"], "muster queues: No such option: --outptu. Did you mean --output; see"),
        (
            ["simulate", "--speed", "0"],
            "muster simulate: Invalid value for '--speed': '0' is not greater than or equal",
        ),
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
