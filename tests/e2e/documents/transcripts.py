"""Runs the commands of a document and compares their output."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from tests.e2e.documents.shell import Shell
from tools.transcripts import Step, difference, rewritten, steps

WRITE_VARIABLE = "MUSTER_WRITE_TRANSCRIPTS"
"""Set to 1 to write down what is printed instead of comparing: read the difference before you commit it. Set to the
names of lessons, with commas between: only of these, and no others are typed.
"""

PATIENCE_S = 60.0
EVERY_S = 0.2
QUIET_S = 3.5
"""How long what is printed has to be the same before it is written down: pods say why they wait after two seconds."""


async def follow(shell: Shell, document: Path, folder: Path) -> str:
    """Type all that can be typed; returns the first command that did something else than is shown, empty if none."""
    printed: dict[Step, list[str]] = {}
    for step in _typable(document):
        code, lines, differs = await _typed(shell, step, folder)
        if (code != 0) != step.fails or differs:
            told = "\n".join(lines)
            return f"{document.parent.name}/{document.name}: {step.command}\nexit code {code}\n{told}\n--- {differs}"
        printed[step] = lines
    if _writes():
        _write(document, printed)
    return ""


def _typable(document: Path) -> list[Step]:
    return [step for step in steps(document.read_text()) if step.is_typed]


def _write(document: Path, printed: Mapping[Step, list[str]]) -> None:
    document.write_text(rewritten(document.read_text(), printed))


async def _typed(shell: Shell, step: Step, folder: Path) -> tuple[int, list[str], str]:
    """Exit code, what was printed at last, and how it differs from what is shown."""
    if _writes():
        return *await _quiet(shell, step, folder), ""
    end = asyncio.get_running_loop().time() + PATIENCE_S
    while True:
        code, lines = await shell.type(step.command, folder)
        differs = difference(step.shown, lines) if step.shown else ""
        is_done = not differs and (code != 0) == step.fails
        if is_done or not step.looks or asyncio.get_running_loop().time() > end:
            return code, lines, differs
        await asyncio.sleep(EVERY_S)


async def _quiet(shell: Shell, step: Step, folder: Path) -> tuple[int, list[str]]:
    """What is printed once it has stopped changing."""
    clock = asyncio.get_running_loop().time
    code, lines = await shell.type(step.command, folder)
    since = clock()
    while step.looks and clock() < since + QUIET_S:
        await asyncio.sleep(EVERY_S)
        code, again = await shell.type(step.command, folder)
        if difference(lines, again):
            since = clock()
        lines = again
    return code, lines


def chosen(documents: Mapping[Path, Path]) -> Mapping[Path, Path]:
    """Those that are typed in this run, and where."""
    named = set(os.environ.get(WRITE_VARIABLE, "").split(","))
    return {path: folder for path, folder in documents.items() if named <= {"", "0", "1"} or folder.name in named}


def _writes() -> bool:
    return os.environ.get(WRITE_VARIABLE, "") not in {"", "0"}
