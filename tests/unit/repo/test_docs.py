"""Documents agree with the tree: commands exist, links resolve, cited rules exist."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.unit.repo.tree import ROOT, files, name

PATH = re.compile(r"`([a-z_]+/[\w.*/-]*)`")
COMMAND = re.compile(r"(?:`|^\s*(?:\$ )?)(?:[A-Z_]+=\S+ )*make ([a-z0-9-]+)", re.MULTILINE)
TARGET = re.compile(r"^([a-z0-9-]+):", re.MULTILINE)
HELPED = re.compile(r"^([a-z0-9-]+):.*## \S", re.MULTILINE)
LINK = re.compile(r"(?:\]\(|<img src=\")(?!https?://|mailto:|#)([^)#\s\"]+)")
ANCHOR = re.compile(r"\]\((?!https?://|mailto:)([^)#\s\"]*)#([^)\s\"]+)\)")
HEADING = re.compile(r"^#{1,6} (.+?) *$", re.MULTILINE)
LABEL = re.compile(r"\[([^]]*)\]\([^)]*\)")
FENCED = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
HEADLESS = re.compile(r"(?:\A|\n\n)(\|.*)\n(?!\|[-: |]+\|\n)")
PAGE_WORDS = 2_500
USER_WORDS = 25_000
INTERNALS_WORDS = 15_000
CITATION = re.compile(r"\bsemantics (\d+)")
RULE = re.compile(r"^(\d+)\. \*\*", re.MULTILINE)
ADR = re.compile(r"(\d{4})-[a-z0-9-]+\.md")
FRAGMENT = re.compile(r"[a-z0-9-]+\.(?:added|changed|deprecated|removed|fixed|security)\.md")

DOMAIN = "yunikorn.apache.org"

makefile = (ROOT / "Makefile").read_text()


def test_every_make_command_in_the_documents_exists() -> None:
    targets = set(TARGET.findall(makefile))
    assert [
        f"{name(path)}: make {command}"
        for path in files(".md")
        for command in COMMAND.findall(path.read_text())
        if command not in targets
    ] == []


def test_the_readme_names_the_commands_a_newcomer_needs() -> None:
    assert {"demo", "test"} <= set(COMMAND.findall((ROOT / "README.md").read_text()))


@pytest.mark.parametrize("path", ["README.md", "docs/start/quick-start.md", "charts/muster/templates/NOTES.txt"])
def test_a_first_gang_is_described_with_all_four_parts(path: str) -> None:
    text = (ROOT / path).read_text()
    parts = ("schedulerName: muster", f"{DOMAIN}/app-id", f"{DOMAIN}/task-group-name", f"{DOMAIN}/task-groups")
    assert [part for part in parts if part not in text] == []


def test_upgrades_use_the_defaults_of_the_new_chart() -> None:
    """`--reuse-values` ignores values that the new chart adds."""
    assert [name(path) for path in files(".md", ".txt") if re.search(r"(?<!\w)--reuse-values", path.read_text())] == []


def test_every_make_target_is_in_the_help() -> None:
    assert set(TARGET.findall(makefile)) == set(HELPED.findall(makefile))


def test_every_link_in_the_documents_points_to_a_file() -> None:
    assert [
        f"{name(path)}: {link}"
        for path in files(".md")
        for link in LINK.findall(path.read_text())
        if not (path.parent / link).exists()
    ] == []


def anchors(page: Path) -> set[str]:
    """Anchors of the headings of a page, as GitHub names them."""
    headings = HEADING.findall(FENCED.sub("", page.read_text()))
    slugs = [
        re.sub(r"[^\w\- ]", "", LABEL.sub(r"\1", heading).lower()).strip().replace(" ", "-") for heading in headings
    ]
    return {slug if not before else f"{slug}-{before}" for slug, before in numbered(slugs)}


def numbered(slugs: list[str]) -> list[tuple[str, int]]:
    """Every slug with how often it occurred before."""
    return [(slug, slugs[:position].count(slug)) for position, slug in enumerate(slugs)]


def test_every_path_in_the_guide_for_contributors_exists() -> None:
    folders = {path.name for path in ROOT.iterdir()}
    paths = PATH.findall((ROOT / "CONTRIBUTING.md").read_text())
    assert [path for path in paths if path.split("/")[0] in folders and not any(ROOT.glob(path.rstrip("/")))] == []


def test_every_link_to_a_heading_points_to_an_existing_heading() -> None:
    links = [
        (path, file, anchor)
        for path in files(".md")
        for file, anchor in ANCHOR.findall(FENCED.sub("", path.read_text()))
    ]
    assert [
        f"{name(path)}: {file}#{anchor}"
        for path, file, anchor in links
        if (target := (path.parent / file if file else path)).exists() and anchor not in anchors(target)
    ] == []
    assert len(links) > 50


def test_every_table_has_a_head() -> None:
    """An empty line between two rows ends the table: the rows after it are shown as text."""
    assert [
        f"{name(path)}: {row}" for path in files(".md") for row in HEADLESS.findall(FENCED.sub("", path.read_text()))
    ] == []


def test_no_page_exceeds_the_word_limit() -> None:
    """References, internals and results of measurements are looked up and not read."""
    long = {"docs/reference", "docs/internals", "benchmarks"}
    assert [
        f"{name(path)}: {words} words, at most {PAGE_WORDS}"
        for path in files(".md")
        if not any(name(path).startswith(folder) for folder in long)
        if (words := len(path.read_text().split())) > PAGE_WORDS
    ] == []


def words(pages: Iterable[Path]) -> int:
    """Words of the pages. A part of a table that has no letter or digit is not a word."""
    return sum(any(map(str.isalnum, word)) for path in pages for word in path.read_text().split())


def test_the_user_pages_do_not_exceed_their_word_limit() -> None:
    """README and the pages of the site, without internals, and references that are generated or specifications."""
    looked_up = re.compile(r"docs/(internals/|reference/(?!rest|performance|labels-and-annotations))")
    pages = [path for path in files(".md") if name(path).startswith(("README.md", "docs/"))]
    pages = [path for path in pages if not looked_up.match(name(path))]
    assert len(pages) > 30
    assert words(pages) <= USER_WORDS


def test_the_internals_do_not_exceed_their_word_limit() -> None:
    """Without generated pages."""
    generated = ("docs/internals/differences.md", "docs/internals/states/")
    pages = [path for path in files(".md") if name(path).startswith("docs/internals/")]
    pages = [path for path in pages if not name(path).startswith(generated)]
    assert len(pages) > 30
    assert words(pages) <= INTERNALS_WORDS


def test_every_cited_rule_exists() -> None:
    rules = set(RULE.findall((ROOT / "docs/internals/semantics.md").read_text()))
    assert rules == {str(number) for number in range(1, len(rules) + 1)}
    assert [
        f"{name(path)}: semantics {number}"
        for path in files(".py", ".md", ".proto")
        for number in CITATION.findall(path.read_text())
        if number not in rules
    ] == []


def test_decisions_are_numbered_without_gaps() -> None:
    names = sorted(path.name for path in (ROOT / "docs/internals/adr").glob("*.md") if path.name != "README.md")
    numbers = [match[1] for entry in names if (match := ADR.fullmatch(entry))]
    assert numbers == [f"{number:04}" for number in range(1, len(names) + 1)]


def test_every_change_note_is_named_by_its_kind() -> None:
    notes: list[Path] = [path for path in (ROOT / "changelog.d").iterdir() if path.name != "README.md"]
    assert notes
    assert [path.name for path in notes if not FRAGMENT.fullmatch(path.name)] == []
