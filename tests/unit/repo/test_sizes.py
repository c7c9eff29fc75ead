"""Modules, classes and functions have a maximum size."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.unit.repo.tree import PRODUCT, modules, name, parsed

LINES_OF_A_MODULE = 700
METHODS_OF_A_CLASS = 20
LINES_OF_A_FUNCTION = 60

Function = ast.FunctionDef | ast.AsyncFunctionDef

# A function or class may be longer if that is more readable; its line then has `# long: <reason>`.
EXCUSE = "# long: "


def functions(tree: ast.Module) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def length(function: Function) -> int:
    """The lines from `def` to the end, without the docstring."""
    last = function.end_lineno or function.lineno
    first = function.body[0]
    has_docstring = ast.get_docstring(function) is not None
    docstring = (first.end_lineno or first.lineno) - first.lineno + 1 if has_docstring else 0
    return last - function.lineno + 1 - docstring


def has_reason(path: Path, node: Function | ast.ClassDef) -> bool:
    """Whether a line of the signature gives a reason."""
    signature = path.read_text().splitlines()[node.lineno - 1 : node.body[0].lineno]
    return any(EXCUSE in line and line.split(EXCUSE)[1].strip() for line in signature)


def methods(node: ast.ClassDef) -> list[str]:
    return [item.name for item in node.body if isinstance(item, Function) and not item.name.startswith("__")]


def test_no_module_is_longer_than_700_lines() -> None:
    lines = {name(path): len(path.read_text().splitlines()) for path in modules()}
    assert {path: count for path, count in lines.items() if count > LINES_OF_A_MODULE} == {}


def test_no_class_has_more_than_20_methods() -> None:
    assert [
        f"{name(path)}: {node.name} has {len(methods(node))}"
        for path in modules()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ClassDef) and len(methods(node)) > METHODS_OF_A_CLASS and not has_reason(path, node)
    ] == []


def test_no_function_outside_tests_is_longer_than_60_lines() -> None:
    assert [
        f"{name(path)}: {function.name} has {length(function)}"
        for path in modules(*PRODUCT, "devcluster", "tools", "benchmarks")
        for function in functions(parsed(path))
        if length(function) > LINES_OF_A_FUNCTION and not has_reason(path, function)
    ] == []


def test_docstrings_do_not_count_and_a_reason_exempts_a_function(tmp_path: Path) -> None:
    source = tmp_path / "module.py"
    source.write_text('def long(  # long: one table\n) -> int:\n    """One.\n\n    Two.\n    """\n    return 1\n')
    [function] = functions(ast.parse(source.read_text()))
    assert length(function) == 3
    assert has_reason(source, function)
