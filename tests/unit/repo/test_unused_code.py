"""No function, method or class of the product is called by tests alone."""

import ast
from collections.abc import Iterator

from tests.unit.repo.tree import PRODUCT, modules, name, parsed

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
