"""docs/operate/troubleshooting.md has each reason that Muster writes, of events, conditions and nodes, and no other."""

import ast
import re
from collections.abc import Iterator

from muster.reasons import SUGGESTIONS
from muster_core.model.decisions import ReasonKind
from muster_operator.kube import leadership
from muster_operator.model import names
from muster_operator.runtime import reconfigure
from tests.unit.repo import yunikorn_names
from tests.unit.repo.tree import ROOT, modules, name, parsed

PAGE = (ROOT / "docs" / "operate" / "troubleshooting.md").read_text()
NAMES = re.compile(r"`([^`]+)`")
OF_NODES = ("node(s) ", "Insufficient ", "Too many pods")
#: Who makes events; a new one needs its reasons below.
TELLERS = {"controller/reporting.py", "runtime/reconfigure.py", "kube/leadership.py"}


def rows(heading: str) -> dict[str, list[str]]:
    """Of the tables below a heading: the names in the first cell → the cells of the row."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return {found: [cell.strip() for cell in cells] for cells in lines for found in NAMES.findall(cells[0])}


def written_by_the_operator(prefix: str) -> set[str]:
    return {value for key, value in vars(names).items() if key.startswith(prefix)}


def events() -> set[str]:
    found = written_by_the_operator("REASON_") | written_by_the_operator("ACTION_")
    return found | {reconfigure.REJECTED, reconfigure.WARNING, leadership.REASON}


def of_nodes() -> Iterator[str]:
    """Every reason of a node in the core; what is filled in later is cut off."""
    for path in modules(
        *(f"core/muster_core/{folder}" for folder in ("queues", "placement", "preemption", "gangs", "scheduling"))
    ):
        parts = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.Constant)]
        yield from (
            part.value.strip() for part in parts if isinstance(part.value, str) and part.value.startswith(OF_NODES)
        )


def test_every_event_has_its_cause_and_its_cure() -> None:
    told = {**rows("Events on a pod"), **rows("Events on other objects")}
    assert set(told) == events()
    assert [reason for reason, cells in told.items() if len(cells) < 3 or not all(cells)] == []


def test_only_modules_whose_reasons_are_known_make_events() -> None:
    makers = {
        name(path).removeprefix("operator/muster_operator/")
        for path in modules("operator")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "PostEvent"
    }
    assert makers == TELLERS


def test_every_reason_of_a_condition_has_its_cure() -> None:
    conditions = written_by_the_operator("CONDITION_") | {names.REASON_UNSUPPORTED_CLAIMS}
    assert set(rows("Condition reasons")) - {"PodScheduled"} == conditions


def test_every_lack_has_the_cure_that_the_command_says() -> None:
    told = rows("Blocking reasons")
    assert set(told) == set(ReasonKind) == set(SUGGESTIONS)
    assert {reason: cells[-1] for reason, cells in told.items()} == SUGGESTIONS


def test_every_reason_of_a_node_is_explained() -> None:
    told = {reason.removesuffix("…").strip() for reason in rows("Node reasons")}
    assert told == set(of_nodes()) - {"node(s)"}


def test_every_reason_of_the_contract_is_explained() -> None:
    anywhere = {found for line in PAGE.splitlines() if line.startswith("| `") for found in NAMES.findall(line)}
    assert set(yunikorn_names.REASONS) - anywhere == set()
    assert (
        set(rows("YuniKorn reasons that Muster does not use")) & (events() | written_by_the_operator("CONDITION_"))
        == set()
    )
