"""Reads the commands that documents show, and compares what they print with what is shown below them.

A block of ``console`` is a transcript: a line that begins with ``$ `` is a command, what follows is what it prints; a
line of three dots stands for lines that are left out. ``tests/e2e/documents`` types the commands and uses this to
compare and, where asked to, to write down what was printed. Pure; nothing is run here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import dropwhile
from typing import Final

#: What can be typed on a cluster that has nothing but Muster and fake nodes.
TYPED: Final = ("kubectl", "muster", "sed")
#: What is left out there: it builds, installs, or makes a cluster, which is tested elsewhere.
LEFT_OUT: Final = ("cd", "docker", "export", "git", "helm", "kind", "make")
#: What only looks: it is asked again until it says what is shown.
LOOKS: Final = ("get", "describe", "app", "apps", "doctor", "explain", "nodes", "queues", "status")
LEFT_OUT_LINES: Final = "..."
_FENCE: Final = "```"
_PROMPT: Final = "$ "
#: kubectl goes on for ever, or wants a kubelet that runs containers.
_ENDLESS: Final = re.compile(r"(?:^|\s)(?:-w|--watch|logs|exec|port-forward)(?:\s|$)")
#: Letters and digits that Kubernetes makes names of, five for a pod, eight to ten for a ReplicaSet.
_MADE: Final = "[bcdfghjklmnpqrstvwxz2456789]"
#: What differs from run to run, and what is read instead of it.
_CHANGING: Final = (
    (re.compile(r"\btg-([a-z0-9.-]+)-[a-z0-9]{10}\b"), r"tg-\1-(made)"),
    (re.compile(rf"-{_MADE}{{8,10}}-{_MADE}{{5}}\b"), "-(made)"),
    (re.compile(rf"-{_MADE}{{5}}\b"), "-(made)"),
    (re.compile(r"\bnode-\d+\b"), "(node)"),
    (re.compile(r"\b(?:\d+d)?(?:\d+h)?(?:\d+m)?\d+s\b|\b\d+m(?=\s|$)"), "(while)"),
    (re.compile("─+"), "─"),
    (re.compile(r"\b(?:created|configured|unchanged)$"), "(applied)"),
)


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a document. ``at``: the lines of its output, the first and the one behind the last, from 0."""

    command: str
    shown: tuple[str, ...]
    at: tuple[int, int]

    @property
    def words(self) -> list[str]:
        """The program and what it is told, without the settings before it."""
        return list(dropwhile(lambda word: "=" in word, self.command.split()))

    @property
    def program(self) -> str:
        """What is called; in a clone it may be called by its path."""
        return self.words[0].removeprefix(".venv/bin/")

    @property
    def is_typed(self) -> bool:
        """Whether it ends, and needs nothing that a cluster of fake nodes does not have."""
        return self.program in TYPED and not _ENDLESS.search(self.command)

    @property
    def looks(self) -> bool:
        """Whether it may be typed again."""
        return self.words[1] in LOOKS

    @property
    def fails(self) -> bool:
        """Whether it is shown to be refused."""
        return any(line.lower().startswith("error") for line in self.shown)


def steps(document: str) -> list[Step]:
    """The commands of all transcripts, in their order."""
    found: list[Step] = []
    lines = document.splitlines()
    is_inside, index = False, 0
    while index < len(lines):
        line = lines[index].lstrip()
        indent = lines[index][: -len(line)] if line else ""
        index += 1
        if line.startswith(_FENCE):
            is_inside = line == f"{_FENCE}console"
        elif is_inside and line.startswith(_PROMPT):
            command = line.removeprefix(_PROMPT)
            while command.endswith("\\"):
                command = f"{command[:-1]}\n{lines[index]}"
                index += 1
            first = index
            while not lines[index].startswith((indent + _PROMPT, indent + _FENCE)):
                index += 1
            shown = tuple(line.removeprefix(indent) for line in lines[first:index])
            found.append(Step(command, shown, (first, index)))
    return found


def difference(shown: Iterable[str], printed: Iterable[str]) -> str:
    """What stands in one and not in the other, empty if they are the same but for what changes from run to run.

    The order of lines counts for nothing: pods are listed by names that a controller makes up.
    """
    wanted, found = Counter(_read(shown)), Counter(_read(printed))
    is_whole = not wanted.pop(LEFT_OUT_LINES, 0)
    missing = [f"shown, not printed: {line}" for line in (wanted - found).elements()]
    more = [f"printed, not shown: {line}" for line in (found - wanted).elements()] if is_whole else []
    return "\n".join(missing + more)


def rewritten(document: str, printed: Mapping[Step, Iterable[str]]) -> str:
    """The document with what was printed below its commands.

    Where nothing is shown, or lines were left out, it stays as it is.
    """
    lines = document.splitlines(keepends=True)
    for step in sorted(printed, key=lambda step: step.at, reverse=True):
        if step.shown and LEFT_OUT_LINES not in step.shown:
            lines[slice(*step.at)] = [f"{line.rstrip()}\n" for line in printed[step]]
    return "".join(lines)


def _read(lines: Iterable[str]) -> list[str]:
    """Without what changes, and without the width of columns."""
    return [" ".join(_steady(line.rstrip()).split()) for line in lines if line.strip()]


def _steady(line: str) -> str:
    for changing, instead in _CHANGING:
        line = changing.sub(instead, line)
    return line
