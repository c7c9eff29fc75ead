"""Every dependency has a reason in a comment, and the lock file uses only the public index."""

import re
import tomllib

from tests.unit.repo.tree import ROOT

ENTRY = re.compile(r'^  "(?P<requirement>[A-Za-z][\w.-]*[^"]*)",(?P<rest>.*)$', re.MULTILINE)
REASON = re.compile(r"\s+# \w.{5,}")

pyproject = (ROOT / "pyproject.toml").read_text()


def requirements() -> list[str]:
    parsed = tomllib.loads(pyproject)
    return [
        *parsed["project"]["dependencies"],
        *(entry for extra in parsed["project"]["optional-dependencies"].values() for entry in extra),
        *(entry for group in parsed["dependency-groups"].values() for entry in group),
    ]


def test_every_dependency_has_a_reason_on_its_line() -> None:
    explained = {entry["requirement"] for entry in ENTRY.finditer(pyproject) if REASON.match(entry["rest"])}
    assert [requirement for requirement in requirements() if requirement not in explained] == []


def test_the_lock_file_names_only_the_public_index() -> None:
    lock = (ROOT / "uv.lock").read_text()
    assert set(re.findall(r'registry = "([^"]+)"', lock)) == {"https://pypi.org/simple"}
    assert set(re.findall(r'url = "https://([^/"]+)/', lock)) == {"files.pythonhosted.org"}
