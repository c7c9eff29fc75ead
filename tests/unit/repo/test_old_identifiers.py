"""No identifier that the project gave up comes back (old_identifiers.txt)."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.repo.tree import PRODUCT, modules, name, parsed

#: (kind, old identifier) → what it is called now.
OLD = {
    (kind, old): now
    for line in Path(__file__).with_name("old_identifiers.txt").read_text().splitlines()
    if not line.startswith("#")
    for kind, old, now in [re.split(r": | ", line, maxsplit=2)]
}

#: (file, old identifier): standard terms in these files.
EXCEPTIONS = {
    ("core/muster_core/model/config.py", "fence"),  # a value of priority.policy and preemption.policy
    ("core/muster_core/preemption/guarantees.py", "fence"),
    ("cli/muster/printers.py", "fence"),
    ("tests/unit/core/scheduling/preemption_scenario.py", "fence"),
    ("tests/unit/core/scheduling/test_priorities.py", "fence"),
    ("tests/e2e/gate.py", "hold"),  # the proxy holds a request
    ("benchmarks/stand_in.py", "stand"),  # a stand-in for the core
}

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(rf"(?:^|_)({'|'.join(old for kind, old in OLD if kind == 'word')})(?=_|$)")


def defined(node: ast.AST, *, local: bool) -> str:
    """Return the identifier that the node defines. `local`: also local variables, and texts that are one word."""
    match node:
        case ast.FunctionDef(name=found) | ast.AsyncFunctionDef(name=found) | ast.arg(arg=found):
            return found
        case ast.Attribute(attr=found, ctx=ast.Store()) | ast.ClassDef(name=found):
            return found
        case ast.Name(id=found, ctx=ast.Store()) | ast.Constant(value=str(found)) if local and " " not in found:
            return found
        case _:
            return ""


def findings(file: str, tree: ast.Module, *, local: bool) -> Iterator[tuple[str, str, str]]:
    """Yield (file, old identifier, what it is called now)."""
    for part in (part.strip("_") for part in file.removesuffix(".py").split("/")):
        for (kind, old), now in OLD.items():
            if kind in ("class", "module") and part.lower() == old.lower():
                yield file, old, now
    for node in ast.walk(tree):
        found = defined(node, local=local)
        if not found or found.startswith("test_"):
            continue
        if isinstance(node, ast.ClassDef) and ("class", found.strip("_")) in OLD:
            yield file, found, OLD["class", found.strip("_")]
        lower = _CAMEL.sub("_", found).lower()
        for old in _WORD.findall(lower):
            yield file, old, OLD["word", old]
        if ("name", lower.strip("_")) in OLD:
            yield file, lower.strip("_"), OLD["name", lower.strip("_")]


def test_no_old_identifier_is_in_the_tree() -> None:
    product, tests = modules(*PRODUCT, "devcluster", "benchmarks", "tools"), modules("tests")
    found = [one for path in product for one in findings(name(path), parsed(path), local=True)]
    found += [one for path in tests for one in findings(name(path), parsed(path), local=False)]
    assert not [one for one in found if one[:2] not in EXCEPTIONS]
    assert {one[:2] for one in found} >= EXCEPTIONS, "an exception is not needed"


@pytest.mark.parametrize("kind, old", OLD)
def test_an_old_identifier_is_found_where_its_kind_occurs(kind: str, old: str) -> None:
    places = {
        "class": [("tests/a.py", f"class _{old}: ..."), (f"core/{old.lower()}.py", "")],
        "module": [(f"core/{old}.py", ""), (f"core/{old}/a.py", "")],
        "word": [("core/a.py", f"def is_{old}_of(): ..."), ("core/a.py", f"x['{old}']"), ("core/a.py", f"x.{old} = 1")],
        "name": [("core/a.py", f"def _{old}(): ..."), ("core/a.py", f"def f({old}): ...")],
    }
    for file, source in places[kind]:
        assert list(findings(file, ast.parse(source), local=True)), source
