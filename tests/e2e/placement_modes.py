"""Which tests may end otherwise where gangs that do not name their placement get another one. Asked by conftest.

A test is judged as it is written, with its fixtures, its parameters and all of this folder that it calls: whoever makes
a gang and does not say how it is placed has to do it again in each placement. Manifests that come from files cannot be
seen; such a test says so itself (``pytest.mark.gangs``).
"""

from __future__ import annotations

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
EVERY = frozenset({"Reserve", "Atomic", "Direct"})
WITH_PODS = frozenset({"Reserve", "Atomic"})
NONE: frozenset[str] = frozenset()


def placements_that_count(item: pytest.Function) -> frozenset[str]:
    """Those in which the run of a test is one of its own; in the others it would do the same once more."""
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    fixtures = (one.func for found in item._fixtureinfo.name2fixturedefs.values() for one in found)
    return placements_of([item.function, *fixtures, *parameters])


def placements_of(begin: Iterable[object]) -> frozenset[str]:
    """The same of functions, and of the classes and functions that they name."""
    return frozenset().union(*map(_of, _reached(begin)))


def _reached(begin: Iterable[object]) -> Iterator[FunctionType]:
    """These functions, and those of this folder that they name, but for what only builds."""
    waiting, known = list(begin), set[object]()
    while waiting:
        found = waiting.pop()
        if isinstance(found, type) and found.__module__.startswith(HERE):
            waiting += [each for each in vars(found).values() if isinstance(each, FunctionType)]
        if not isinstance(found, FunctionType) or found in known or not found.__module__.startswith(HERE):
            continue
        known.add(found)
        is_written = Path(found.__code__.co_filename).is_relative_to(FOLDER)  # a dataclass has methods that are not
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
    """The placements that count for what a function makes itself."""
    written = textwrap.dedent(inspect.getsource(function))
    calls = (node for node in ast.walk(ast.parse(written)) if isinstance(node, ast.Call))
    return frozenset().union(*(_of_call(call, written) for call in calls))


def _of_call(call: ast.Call, written: str) -> frozenset[str]:
    """What is said of the placement, by whatever words, is the same in every run, but for ``with_pods``."""
    match call.func:
        case ast.Name("a_gang"):
            said = next((ast.unparse(each.value) for each in call.keywords if each.arg == "placement"), "")
        case ast.Name("a_member"):
            said = written if "gangPlacement=" in written else ""
        case _:
            return NONE
    if "with_pods()" in said:
        return WITH_PODS
    return NONE if said else EVERY
