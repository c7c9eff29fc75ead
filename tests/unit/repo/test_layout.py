"""The layout of the repository: which folders are packages, and the content of a package's first file."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.unit.repo.tree import PRODUCT, ROOT, files, modules, name, parsed

NAMES_THAT_SAY_NOTHING = {"util", "utils", "helper", "helpers", "common", "manager", "managers", "misc"}
TYPE_NAME = re.compile(r"_?[A-Z][a-z]\w*")


@pytest.mark.parametrize("folder", PRODUCT)
def test_a_folder_of_packages_is_not_a_package(folder: str) -> None:
    assert (ROOT / folder).is_dir()
    assert not (ROOT / folder / "__init__.py").exists()


@pytest.mark.parametrize("package", ["proto/muster_si", "core/muster_core", "operator/muster_operator", "cli/muster"])
def test_every_package_has_a_py_typed_file(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()


def test_an_init_file_contains_only_a_docstring() -> None:
    assert [
        name(path)
        for path in modules()
        if path.name == "__init__.py"
        and not (len(parsed(path).body) == 1 and ast.get_docstring(parsed(path), clean=False))
    ] == []


def test_no_module_or_folder_has_a_meaningless_name() -> None:
    def words(path: Path) -> set[str]:
        return {path.stem, *path.relative_to(ROOT).parent.parts}

    assert [name(path) for path in modules() if words(path) & NAMES_THAT_SAY_NOTHING] == []


def names_with_two_meanings(paths: Iterable[Path]) -> dict[str, list[str]]:
    """Names of classes and types that several modules define differently, private ones included."""
    found: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for path in paths:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef):
                found[node.name].add((name(path), f"line {node.lineno}"))
        for node in parsed(path).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                word, value = node.targets[0].id, ast.unparse(node.value)
                if TYPE_NAME.fullmatch(word) and all(value != other for _, other in found[word]):
                    found[word].add((name(path), value))
    return {word: sorted(path for path, _ in places) for word, places in found.items() if len(places) > 1}


@pytest.mark.parametrize("folder", PRODUCT)
def test_two_classes_or_types_of_a_package_never_share_a_name(folder: str) -> None:
    assert names_with_two_meanings(modules(folder)) == {}


def test_all_files_of_the_repository_are_listed() -> None:
    seen = {name(path) for path in files()}
    assert {"Makefile", "pyproject.toml", ".ci/run", "proto/muster_si/__init__.py"} <= seen
    assert not any(path.startswith((".venv/", ".git/", ".uv/")) for path in seen)
