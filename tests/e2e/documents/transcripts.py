"""Runs the commands of a document and compares their output."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from tests.e2e.documents.shell import Shell
from tools.transcripts import Step, difference, rewritten, steps

WRITE_VARIABLE = "MUSTER_WRITE_TRANSCRIPTS"
"""1: write the output to the documents instead of comparing it; review the difference before you commit it. Names of
lessons, separated by commas: run and write only these.
"""

DEADLINE_S = 90.0
EVERY_S = 0.2
STABLE_S = 3.5
"""How long an output must stay unchanged before it is written: pods report why they wait after two seconds."""


async def follow(shell: Shell, document: Path, folder: Path, *, containers: bool = False) -> str:
    """Run all commands. Returns the first one whose output differs from the document, or an empty string.

    ``containers``: the pods have real containers, so that commands that read their logs are run too.
    """
    printed: dict[Step, list[str]] = {}
    for step in _steps(document, containers=containers):
        code, lines, differs = await _ran(shell, step, folder)
        if (code != 0) != step.fails or differs:
            output = "\n".join(lines)
            return f"{document.parent.name}/{document.name}: {step.command}\nexit code {code}\n{output}\n--- {differs}"
        printed[step] = lines
    if _writes():
        _write(document, printed)
    return ""


def _steps(document: Path, *, containers: bool) -> list[Step]:
    return [step for step in steps(document.read_text()) if step.is_typed or (containers and step.reads_logs)]


def _write(document: Path, printed: Mapping[Step, list[str]]) -> None:
    document.write_text(rewritten(document.read_text(), printed))


async def _ran(shell: Shell, step: Step, folder: Path) -> tuple[int, list[str], str]:
    """Return exit code, last output, and its difference from the document."""
    if _writes():
        return *await _stable_output(shell, step, folder), ""
    deadline = asyncio.get_running_loop().time() + DEADLINE_S
    while True:
        code, lines = await shell.type(step.command, folder)
        differs = difference(step.shown, lines) if step.shown else ""
        is_done = not differs and (code != 0) == step.fails
        if is_done or not step.looks or asyncio.get_running_loop().time() > deadline:
            return code, lines, differs
        await asyncio.sleep(EVERY_S)


async def _stable_output(shell: Shell, step: Step, folder: Path) -> tuple[int, list[str]]:
    """Repeat the command until its output stops changing."""
    clock = asyncio.get_running_loop().time
    code, lines = await shell.type(step.command, folder)
    since = clock()
    while step.looks and clock() < since + STABLE_S:
        await asyncio.sleep(EVERY_S)
        code, again = await shell.type(step.command, folder)
        if difference(lines, again):
            since = clock()
        lines = again
    return code, lines


def chosen(documents: Mapping[Path, Path]) -> Mapping[Path, Path]:
    """The documents of this run, with their folders."""
    named = set(os.environ.get(WRITE_VARIABLE, "").split(","))
    return {path: folder for path, folder in documents.items() if named <= {"", "0", "1"} or folder.name in named}


def _writes() -> bool:
    return os.environ.get(WRITE_VARIABLE, "") not in {"", "0"}
