"""Every test and module that docs/internals/review-2026-11.md names exists."""

import re
from collections.abc import Iterator

from tests.unit.repo.tree import ROOT

PAGE = ROOT / "docs" / "internals" / "review-2026-11.md"


def named_tests(text: str) -> Iterator[tuple[str, str]]:
    """File and function of each named test; `::name` is in the previously named file."""
    file = ""
    for quoted in re.findall(r"`([^`]*)`", text):
        path, separator, name = quoted.partition("::")
        if path.startswith("tests/") and path.endswith(".py"):
            file = path
        elif path or not separator:
            continue
        yield file, name.partition("[")[0].rpartition("::")[2]


def test_every_test_that_the_table_names_exists() -> None:
    missing = [
        f"{path}::{name}"
        for path, name in named_tests(PAGE.read_text())
        if not (ROOT / path).is_file() or not re.search(rf"(def|class) {name}\b", (ROOT / path).read_text())
    ]
    assert missing == []


def test_every_module_that_the_table_names_exists() -> None:
    paths = re.findall(r"`((?:core|operator|cli|proto|muster_core|muster_operator)/[\w/]+\.py)", PAGE.read_text())
    assert paths
    assert [path for path in paths if not (ROOT / path).is_file()] == []
