"""Invalid runs are rejected before any measurement, and a failed benchmark does not affect the others."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks import families, record
from benchmarks.__main__ import app
from benchmarks.families import Family
from benchmarks.figures import Figure, Options


def run(*arguments: str) -> tuple[int, str]:
    """The exit code, and what was printed with single blanks."""
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, re.sub(r"\s+", " ", result.output)


@pytest.mark.parametrize(
    "arguments, why",
    [
        (["core/500", "nosuch"], "no benchmark matches nosuch"),
        (["core/500", "--quick", "--save"], "--save stores figures of complete loads, and --quick measures small ones"),
        (["core/500", "--json", "/"], "/ is a folder"),
        (["--compare", "HEAD", "HEAD", "--save"], "--compare writes no files"),
        (["--compare", "nosuch", "HEAD", "core/500"], "invalid reference: nosuch"),
    ],
)
def test_an_invalid_command_line_is_rejected(arguments: Sequence[str], why: str) -> None:
    code, text = run(*arguments)
    assert code != 0
    assert why in text
    assert "core/500 " not in text


def test_a_broken_file_of_the_last_run_is_reported_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "latest.json"
    file.write_text("<<<<<<< HEAD")
    monkeypatch.setattr(record, "LATEST", file)
    code, text = run("core/500")
    assert code == 2
    assert "is not a valid results file" in text


def broken(_names: Sequence[str], _options: Options) -> list[Figure]:
    """What no benchmark expects."""
    raise RuntimeError("7 of 10 pods have a place")


def interrupted(_names: Sequence[str], _options: Options) -> list[Figure]:
    """As Ctrl-C does."""
    raise KeyboardInterrupt


def sound(names: Sequence[str], _options: Options) -> list[Figure]:
    """Measured."""
    return [Figure(name, "/s", [5.0]) for name in names]


def test_a_family_that_fails_is_reported_and_the_others_are_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(families.FAMILIES, "core", Family(("core/500",), broken))
    monkeypatch.setitem(families.FAMILIES, "edge", Family(("edge/whole",), sound))
    file = tmp_path / "a.json"
    code, text = run("core", "edge", "--json", str(file))
    assert code == 1
    assert "7 of 10 pods have a place" in text
    assert "edge/whole" in text
    assert "edge/whole" in file.read_text()


def test_an_interrupted_run_shows_what_was_measured_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(families.FAMILIES, "core", Family(("core/500",), sound))
    monkeypatch.setitem(families.FAMILIES, "edge", Family(("edge/whole",), interrupted))
    monkeypatch.setitem(families.FAMILIES, "both", Family(("both/50000",), broken))
    code, text = run("core", "edge", "both")
    assert code == 1
    assert "edge: interrupted" in text
    assert "│ core/500 │" in text
    assert "7 of 10" not in text
