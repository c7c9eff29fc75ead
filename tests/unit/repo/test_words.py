"""Texts that must not be in the tree: hidden imports, unexplained exceptions, machine paths."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.unit.repo.tree import PRODUCT, files, modules, name, parsed

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
