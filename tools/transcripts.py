"""Reads the commands of ``console`` blocks in documents, and compares their output with the documented output.

A line that begins with ``$ `` is a command, and the lines after it are its output. A line of three dots stands for
omitted lines. ``tests/e2e/documents`` runs the commands, compares their output and can update the documents. This
module is pure and runs nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import dropwhile
from typing import Final

#: Programs that run on a cluster with only Muster and fake nodes.
TYPED: Final = ("kubectl", "muster", "sed")
#: Commands that are skipped. They build, install or create a cluster, which other tests cover.
LEFT_OUT: Final = ("cd", "docker", "export", "git", "helm", "kind", "make")
#: Commands that only read. They are repeated until they print the documented output.
LOOKS: Final = ("get", "describe", "app", "apps", "doctor", "explain", "nodes", "queues", "status")
LEFT_OUT_LINES: Final = "..."
_CODE_BLOCK: Final = "```"
_PROMPT: Final = "$ "
#: kubectl commands that do not end, or need a kubelet that runs containers.
_ENDLESS: Final = re.compile(r"(?:^|\s)(?:-w|--watch|logs|exec|port-forward)(?:\s|$)")
#: Letters and digits of generated names: five for a pod, eight to ten for a ReplicaSet.
_MADE: Final = "[bcdfghjklmnpqrstvwxz2456789]"
#: Patterns that differ from run to run, and their replacement.
_CHANGING: Final = (
    (re.compile(r"\btg-([a-z0-9.-]+)-[a-z0-9]{10}\b"), r"tg-\1-(made)"),
    (re.compile(r"-[0-9a-f]{16}-exec-"), "-(made)-exec-"),
    (re.compile(rf"-{_MADE}{{8,10}}-{_MADE}{{5}}\b"), "-(made)"),
    (re.compile(rf"-{_MADE}{{5}}\b"), "-(made)"),
    (re.compile(r"\bnode-\d+\b"), "(node)"),
    (re.compile(r"\b(?:\d+d)?(?:\d+h)?(?:\d+m)?\d+s\b|\b\d+m(?=\s|$)"), "(while)"),
    (re.compile("─+"), "─"),
    (re.compile(r"\b(?:created|configured|unchanged)$"), "(applied)"),
)


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a document. ``at``: line numbers of its output, from 0, first and end (exclusive)."""

    command: str
    shown: tuple[str, ...]
    at: tuple[int, int]

    @property
    def words(self) -> list[str]:
        """The program and its arguments, without variable assignments."""
        return list(dropwhile(lambda word: "=" in word, self.command.split()))

    @property
    def program(self) -> str:
        """The name of the program, without its path."""
        return self.words[0].removeprefix(".venv/bin/")

    @property
    def is_typed(self) -> bool:
        """Whether the command ends and works on a cluster of fake nodes."""
        return self.program in TYPED and not _ENDLESS.search(self.command)

    @property
    def reads_logs(self) -> bool:
        """Whether the command prints what a container has written."""
        return self.words[:2] == ["kubectl", "logs"]

    @property
    def looks(self) -> bool:
        """Whether the command may be repeated."""
        return self.words[1] in LOOKS

    @property
    def fails(self) -> bool:
        """Whether the documented output is an error."""
        return any(line.lower().startswith("error") for line in self.shown)


def steps(document: str) -> list[Step]:
    """Return the commands of all transcripts in order."""
    found: list[Step] = []
    lines = document.splitlines()
    is_inside, index = False, 0
    while index < len(lines):
        line = lines[index].lstrip()
        indent = lines[index][: -len(line)] if line else ""
        index += 1
        if line.startswith(_CODE_BLOCK):
            is_inside = line == f"{_CODE_BLOCK}console"
        elif is_inside and line.startswith(_PROMPT):
            command = line.removeprefix(_PROMPT)
            while command.endswith("\\"):
                command = f"{command[:-1]}\n{lines[index]}"
                index += 1
            first = index
            while not lines[index].startswith((indent + _PROMPT, indent + _CODE_BLOCK)):
                index += 1
            shown = tuple(line.removeprefix(indent) for line in lines[first:index])
            found.append(Step(command, shown, (first, index)))
    return found


def difference(shown: Iterable[str], printed: Iterable[str]) -> str:
    """Return the lines that only one output has; empty if they are equal except for values that differ from run to run.

    The order of lines is ignored, because pods are sorted by generated names.
    """
    wanted, found = Counter(_read(shown)), Counter(_read(printed))
    is_whole = not wanted.pop(LEFT_OUT_LINES, 0)
    missing = [f"documented, not printed: {line}" for line in (wanted - found).elements()]
    more = [f"printed, not documented: {line}" for line in (found - wanted).elements()] if is_whole else []
    return "\n".join(missing + more)


def rewritten(document: str, printed: Mapping[Step, Iterable[str]]) -> str:
    """Return the document with new output below its commands.

    Commands without documented output or with omitted lines stay unchanged.
    """
    lines = document.splitlines(keepends=True)
    for step in sorted(printed, key=lambda step: step.at, reverse=True):
        if step.shown and LEFT_OUT_LINES not in step.shown:
            lines[slice(*step.at)] = [f"{line.rstrip()}\n" for line in printed[step]]
    return "".join(lines)


def _read(lines: Iterable[str]) -> list[str]:
    """Normalise values that differ from run to run, and the width of columns."""
    return [" ".join(_steady(line.rstrip()).split()) for line in lines if line.strip()]


def _steady(line: str) -> str:
    for changing, instead in _CHANGING:
        line = changing.sub(instead, line)
    return line
