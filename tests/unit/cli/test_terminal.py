"""Tables on a terminal of 80 columns: columns are left out, and no cell is broken within a word."""

import os
import pty
import re
import subprocess
import sys
import termios
from dataclasses import replace

import pytest
from rich.console import Group
from typer.testing import CliRunner

from muster.main import app
from muster.output import console, print_page, table
from muster.text import wrapped
from muster_core.model.events import ApplicationAdded
from muster_core.model.resources import Limit
from tests.unit.builders import an_ask, resources
from tests.unit.cli.conftest import Served, an_application, rows, run
from tests.unit.repo.tree import ROOT

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
    served.scenario.gang(ApplicationAdded(spec), 40)
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
    message = "No applications found in namespace nowhere (-n or -A selects others)\n"
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", message)
    assert (
        served.run("apps", "-q", "root.a", "-A", "-u", "x").stderr
        == "No applications found in queue root.a of user x\n"
    )


def test_states_have_colors_on_a_terminal_only(served: Served) -> None:
    env = {"FORCE_COLOR": "1", "COLUMNS": "120", "TERM": "xterm-256color"}
    colored = CliRunner().invoke(app, ["apps", "--server", served.url], env=env)
    assert "\x1b[32mRunning" in colored.output
    assert "\x1b" not in served.run("apps").output
