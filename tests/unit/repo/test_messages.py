"""The catalogues of messages are complete: each entry is used, and events and conditions use only them."""

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from muster_core.model import messages as of_core
from muster_operator.model import device_problems, messages, problems
from muster_operator.model.commands import EventType
from muster_operator.model.event_texts import GANG
from tests.unit.repo.test_compatibility import YUNIKORN
from tests.unit.repo.tree import ROOT, modules, name, parsed
from tools import events
from tools.events import PAGE, event_texts, explanation, functions, template

CATALOGUES = {"operator": (messages, problems, device_problems), "core": (of_core,)}
EVENTS = {key: one.text for key, one in event_texts().items()}
TEXTS = {
    key: text for module in (messages, problems, device_problems, of_core) for key, text in functions(module).items()
}
#: Commands and values with the reason of a condition or of a failed pod.
OF_CONDITIONS = {"Condition", "FailPod", "MarkDisrupted", "SetCondition"}
#: Functions of the operator whose text becomes a part of an event.
REPORTING = re.compile(r"messages\.\w+|(applications\.)?give_up_gang|(volume_binding\.)?fail_binding|_bind_failed")
#: Functions of the operator that delete a pod or return its allocation, with the reason.
RELEASING = re.compile(r"(\w+\.)?(kill|kill_all|order_delete|roll_back|release_from_core)")
#: What the core sends or records with a text for users.
SENDING = re.compile(
    r"(\w+\.)?(note|_?reject\w*|fail|release_on_timeout)|(Ask)?Release|(Application|Node)Rejected|Rejection"
)
#: Reads the conditions of pods.
READERS = "operator/muster_operator/translate"
TABLE = re.compile(r"^\| `(\w+)`", re.MULTILINE)


def calls(package: str) -> Iterator[tuple[Path, ast.Call]]:
    """All calls in a package."""
    for path in modules(package):
        yield from ((path, node) for node in ast.walk(parsed(path)) if isinstance(node, ast.Call))


def composed(node: ast.AST) -> bool:
    """Whether an expression contains a text: words, or a formatted string."""
    parts = [part for part in ast.walk(node) if isinstance(part, (ast.JoinedStr, ast.Constant))]
    return any(isinstance(part, ast.JoinedStr) or re.search(r"\w", str(part.value)) for part in parts if is_text(part))


def is_text(part: ast.AST) -> bool:
    return isinstance(part, ast.JoinedStr) or (isinstance(part, ast.Constant) and isinstance(part.value, str))


def used(package: str, catalogue: ModuleType) -> set[str]:
    """Names of a catalogue that other modules of the package use, or the catalogue itself."""
    alias = catalogue.__name__.rpartition(".")[2]
    found = set()
    for path in modules(package):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == alias:
                found.add(node.attr)
    return found


def test_only_the_catalogue_creates_events() -> None:
    makers = {name(path) for path, call in calls("operator") if ast.unparse(call.func) in {"PostEvent", "Note"}}
    assert makers == {"operator/muster_operator/model/event_texts.py"}


def test_no_caller_composes_the_text_of_an_event() -> None:
    assert [
        f"{name(path)}:{call.lineno}"
        for path, call in calls("operator")
        if REPORTING.fullmatch(ast.unparse(call.func)) and any(map(composed, [*call.args, *call.keywords]))
    ] == []


def test_no_caller_composes_the_reason_of_a_delete() -> None:
    assert [
        f"{name(path)}:{call.lineno}"
        for path, call in calls("operator")
        if RELEASING.fullmatch(ast.unparse(call.func)) and any(map(composed, [*call.args, *call.keywords]))
    ] == []


def test_the_core_sends_and_records_only_texts_of_its_catalogue() -> None:
    found = []
    for path in modules("core"):
        if name(path).startswith("core/muster_core/scheduling"):
            for function in ast.walk(parsed(path)):
                if isinstance(function, ast.FunctionDef):
                    found += [f"{name(path)}:{line}" for line in own_texts(function)]
    assert found == []


def own_texts(function: ast.FunctionDef) -> Iterator[int]:
    """Lines of a function that send or record a text of their own, also by a variable."""
    nodes = list(ast.walk(function))
    sent = [node for node in nodes if isinstance(node, ast.Call) and SENDING.fullmatch(ast.unparse(node.func))]
    values = [value for call in sent for value in (*call.args, *(one.value for one in call.keywords))]
    variables = {value.id for value in values if isinstance(value, ast.Name)}
    assigned = (node for node in nodes if isinstance(node, ast.Assign))
    values += [node.value for node in assigned if variables & targets(node)]
    for value in values:
        is_of_catalogue = isinstance(value, ast.Call) and ast.unparse(value.func).startswith("messages.")
        if not is_of_catalogue and composed(value):
            yield value.lineno


def targets(assignment: ast.Assign) -> set[str]:
    """Names of the variables that are assigned."""
    names = (node for node in ast.walk(assignment) if isinstance(node, ast.Name))
    return {node.id for node in names if isinstance(node.ctx, ast.Store)}


def test_the_texts_and_reasons_of_conditions_come_from_the_catalogue() -> None:
    assert [
        f"{name(path)}:{call.lineno}"
        for path, call in calls("operator")
        if ast.unparse(call.func) in OF_CONDITIONS
        and not name(path).startswith(READERS)
        and any(map(composed, [*call.args, *call.keywords]))
    ] == []


def test_every_reason_of_a_condition_is_listed_and_used() -> None:
    listed = {one.reason for one in messages.CONDITIONS}
    assert listed == {messages.UNSCHEDULABLE, messages.SKIPPED, messages.PREEMPTION} | written_with_notes()
    source = "\n".join(path.read_text() for path in modules("operator"))
    for constant in ("messages.UNSCHEDULABLE", "messages.SKIPPED", "PREEMPTION"):
        assert constant in source
    failed = {one.kind.pod_reason for one in (messages.application_rejected, messages.application_failed)}
    assert {reason for reason, _, _ in messages.FAILURES} == failed | {messages.reservation_timed_out.kind.pod_reason}


def written_with_notes() -> set[str]:
    """Reasons that conditions share with an event."""
    return {messages.unsupported_claims.kind.reason, messages.application_rejected.kind.reason}


@pytest.mark.parametrize("package, catalogue", [(key, one) for key, found in CATALOGUES.items() for one in found])
def test_every_entry_of_a_catalogue_is_used(package: str, catalogue: ModuleType) -> None:
    entries = set(functions(catalogue)) | (set(event_texts()) if catalogue is messages else set())
    assert entries - used(package, catalogue) == set()


@pytest.mark.parametrize("text", [*EVENTS.values(), *TEXTS.values()], ids=[*EVENTS, *TEXTS])
def test_every_entry_shows_its_parameters_and_its_meaning(text: Callable[..., str]) -> None:
    shown = template(text)
    assert [one for one in inspect.signature(text).parameters if f"{{{one}}}" not in shown] == []
    assert explanation(text)[0]


def test_every_warning_has_a_remedy() -> None:
    warnings = [one.text for one in event_texts().values() if one.kind.type is EventType.WARNING]
    assert [text.__name__ for text in warnings if explanation(text)[1] == events.NOTHING] == []


def test_every_yunikorn_reason_is_documented() -> None:
    found = set(TABLE.findall(PAGE.read_text()))
    page = (ROOT / "docs" / "operate" / "troubleshooting.md").read_text()
    unused = set(re.findall(r"`(\w+)`", page.partition("\n## YuniKorn reasons that Muster does not use\n")[2]))
    assert set(YUNIKORN["reasons"]) - found - unused - {GANG} == set()
