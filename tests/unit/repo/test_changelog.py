"""Fragments become a section of the changelog; a release needs the same version everywhere."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.unit.repo.tree import ROOT
from tools.package import reference, with_image
from tools.release import Tree, faults, read

NOTES = sorted(path for path in (ROOT / "changelog.d").glob("*.md") if path.name != "README.md")
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")
DIGEST = "sha256:" + "0a" * 32


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


RELEASED = Tree("1.2.3", "1.2.3", "1.2.3", "# Changes\n\n## 1.2.3 (2030-01-02)\n", 0)


def test_a_tag_is_a_release_if_all_versions_match() -> None:
    assert faults(RELEASED, "v1.2.3") == []
    assert faults(replace(RELEASED, notes=3), "main") == []


@pytest.mark.parametrize(
    "tree, words",
    [
        (replace(RELEASED, project="1.2.4"), "pyproject.toml is 1.2.4"),
        (replace(RELEASED, chart="0.1.0"), "Chart.yaml version is 0.1.0"),
        (replace(RELEASED, app="0.1.0"), "Chart.yaml appVersion is 0.1.0"),
        (replace(RELEASED, changelog=""), "CHANGELOG.md has no section 1.2.3: make changelog VERSION=1.2.3"),
        (replace(RELEASED, notes=2), "2 notes are in changelog.d: run make changelog"),
    ],
)
def test_the_reason_why_a_tag_is_not_a_release_is_reported(tree: Tree, words: str) -> None:
    assert faults(tree, "v1.2.3") == [words]


def test_the_tree_has_one_version() -> None:
    tree = read()
    assert tree.project == tree.chart == tree.app


def test_a_packaged_chart_has_the_image_of_its_release() -> None:
    values = (ROOT / "charts/muster/values.yaml").read_text()
    changed = with_image(values, "ghcr.io/somebody/muster")
    assert [line for line in changed.splitlines() if line not in values.splitlines()] == [
        "  repository: ghcr.io/somebody/muster"
    ]
    with pytest.raises(ValueError, match=r"no image\.repository"):
        with_image("replicas: 1\n", "x")


def test_a_pushed_chart_is_signed_by_its_digest() -> None:
    assert (
        reference(f"Pushed: ghcr.io/a/charts/muster:0.1.0\nDigest: {DIGEST}\n") == f"ghcr.io/a/charts/muster@{DIGEST}"
    )
    with pytest.raises(ValueError, match="has no digest"):
        reference("Error: denied")
