"""Unit tests of the pure layers use the real code: no mock, no patch, no sleep, no network."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.unit.repo.tree import modules, name, parsed

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
    ("tests/unit/core/scheduling/test_node_demand.py", "monkeypatch"): "a failure on purpose",
    ("tests/unit/core/scheduling/test_node_demand_random.py", "monkeypatch"): "compares with a run without admission",
    ("tests/unit/core/scheduling/test_preemption_search.py", "monkeypatch"): "a smaller limit needs fewer pods",
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
