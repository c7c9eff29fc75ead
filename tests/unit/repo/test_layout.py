"""The layout of the repository, sizes of modules and functions, unused code, and what unit tests may not use."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
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


# -- Modules, classes and functions have a maximum size.

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


# -- No function, method or class of the product is called by tests alone.

#: Methods that a library calls: io.RawIOBase and http.client, click, httptools, OpenTelemetry, rich.
OF_LIBRARIES = {
    *("makefile", "readable", "readinto", "format_options", "collect_usage_pieces"),
    *("on_body", "on_header", "on_message_complete", "generate_span_id", "generate_trace_id", "wrap"),
}
#: A decorator of a library registers the function.
OWN_DECORATORS = {"property", "classmethod", "staticmethod", "cached_property", "dataclass", "value", "final"}


def words(node: ast.AST) -> Iterator[str]:
    """Identifiers in a node, and texts, because some functions are named in tables."""
    match node:
        case ast.Name(id=word) | ast.Attribute(attr=word) | ast.alias(name=word) | ast.Constant(value=str(word)):
            yield word
        case _:
            return


def test_everything_in_the_product_has_a_caller_that_is_no_test() -> None:
    used = {
        word
        for path in modules(*PRODUCT, "tools", "benchmarks", "devcluster")
        for node in ast.walk(parsed(path))
        for word in words(node)
    }
    assert [
        f"{name(path)}: {node.name}"
        for path in modules(*PRODUCT)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and node.name not in used | OF_LIBRARIES
        and not node.name.startswith(("__", "visit_"))
        and all({*words(one)} & OWN_DECORATORS for one in node.decorator_list)
    ] == []


# -- Unit tests of the pure layers use the real code: no mock, no patch, no sleep, no network.

PURE = (
    *(
        f"tests/unit/core/{layer}"
        for layer in ("model", "state", "queues", "placement", "preemption", "gangs", "scheduling")
    ),
    *(f"tests/unit/operator/{layer}" for layer in ("model", "translate", "controller")),
)
FORBIDDEN_MODULES = {"mock", "unittest", "socket", "subprocess", "grpc", "aiohttp", "kopf", "kubernetes", "time"}
FORBIDDEN_FIXTURES = {"monkeypatch", "mocker"}
#: File, offence and reason.
EXCEPTIONS = {
    ("tests/unit/core/scheduling/random_events/test_random_events.py", "monkeypatch"): "leaves out a write on purpose",
    ("tests/unit/core/scheduling/test_history.py", "monkeypatch"): "a smaller limit needs fewer applications",
    ("tests/unit/core/scheduling/test_node_demand.py", "monkeypatch"): "a failure, and a run without admission",
    ("tests/unit/core/scheduling/test_preemption_victims.py", "monkeypatch"): "a smaller limit needs fewer pods",
    ("tests/unit/core/scheduling/test_selector_labels.py", "monkeypatch"): "a smaller limit needs fewer requests",
}


def offences(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (item.name for item in names if item.name.partition(".")[0] in FORBIDDEN_MODULES)
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in FORBIDDEN_MODULES:
                yield module
            case ast.arg(arg=argument) if argument in FORBIDDEN_FIXTURES:
                yield argument
            case ast.Call(func=ast.Attribute(attr="sleep") | ast.Name(id="sleep")):
                yield "sleep"
            case _:
                pass


def test_the_pure_layers_are_tested_without_mocks_and_sleeps() -> None:
    paths: tuple[Path, ...] = modules(*PURE)
    assert {(name(path), offence) for path in paths for offence in offences(parsed(path))} == EXCEPTIONS.keys()


def test_each_offence_is_found() -> None:
    source = "import time\nfrom unittest.mock import Mock\nasync def test(monkeypatch): await asyncio.sleep(1)\n"
    assert sorted(offences(ast.parse(source))) == ["monkeypatch", "sleep", "time", "unittest.mock"]
