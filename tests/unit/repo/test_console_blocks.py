"""Commands in the documents are valid: commands, options, values, paths and variables exist."""

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from typer.core import TyperGroup

from muster.main import COMMANDS
from tests.unit.repo.tree import ROOT, files, name

BLOCK = re.compile(r"^ *```console\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
PROMPT = re.compile(r"^ *\$ (.*)$", re.MULTILINE)
ASSIGNMENT = re.compile(r"^([A-Z_]+)=")
OURS = ("charts/", "deploy/", "examples/")
VALUES = yaml.safe_load((ROOT / "charts" / "muster" / "values.yaml").read_text())
MAKEFILE = (ROOT / "Makefile").read_text()
#: Read by the programs that make starts.
READ = {"KEEP": "devcluster/demo.py", "RECORD": "devcluster/demo.py", "MUSTER_GANG_PLACEMENT": "Makefile"}


def typed(path: Path) -> Iterator[list[str]]:
    """Each command of a page as arguments, those of a pipe separately; placeholders are unchanged."""
    for block in BLOCK.findall(path.read_text()):
        for line in PROMPT.findall(block.replace("\\\n", " ")):
            words = shlex.split(line, comments=True)
            start = 0
            for at, word in enumerate([*words, "&&"]):
                if word in {"|", "&&", ";"}:
                    yield words[start:at]
                    start = at + 1


def commands(program: str) -> list[tuple[str, list[str]]]:
    return [
        (name(path), words)
        for path in files(".md")
        for words in typed(path)
        if words and words[0].rpartition("/")[2] == program
    ]


def test_commands_in_pipes_and_on_two_lines_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```console\n$ helm install \\\n  --set a=b  # why\nsaid\n    $ sed 's/a; b/c/' x | kubectl apply -f -\n```\n"
    )
    assert list(typed(page)) == [
        ["helm", "install", "--set", "a=b"],
        ["sed", "s/a; b/c/", "x"],
        ["kubectl", "apply", "-f", "-"],
    ]


@pytest.mark.parametrize("place,words", commands("muster"))
def test_the_options_of_a_muster_command_exist(place: str, words: list[str]) -> None:
    command = {entry.name: entry for entry in COMMANDS}[words[1]].command
    rest = words[2:]
    while isinstance(command, TyperGroup) and rest:
        command = command.commands[rest.pop(0)]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert {word.partition("=")[0] for word in rest if word.startswith("-")} - known == set(), place


@pytest.mark.parametrize("place,words", commands("helm"))
def test_a_value_that_is_set_exists_in_the_chart(place: str, words: list[str]) -> None:
    for assignment in (after for word, after in pairwise(words) if word == "--set"):
        where = VALUES
        for step in assignment.partition("=")[0].split("."):
            assert step in where, f"{place}: {assignment}"
            where = where[step]


@pytest.mark.parametrize("place,words", [*commands("kubectl"), *commands("helm"), *commands("sed")])
def test_a_path_of_the_repository_exists(place: str, words: list[str]) -> None:
    assert [word for word in words if word.startswith(OURS) and not (ROOT / word).exists()] == [], place


@pytest.mark.parametrize("place,words", [*commands("make"), *commands("KEEP=1"), *commands("RECORD=file")])
def test_every_variable_is_read(place: str, words: list[str]) -> None:
    variables = [found[1] for word in words if (found := ASSIGNMENT.match(word))]
    unread = [
        one for one in variables if one not in MAKEFILE and one not in (ROOT / READ.get(one, "Makefile")).read_text()
    ]
    assert unread == [], place
