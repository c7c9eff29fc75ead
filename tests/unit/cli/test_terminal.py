"""Tables on a terminal of 80 columns: columns are left out, and no cell is broken within a word."""

import re
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from muster.main import app
from muster_core.model.events import ApplicationAdded
from muster_core.model.resources import Limit
from tests.unit.builders import an_ask, resources
from tests.unit.cli.conftest import Served, an_application, rows

APPLICATION = "spark-0123456789abcdef0123456789abcdef"


def terminal(served: Served, *arguments: str, columns: int = 80) -> str:
    """What a terminal shows, without styles."""
    env = {"TTY_COMPATIBLE": "1", "COLUMNS": str(columns), "NO_COLOR": "1"}
    result = CliRunner().invoke(app, [*arguments, "--server", served.url], env=env, prog_name="muster")
    assert result.exit_code == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", result.output)


@pytest.fixture
def crowded(served: Served) -> Served:
    """A core with names as long as real ones."""
    spec = an_application(APPLICATION, gang=40, queue="root.b")
    served.scenario.gang(ApplicationAdded(spec), 40)
    served.scenario.ask(an_ask("member-of-a-gang-that-has-a-long-name", app=APPLICATION, group="workers"))
    return served


@pytest.mark.parametrize("line", ["queues", "apps", "apps -A", f"app {APPLICATION}", f"explain {APPLICATION}", "nodes"])
def test_no_line_is_longer_than_the_terminal_and_no_word_is_broken(crowded: Served, line: str) -> None:
    lines = [text for text in terminal(crowded, *line.split()).splitlines() if not text.startswith("not shown: ")]
    assert [text for text in lines if len(text.rstrip()) > 80] == []
    words = set(crowded.run(*line.split()).output.split())
    assert {word for text in lines for word in text.split() if "─" not in word} - words == set()


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
