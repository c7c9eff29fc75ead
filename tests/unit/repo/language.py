"""The language check: old identifiers and prose patterns that the project does not use, and what to write instead.

`findings()` lists every hit in the tree; `python -m tests.unit.repo.language` prints them. There must be none.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.unit.repo.tree import PRODUCT, files, modules, name, parsed

# Folders with code of developers, which the check covers like the product.
DEVELOPMENT = ("devcluster", "benchmarks", "tools")

# Classes, modules and folders with these names, in all code. Leading underscores do not count.
OLD_NAMES = {
    "Agenda": "SchedulingQueue",
    "Alarm": "Timer",
    "Arena": "FaultEnvironment",
    "Asked": "RequestContext",
    "Board": "a name with placement",
    "Brakes": "Throttle",
    "Clock": "Timer, or FakeClock in tests",
    "ClockRang": "TimerFired",
    "Company": "InterPodAffinity",
    "Desk": "RequestContext",
    "Door": "ObjectDecoder or WebhookClientConfig",
    "Draft": "Snapshot",
    "Ear": "RecordingListener",
    "Ended": "CommandResult",
    "Eviction": "PlaceholderRelease",
    "Fact": "ClusterEvent",
    "Fence": "RecoveryBarrier or LeadershipGuard",
    "Fenced": "BarrierAck",
    "Gains": "WakeUpConditions",
    "Guard": "a name with stateful filter or leadership",
    "Heard": "RecordingListener",
    "Hearing": "a name with freshness or events",
    "Hold": "Reservation",
    "Judge": "conformance",
    "Lack": "Reason",
    "Lap": "PhaseTimer",
    "Leave": "TimeBudget",
    "Liking": "Scoring",
    "Line": "a name with queue",
    "Lines": "ConnectionPool",
    "Look": "Timer",
    "Lookout": "ConflictDetection",
    "Mail": "EventQueue",
    "Mark": "a name with label",
    "Misfit": "UnschedulableClass",
    "Misfits": "UnschedulableClasses",
    "Neighbours": "peers or conflicts",
    "News": "CoreRequest",
    "Nowhere": "AlwaysUnschedulable",
    "Obeying": "a name with core responses",
    "Obstacle": "Reason",
    "Occupant": "a name with pods on the node",
    "Outlet": "Dispatcher",
    "Outline": "AllocationPlan",
    "Pace": "FairnessQuantum",
    "Patience": "CancellationToken",
    "Pledge": "QuotaReservation",
    "Recall": "Cancellation",
    "Rivalry": "ThrashingGuard",
    "Said": "CoreMessage",
    "Scene": "Scenario",
    "Seen": "ObjectEvent",
    "Shortfall": "Reason",
    "Sight": "LeaseObservation",
    "Sketch": "PartialPod",
    "Standing": "Readiness",
    "Standings": "ScoreCache",
    "Story": "a name with case",
    "Stroke": "a name with fault",
    "Swap": "PlaceholderReplacement",
    "Telling": "EventRecorder",
    "Told": "a name with recorded",
    "Turmoil": "RandomActions",
    "Turn": "SchedulingAttempt",
    "Turns": "QueueIterator",
    "Unopposed": "NoElection",
    "Upheaval": "a name with random",
    "Urgency": "WritePriority",
    "Verdict": "a result",
    "Verdicts": "PredicateResults",
    "Went": "RecoveryStep",
    "World": "SchedulerState or Scenario",
}

# Modules and folders with these names, in all code.
OLD_MODULES = {
    "amending": "retry",
    "answering": "results",
    "aside": "server",
    "beside": "conflicts",
    "introduction": "discovery",
    "keeping": "reconciler",
    "known": "cluster",
    "leading": "leadership",
    "observing": "cluster_events",
    "occupants": "foreign allocations",
    "reaching": "volume affinity",
    "refusals": "rejections",
    "stored": "storage",
    "strays": "foreign allocations",
    "touched": "affected keys",
    "words": "sent_items",
}

# Functions, methods, fields, parameters, attributes and variables, and texts that are one of them (JSON keys). Also as
# a part of such a name: `is_obstacle`.
OLD_WORDS = {
    "agenda": "scheduling_queue",
    "amending": "retry_on_conflict",
    "books": "state",
    "beside": "additional or next_to",
    "braked": "throttled",
    "brakes": "throttle",
    "comes_round": "a name with preemption thrashing",
    "company": "inter_pod_affinity",
    "clockrang": "timer_fired",
    "cramped": "unsatisfiable",
    "desk": "context",
    "doubts": "warnings",
    "door": "decoder or client_config",
    "doors": "webhooks",
    "drawn": "preferred_affinity",
    "excused": "over_quota or tolerated",
    "growths": "wake_ups",
    "hear": "on_... or receive",
    "hearing": "freshness",
    "homeless": "pods_awaiting_node",
    "judge": "evaluate",
    "keep_off": "avoid_node",
    "lack": "reason",
    "lacks": "missing",
    "lap": "phase",
    "liking": "scoring",
    "lookout": "conflicts",
    "mail": "event_queue",
    "mailbox": "event_queue",
    "misfit": "unschedulable_class",
    "misfits": "unschedulable_classes",
    "mounting": "volume_binding",
    "neighbours": "peers or conflicts",
    "nowhere": "no_nodes",
    "obeying": "response_handlers",
    "observing": "cluster_events",
    "obstacle": "reason",
    "occupant": "pod_on_node",
    "occupants": "pods_on_nodes",
    "outlet": "dispatcher",
    "overdue": "deferred or due timers",
    "pace": "quantum or pacing",
    "pledge": "quota_reservation",
    "podless": "virtual_placeholder",
    "recall": "cancellation",
    "remembered": "cached or memoized",
    "reminders": "timers",
    "retell": "resend",
    "rivalry": "thrashing",
    "say": "report",
    "shortfall": "reason",
    "sight": "observation",
    "sketch": "partial_pod",
    "spared": "excluded",
    "stand": "mark_unschedulable",
    "standing": "readiness or status",
    "standings": "score_cache",
    "stir": "requeue",
    "strays": "foreign_allocations",
    "take_back": "release",
    "taking_back": "release",
    "telling": "reporting",
    "touched": "recent_names or affected_keys",
    "trial": "case",
    "turns": "queues or rounds",
    "unheard": "dropped",
    "unopposed": "no_election",
    "unstir": "dequeue",
    "unwritten": "pending",
    "urgency": "priority",
    "vacate": "remove",
    "verdict": "result",
    "verdicts": "results",
    "voice": "report_key",
    "world": "state",
}

# As `OLD_WORDS`, but only as the complete name, because the word is also a part of standard terms.
OLD_IDENTIFIERS = {
    "alarm": "timer",
    "apart": "anti_affinity",
    "arrived": "pods_awaiting_node",
    "awaited": "requested",
    "backed": "granted",
    "board": "placer",
    "claimed": "reserved",
    "draft": "snapshot",
    "express": "update_pod_condition",
    "fence": "barrier or guard",
    "fenced": "blocked",
    "gains": "wake_up_nodes",
    "hold": "reservation",
    "near": "affinity",
    "news": "requests or responses",
    "patience": "timeout",
    "patience_s": "timeout_s",
    "reaching": "volume node affinity",
    "swap": "replacement",
    "turn": "attempt or iteration",
}

# Phrases of text for people: Markdown, docstrings, and texts with a space outside tests.
PROSE = {
    "for ever": (r"\bfor ever\b", "permanently, without a limit"),
    "anew": (r"\banew\b", "again"),
    "goes on": (r"\bgo(?:es|ing)? on\b(?! (?:nodes?|a node|the))", "continues"),
    "told": (r"\btold\b(?! apart)", "is reported, receives"),
    "somebody": (r"\b(?:somebody|nobody)\b", "name the user, component or object; no one"),
    "says to be": (r"\bsays? to be\b", "claims to be"),
    "hears": (r"\b(?:hears?|heard)\b", "receives"),
    "doubts": (r"\bdoubts?\b", "warnings"),
    "lacks": (r"\black(?:s|ed|ing)?\b", "has no, is missing"),
    "stands": (r"\b(?:stands?|stood)\b(?!(?: by\b| for\b|-))", "is"),
    "weakness": (r"\bweakness(?:es)?\b", "vulnerability"),
    "beside": (r"\bbeside\b", "next to, with, in addition to"),
    "its turn": (r"\b(?:its|their|whose) turns?\b", "scheduling attempt, queue order"),
    "head room": (r"\bhead room\b", "headroom"),
    "goodbye": (r"\bgoodbye\b", "without unregistering"),
    "in vain": (r"\bin vain\b", "without success"),
    "cure": (r"\bcures?\b", "suggestion, remedy"),
    "liking": (r"\bliking\b", "score"),
    "braked": (r"\bbraked\b", "throttled"),
    "shortfall": (r"\bshortfalls?\b", "reason"),
    "obstacle": (r"\bobstacles?\b", "reason"),
    "podless": (r"\bpodless\b", "virtual placeholder"),
    "homeless": (r"\bhomeless\b", "pod that awaits its node"),
    "so does": (r"(?:^|[.;] |\band )so (?:do|does|did)\b", "does too, as does"),
    "nowhere": (r"\bnowhere\b", "on no node, never"),
    "whoever": (r"\b(?:whoever|whomever)\b", "name the user, component or object"),
    "of itself": (r"\bof (?:itself|themselves)\b", "by itself, automatically"),
    "comes round": (r"\bcom(?:es?|ing) round\b", "repeats"),
    "obeys": (r"\bobey(?:s|ed|ing)?\b", "follows, applies, honours"),
    "lets go": (r"\blet(?:s|ting)?(?: \w+)? go\b", "releases"),
    "judges": (r"\bjudg(?:es?|ed|ing|e?ments?)\b", "evaluates, validates"),
    "dear": (r"\bdear(?:er|ly)?\b", "expensive"),
    "absurd": (r"\babsurd(?:ly)?\b", "out of range"),
    "believes": (r"\bbeliev(?:es?|ed|ing)\b", "assumes"),
    "till": (r"\btill\b", "until"),
    "who": (
        r"\b(?:pods?|nodes?|gangs?|queues?|placeholders?|process(?:es)?|replicas?|requests?|core|operator),? whom?\b",
        "that, of which",
    ),
    "stray": (r"\bstrays?\b", "foreign allocation"),
    "misfit": (r"\bmisfits?\b", "unschedulable class"),
    "company": (r"\bcompany\b", "inter-pod affinity"),
    "trial": (r"\btrials?\b", "case, attempt"),
    "silent": (r"\bsilen(?:t|ce|tly)\b", "stale, without a report"),
    "wishes": (r"\bwish(?:es|ed)?\b", "request, set"),
    "knows": (
        r"\b(?:core|operator|webhook|manager|server|command|stubs?|not|YuniKorn) knows?\b",
        "has, stores, has received",
    ),
    "whole": (r"\bthe whole\b", "complete, all of"),
    "rings": (r"\b(?:rang|rings)\b", "fires"),
    "ours": (r"\bours\b(?! on)", "Muster's, own"),
    "hands over": (r"\bhand(?:s|ed)? (?:over|it|the)\b", "passes"),
    "is well": (r"\b(?:is|are) well\b", "healthy"),
    "by intent": (r"\b(?:by|of|on) intent\b", "by design, intentionally"),
    "speaks": (r"\bspeaks?\b", "uses, implements"),
    "stirs": (r"\bstirs?\b", "wakes up"),
    "clock": (r"\b(?:gang|placeholder|reservation)(?:'s)? clocks?\b|\bclock (?:runs out|is over)\b", "timer, timeout"),
    "owner": (r"\bowner of (?:the |a |an )?(?:pod|application|request|gang)s?\b", "user, submitter"),
    "place": (r"\b(?:its|their) places?\b|\bplace of (?:a|the) (?:member|pod|gang)\b", "reservation, slot, node"),
    "makes": (
        r"\b(?:makes?|made) (?:a |an |its )?(?:pods?|placeholders?|queue|Lease|Secret)\b(?! (?:without|unsch))",
        "creates",
    ),
}
# A section of a document, cited by number without a link.
CITATION = re.compile(
    r"(?<![\[-])\b(?:contracts?|seeds?|semantics|style|behaviours?|architecture) (?:[A-Z]\.)?[0-9]+(?:\.[0-9]+)*\b",
    re.IGNORECASE,
)
_ANY_PROSE = re.compile("|".join(f"(?:{pattern})" for pattern, _ in PROSE.values()), re.IGNORECASE)
_PROSE = {key: (re.compile(pattern, re.IGNORECASE), instead) for key, (pattern, instead) in PROSE.items()}

#: Files whose comments and texts users and reviewers read: charts, manifests, workflows, project files, interfaces.
CONFIGURATION = (".yaml", ".yml", ".tpl", ".txt", ".toml", ".jinja", ".json", ".proto", ".go", ".sh", ".cfg")
#: The same, by name.
NAMED_CONFIGURATION = (
    "Makefile",
    "Dockerfile",
    ".ci/run",
    ".gitignore",
    ".dockerignore",
    ".editorconfig",
    ".gitattributes",
)
#: Recorded results and lock files have no text for people.
RECORDED = ("benchmarks/results/", "uv.lock")
# (file, words, reason). An exception without a hit fails the test.
EXCEPTIONS: tuple[tuple[str, str, str], ...] = (
    ("core/muster_core/model/config.py", "fence", "a value of priority.policy and preemption.policy"),
    ("core/muster_core/preemption/guarantees.py", "fence", "preemption.policy"),
    ("cli/muster/printers.py", "fence", "preemption.policy"),
    ("tests/unit/core/scheduling/preemption_scenario.py", "fence", "preemption.policy"),
    ("tests/unit/core/scheduling/test_priorities.py", "fence", "priority.policy"),
    ("tests/e2e/gate.py", "hold", "the proxy holds a request"),
    ("benchmarks/stand_in.py", "stand", "a stand-in for the core"),
    (".github/ISSUE_TEMPLATE/feature.yml", "knows", "the reader answers"),
)

_CODE_SPAN = re.compile(r"(`+)(?:(?!\1).)*?\1")
_OLD_WORD = re.compile(rf"(?:^|_)({'|'.join(OLD_WORDS)})(?=_|$)")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_CLASS = re.compile(r"^\s*class (\w+)", re.MULTILINE)
_JSON_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_FENCE = re.compile(r"^\s*(?:```|~~~)")


@dataclass(frozen=True, slots=True)
class Finding:
    """Words of the lists at one line of one file."""

    file: str
    line: int
    words: str
    text: str
    instead: str

    def __str__(self) -> str:
        """As a compiler would print it."""
        return f'{self.file}:{self.line}: "{self.words}" in "{self.text.strip()[:100]}": write {self.instead}'


def prose(file: str, first: int, text: str) -> Iterator[Finding]:
    """Phrases in a text that starts at line `first`; code spans in backquotes are names and not checked."""
    for number, line in enumerate(text.splitlines(), start=first):
        words = _CODE_SPAN.sub("`", line)
        if _ANY_PROSE.search(words) is None:
            continue
        for key, (pattern, instead) in _PROSE.items():
            if pattern.search(words):
                yield Finding(file, number, key, line, instead)


def citations(file: str, text: str) -> Iterator[Finding]:
    """Citations by a number, as `contract` 1.6: comments, docstrings and texts of any file."""
    for number, line in enumerate(text.splitlines(), start=1):
        for found in CITATION.findall(line):
            yield Finding(file, number, found, line, "what is meant, or a link to a document in the repository")


def markdown(file: str, text: str) -> Iterator[Finding]:
    """Phrases in Markdown; fenced blocks hold commands and their output, which the check of the code covers."""
    fenced = False
    lines = []
    for line in text.splitlines():
        fence = _FENCE.match(line) is not None
        lines.append("" if fenced or fence else line)
        fenced ^= fence
    yield from prose(file, 1, "\n".join(lines))


def _docstrings(nodes: Iterable[ast.AST]) -> set[int]:
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {
        id(node.body[0].value)
        for node in nodes
        if isinstance(node, owners) and node.body and isinstance(node.body[0], ast.Expr)
    }


def _named(node: ast.AST) -> str | None:
    """The identifier that the node defines, or None."""
    match node:
        case ast.FunctionDef(name=found) | ast.AsyncFunctionDef(name=found) | ast.arg(arg=found):
            return found
        case ast.Attribute(attr=found, ctx=ast.Store()) | ast.Name(id=found, ctx=ast.Store()):
            return found
        case ast.ClassDef(name=found):
            return _CAMEL.sub("_", found)
        case _:
            return None


def _is_old(words: str, old: str) -> bool:
    return words.strip("_").lower() == old


def names(file: str, text: str) -> Iterator[Finding]:
    """Old names of classes and modules."""
    for part in file.removesuffix(".py").split("/"):
        for old, instead in (*OLD_NAMES.items(), *OLD_MODULES.items()):
            if _is_old(part, old.lower()):
                yield Finding(file, 1, old, file, instead)
    for found in _CLASS.finditer(text):
        old = found[1].strip("_")
        if old in OLD_NAMES:
            yield Finding(file, text.count("\n", 0, found.start(1)) + 1, old, f"class {found[1]}", OLD_NAMES[old])


def identifiers(file: str, node: ast.AST, found: str) -> Iterator[Finding]:
    """Old words in one identifier."""
    line, lower = getattr(node, "lineno", 1), found.lower()
    for old in _OLD_WORD.findall(lower):
        yield Finding(file, line, old, found, OLD_WORDS[old])
    instead = OLD_IDENTIFIERS.get(lower.strip("_"))
    if instead is not None:
        yield Finding(file, line, lower.strip("_"), found, instead)


def code(file: str, tree: ast.Module) -> Iterator[Finding]:
    """Old words, and phrases in texts."""
    nodes = list(ast.walk(tree))
    docstrings = _docstrings(nodes)
    for node in nodes:
        found = _named(node)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) in docstrings or " " in node.value:
                yield from prose(file, node.lineno, node.value)
            else:
                found = node.value
        if found:
            yield from identifiers(file, node, found)


def defined_in_tests(file: str, tree: ast.Module) -> Iterator[Finding]:
    """Old words in names of tests. A test's name is a sentence, so its words are checked as prose."""
    for node in ast.walk(tree):
        found = _named(node)
        if found is None:
            continue
        if found.startswith("test_"):
            yield from prose(file, getattr(node, "lineno", 1), found.replace("_", " "))
        elif not isinstance(node, ast.Name):
            yield from identifiers(file, node, found)


def comments(file: str, text: str) -> Iterator[Finding]:
    """Phrases in comments of Python code."""
    if "#" not in text:
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield from prose(file, token.start[0], token.string.lstrip("#: "))


def configuration(file: str, text: str) -> Iterator[Finding]:
    """Phrases in a file that is not Python or Markdown. JSON: its texts, without the escapes."""
    if not file.endswith(".json"):
        yield from prose(file, 1, text)
        return
    for line, found in enumerate(text.splitlines(), start=1):
        for part in _JSON_TEXT.findall(found):
            if " " in part:
                yield from prose(file, line, json.loads(part))


def configuration_files() -> Iterator[Path]:
    """Checked files that are neither Python nor Markdown."""
    for path in files():
        is_checked = path.suffix in CONFIGURATION or name(path) in NAMED_CONFIGURATION
        if is_checked and not name(path).startswith(("tests/", *RECORDED)):
            yield path


@cache
def findings() -> tuple[Finding, ...]:
    """All hits of the tree but the exceptions."""
    found: list[Finding] = []
    for path in files(".md"):
        found += markdown(name(path), path.read_text())
    for path in configuration_files():
        found += configuration(name(path), path.read_text())
    checked, tests = modules(*PRODUCT, *DEVELOPMENT), modules("tests")
    for path in (*checked, *tests):
        found += names(name(path), path.read_text())
    for path in checked:
        found += code(name(path), parsed(path))
        found += comments(name(path), path.read_text())
    for path in tests:
        found += defined_in_tests(name(path), parsed(path))
    for path in (*files(".py", ".md"), *configuration_files()):
        found += citations(name(path), path.read_text())
    excepted = {(file, words) for file, words, _ in EXCEPTIONS}
    return tuple(one for one in found if (one.file, one.words) not in excepted)


def main() -> None:
    """Print every hit."""
    for one in findings():
        sys.stdout.write(f"{one}\n")


if __name__ == "__main__":
    main()
