"""Documents agree with the tree: commands exist, links resolve, cited rules exist."""

import ast
import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from typer.core import TyperGroup

from muster.main import COMMANDS
from tests.unit.repo.tree import PRODUCT, ROOT, files, modules, name, parsed

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


def test_the_help_of_make_fits_a_terminal_and_begins_with_what_a_newcomer_needs() -> None:
    lines = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert [line.split()[1] for line in lines if line.startswith("  make ")][:3] == ["setup", "demo", "test"]


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
def test_a_first_gang_is_described_with_all_its_parts(path: str) -> None:
    text = (ROOT / path).read_text()
    task_groups = (f"{DOMAIN}/app-id", f"{DOMAIN}/task-group-name", f"{DOMAIN}/task-groups")
    assert "schedulerName: muster" in text
    assert f"{DOMAIN}/gang-size" in text or [part for part in task_groups if part not in text] == []


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


# -- Texts that must not be in the tree: hidden imports, unexplained exceptions, machine paths.

UNEXPLAINED_IGNORE = re.compile(r"#\s*type:\s*ignore(?!\[[\w,\- ]+\]\s+# \S)")
BLIND_EXCEPT = re.compile(r"#\s*noqa:.*\bBLE001\b")
SUPERVISORS = 5
# Paths that exist on one developer's machine only.
MACHINE_PATH = re.compile(r"(?<![\w.$}*)~-])/(?:wor" r"k|roo" r"t|hom" r"e|User" r"s)/\w")


def texts(*suffixes: str) -> Iterator[tuple[Path, str]]:
    for path in files(*suffixes):
        try:
            yield path, path.read_text()
        except UnicodeDecodeError:  # an image
            continue


def matches(pattern: re.Pattern[str], *suffixes: str) -> list[str]:
    """`path:line` of each line that matches."""
    return [
        f"{name(path)}:{number}"
        for path, text in texts(*suffixes)
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


def test_every_ignored_type_error_names_its_code_and_its_reason() -> None:
    assert matches(UNEXPLAINED_IGNORE, ".py") == []


def test_no_import_is_limited_to_type_checking() -> None:
    flag = "TYPE_" + "CHECKING"
    assert [
        name(path)
        for path in modules()
        for node in ast.walk(parsed(path))
        if (isinstance(node, ast.Name) and node.id == flag) or (isinstance(node, ast.Attribute) and node.attr == flag)
    ] == []


def test_only_five_supervisors_catch_everything() -> None:
    product = tuple(f"{folder}/" for folder in PRODUCT)
    assert len([place for place in matches(BLIND_EXCEPT, ".py") if place.startswith(product)]) <= SUPERVISORS


def test_no_path_of_one_machine_is_in_the_tree() -> None:
    assert matches(MACHINE_PATH) == []


def test_the_patterns_match_what_they_search_for() -> None:
    marker = "# type: " + "ignore"
    assert MACHINE_PATH.search("see /" + "root/notes")
    assert not MACHINE_PATH.search("https://example.org/" + "home/page and $(DIR)/" + "work/x")
    assert UNEXPLAINED_IGNORE.search(marker)
    assert UNEXPLAINED_IGNORE.search(marker + "[arg-type]")
    assert not UNEXPLAINED_IGNORE.search(marker + "[arg-type]  # the stub is wrong")


# -- Commands in the documents are valid: commands, options, values, paths and variables exist.

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
