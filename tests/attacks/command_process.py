"""Runs the `muster` command in forks of a process that has imported it, which takes most of the time of a start."""

import importlib
import multiprocessing
import os
import resource
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

#: What the attacked commands import when they run.
for _module in ("muster.main", "muster.dry_run", "muster.plan"):
    importlib.import_module(_module)

_PROCESSES: Final = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload([__name__])


def _become(arguments: Sequence[str], environment: dict[str, str], most_bytes: int, out: Path, err: Path) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
    for number, path in enumerate((out, err), start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["muster", *arguments]
    runpy.run_module("muster", run_name="__main__", alter_sys=True)


def run(arguments: Sequence[str], folder: Path, most_bytes: int, most_s: float) -> tuple[int | None, str, str]:
    """Run the command with a limit of its address space. Returns the exit code, standard output and standard error.

    The code is None if the command does not end in time, and negative if a signal ended it.
    """
    out, err = folder / "out", folder / "err"
    process = _PROCESSES.Process(target=_become, args=(arguments, dict(os.environ), most_bytes, out, err))
    process.start()
    process.join(most_s)
    code = process.exitcode
    process.kill()
    process.join()
    return code, out.read_text(), err.read_text()
