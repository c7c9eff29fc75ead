"""Finds the tests that depend on the default gang placement. Called by conftest.

It analyzes the source of a test, its fixtures and parameters, and the functions of this folder that it calls. A test
that creates a gang without an explicit placement runs once in each placement. Manifests from files are not analyzed;
such a test has the mark ``pytest.mark.gangs``.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType

import pytest

HERE = "tests.e2e."
FOLDER = Path(__file__).parent
BUILDERS = f"{HERE}manifests"
EVERY = frozenset({"Reserve", "Direct", "Auto"})
NONE: frozenset[str] = frozenset()


def placements_that_count(item: pytest.Function) -> frozenset[str]:
    """The placements in which a test must run, because its gangs differ between them."""
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    fixtures = (one.func for found in item._fixtureinfo.name2fixturedefs.values() for one in found)
    return placements_of([item.function, *fixtures, *parameters])


def placements_of(roots: Iterable[object]) -> frozenset[str]:
    """The same for functions, with the classes and functions that they refer to."""
    return frozenset().union(*map(_of, _reached(roots)))


def _reached(roots: Iterable[object]) -> Iterator[FunctionType]:
    """These functions and those of this folder that they refer to, except the builders of manifests."""
    waiting, visited = list(roots), set[object]()
    while waiting:
        found = waiting.pop()
        if isinstance(found, type) and found.__module__.startswith(HERE):
            waiting += [each for each in vars(found).values() if isinstance(each, FunctionType)]
        if not isinstance(found, FunctionType) or found in visited or not found.__module__.startswith(HERE):
            continue
        visited.add(found)
        is_written = Path(found.__code__.co_filename).is_relative_to(FOLDER)  # a dataclass has generated methods
        if found.__module__ != BUILDERS and is_written:
            yield found
            waiting += [found.__globals__[name] for name in _names(found.__code__) if name in found.__globals__]
            waiting += [cell.cell_contents for cell in found.__closure__ or ()]


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


@cache
def _of(function: FunctionType) -> frozenset[str]:
    """The placements for the gangs that a function creates itself."""
    source = textwrap.dedent(inspect.getsource(function))
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return frozenset().union(*(_of_call(call, source) for call in calls))


def _of_call(call: ast.Call, source: str) -> frozenset[str]:
    """An explicit placement is the same in every run."""
    match call.func:
        case ast.Name("a_gang"):
            placement = next((ast.unparse(each.value) for each in call.keywords if each.arg == "placement"), "")
        case ast.Name("a_member"):
            placement = source if "gangPlacement=" in source else ""
        case _:
            return NONE
    return NONE if placement else EVERY
