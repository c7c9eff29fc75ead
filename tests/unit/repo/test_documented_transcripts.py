"""Transcripts in documents can be run: their programs and files exist."""

import re
from pathlib import Path

import pytest

from tests.unit.repo.tree import ROOT, name
from tools.transcripts import LEFT_OUT, TYPED, steps

EXAMPLES = sorted(ROOT.glob("examples/*/README.md"))
FILE = re.compile(r"\s-f (\S+\.yaml)")
FRAMEWORKS = "".join(path.read_text() for path in ROOT.glob("tests/frameworks/test_*.py"))
SCRIPT = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_documented_command_is_run_or_explicitly_left_out() -> None:
    known = {*TYPED, *LEFT_OUT}
    assert [
        f"{name(path)}: {step.command}"
        for path in (ROOT / "examples" / "README.md", ROOT / "docs" / "start" / "quick-start.md", *EXAMPLES)
        for step in steps(path.read_text())
        if step.program not in known
    ] == []


@pytest.mark.parametrize("path", EXAMPLES, ids=name)
def test_every_manifest_of_an_example_is_in_its_folder_and_used_by_its_readme(path: Path) -> None:
    commands = [step.command for step in steps(path.read_text())]
    scripts = SCRIPT.findall(path.read_text())  # what needs more than the cluster of the tests has
    named = {file for command in (*commands, *scripts) for file in FILE.findall(command)}
    assert named == {file.relative_to(path.parent).as_posix() for file in path.parent.rglob("*.yaml")}
    if not commands:
        assert f'"{path.parent.name}"' in FRAMEWORKS, "an example without a transcript is applied by tests/frameworks"
        return
    assert [step for step in steps(path.read_text()) if step.looks], "an example shows what there is to see"
    assert any("delete -f" in command for command in commands), "an example shows how to clean up"
