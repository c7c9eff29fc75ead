"""Text of users cannot control the terminal of the person who reads it."""

import ast
import json
from typing import Any

import pytest
import yaml

from muster import printers
from muster.output import Output, console, emit, table
from muster.text import print_line, printable
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
