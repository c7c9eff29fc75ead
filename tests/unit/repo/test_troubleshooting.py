"""docs/operate/troubleshooting.md has each reason of queues and nodes, and no other. Events are in test_messages.py."""

import ast
import re
from collections.abc import Iterator

from muster.pending import SUGGESTIONS
from muster_core.model.decisions import ReasonKind
from muster_operator.model import messages
from tests.unit.repo.tree import ROOT, modules, parsed
from tools.events import event_texts

PAGE = (ROOT / "docs" / "operate" / "troubleshooting.md").read_text()
NAMES = re.compile(r"`([^`]+)`")
OF_NODES = ("node(s) ", "Insufficient ", "Too many pods")


def rows(heading: str) -> dict[str, list[str]]:
    """Of the tables below a heading: the names in the first cell → the cells of the row."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return {found: [cell.strip() for cell in cells] for cells in lines for found in NAMES.findall(cells[0])}


def of_nodes() -> Iterator[str]:
    """Every reason of a node in the core; what is filled in later is cut off."""
    for path in modules(
        *(
            f"core/muster_core/{folder}"
            for folder in ("queues", "placement", "preemption", "gangs", "scheduling", "extensions")
        )
    ):
        parts = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.Constant)]
        yield from (
            part.value.strip() for part in parts if isinstance(part.value, str) and part.value.startswith(OF_NODES)
        )


def test_every_blocking_reason_has_the_suggestion_of_the_command() -> None:
    documented = rows("Blocking reasons")
    assert set(documented) == set(ReasonKind) == set(SUGGESTIONS)
    assert {reason: cells[-1] for reason, cells in documented.items()} == SUGGESTIONS


def test_every_node_reason_is_explained() -> None:
    documented = {reason.removesuffix("…").strip() for reason in rows("Node reasons")}
    assert documented == set(of_nodes()) - {"node(s)"}


def test_reasons_listed_as_unused_are_not_written_by_muster() -> None:
    written = {one.kind.reason for one in event_texts().values()} | {one.reason for one in messages.CONDITIONS}
    assert set(rows("YuniKorn reasons that Muster does not use")) & written == set()
