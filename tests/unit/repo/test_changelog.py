"""Fragments become a section of the changelog; a release needs the same version everywhere."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.unit.repo.tree import ROOT
from tools.release import read

NOTES = sorted(path for path in (ROOT / "changelog.d").glob("*.md") if path.name != "README.md")
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")


@cache
def drafted() -> str:
    towncrier = Path(sys.executable).with_name("towncrier")
    command = [str(towncrier), "build", "--draft", "--version", "1.2.3", "--date", "2030-01-02"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def plain(text: str) -> str:
    return " ".join(text.replace("](../", "](").split())


@pytest.mark.parametrize("note", NOTES, ids=lambda note: note.stem)
def test_a_note_is_one_entry_of_the_section(note: Path) -> None:
    text = note.read_text()
    assert text.strip()
    assert not re.match(r"\s*[-*] ", text), "the changelog makes the bullet"
    assert f"- {plain(text)}" in plain(drafted())


def test_the_section_has_version_date_and_kinds_in_the_expected_order() -> None:
    kinds = ["Security", "Removed", "Deprecated", "Changed", "Added", "Fixed"]
    found = re.findall(r"^### (\w+)$", drafted(), re.MULTILINE)
    assert re.search(r"^## 1\.2\.3 \(2030-01-02\)$", drafted(), re.MULTILINE)
    assert found == [kind for kind in kinds if kind in found]
    assert drafted().count("\n- ") == len(NOTES)


def test_links_of_notes_resolve_from_the_changelog() -> None:
    assert [link for link in LINK.findall(drafted()) if not (ROOT / link).exists()] == []


def test_the_changelog_has_one_marker_for_new_sections() -> None:
    assert (ROOT / "CHANGELOG.md").read_text().count("<!-- towncrier release notes start -->\n") == 1


def test_the_tree_has_one_version() -> None:
    tree = read()
    assert tree.project == tree.chart == tree.app
