"""Runs the unit and contract tests on every CPython from 3.11 up that the machine has (`make test-py`).

    python -m tools.pythons --uv uv [--python 3.13] [pytest's arguments]

Each minor version gets an environment of its own in .cache/pythons, with exactly what uv.lock has; `.venv` stays as it
is. Nothing is compiled: a locked dependency without a wheel is named. Ends in a table, and with 1 if tests failed, or
could not run on a version that was asked for or that pyproject.toml calls supported.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

ROOT: Final = Path(__file__).resolve().parent.parent
ENVIRONMENTS: Final = ROOT / ".cache" / "pythons"
OLDEST: Final = (3, 11)

#: What an interpreter says of itself; free-threaded ones have wheels of their own, which the lock need not have.
QUESTION: Final = (
    "import json, platform, sys, sysconfig; "
    "print(json.dumps([list(sys.version_info[:3]), sys.version_info.releaselevel, platform.python_implementation(), "
    "bool(sysconfig.get_config_var('Py_GIL_DISABLED')), sys.executable]))"
)
PROGRAM: Final = re.compile(r"python3\.\d+")
NO_WHEEL: Final = re.compile(r"Distribution `(?P<name>[\w.-]+)==(?P<version>[^` ]+).*?can't be installed because it")
SUMMARY: Final = re.compile(
    r"^=*\s*(\d+ (?:passed|failed|error|skipped|warning).*? in [\d.]+s(?: \([\d:]+\))?)\s*=*$", re.MULTILINE
)

Minor = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Interpreter:
    """One Python of the machine. `final` is False of alphas, betas and release candidates."""

    version: tuple[int, int, int]
    path: str
    final: bool = True

    @property
    def minor(self) -> Minor:
        """What wheels and the table go by."""
        return self.version[:2]

    def __str__(self) -> str:
        return ".".join(map(str, self.version))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one Python: "passed", "failed", or "not run", with the reason in words."""

    python: str
    result: str
    words: str


def candidates(uv: str, env: Mapping[str, str]) -> list[str]:
    """Programs that may be Pythons: what uv finds, what pyenv installed, and what is on PATH."""
    found = [entry["path"] for entry in _of_uv(uv) if entry.get("path")]
    versions = Path(env.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found += [str(path) for path in sorted(versions.glob("*/bin/python"))]
    for folder in env.get("PATH", "").split(os.pathsep):
        if folder and Path(folder).is_dir():
            found += [str(path) for path in sorted(Path(folder).iterdir()) if PROGRAM.fullmatch(path.name)]
    return list(dict.fromkeys(found))


def _of_uv(uv: str) -> list[dict[str, str]]:
    command = [uv, "python", "list", "--only-installed", "--output-format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        entries: list[dict[str, str]] = json.loads(done.stdout)
    except ValueError:
        return []  # of another release of uv; the other two ways remain
    return entries


def asked(path: str) -> Interpreter | None:
    """The interpreter behind a program; None if it is none, or none that we test on."""
    try:
        done = subprocess.run([path, "-I", "-c", QUESTION], capture_output=True, text=True, check=True, timeout=30)
        version, level, implementation, is_free_threaded, executable = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None  # a shim of a version that is not chosen, or something else of that name
    if implementation != "CPython" or is_free_threaded:
        return None
    return Interpreter((version[0], version[1], version[2]), executable, level == "final")


def chosen(interpreters: Iterable[Interpreter], wanted: Sequence[Minor] = ()) -> list[Interpreter]:
    """The newest of each minor version from 3.11 up, oldest first; a final release before a newer candidate of it."""
    best: dict[Minor, Interpreter] = {}
    for one in sorted(interpreters, key=lambda one: (one.final, one.version, one.path)):
        if one.minor >= OLDEST and (not wanted or one.minor in wanted):
            best[one.minor] = one
    return [best[minor] for minor in sorted(best)]


def supported() -> list[Minor]:
    """The versions that pyproject.toml names in its classifiers."""
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    found = [re.fullmatch(r"Programming Language :: Python :: (\d+)\.(\d+)", line) for line in classifiers]
    return sorted((int(match[1]), int(match[2])) for match in found if match)


def why_not_installed(said: str) -> str:
    """The refusal of uv in one line; the dependency without a wheel by its name."""
    found = NO_WHEEL.search(said)
    if found:
        return f"no wheel of {found['name']} {found['version']}, which uv.lock has, for this Python"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[0].removeprefix("error: ") if lines else "uv said nothing"


def summary(output: str) -> str:
    """The counts of pytest's last line."""
    found = SUMMARY.findall(output)
    return found[-1] if found else "pytest ended without a summary"


class Runs:
    """The environments, and the tests in them."""

    def __init__(self, uv: str, arguments: Sequence[str], console: Console) -> None:
        self._uv = uv
        self._arguments = list(arguments) or ["tests/unit"]
        self._console = console

    def run(self, python: Interpreter) -> Outcome:
        """Makes the environment of this Python, then runs the tests; the log stays beside it."""
        name = f"{python.minor[0]}.{python.minor[1]}"
        folder, log = ENVIRONMENTS / name, ENVIRONMENTS / f"{name}.log"
        ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
        self._console.print(f"Python {python} ({python.path})", highlight=False)
        refusal = self._install(python, folder)
        if refusal:
            return Outcome(str(python), "not run", refusal)
        command = [str(folder / "bin" / "python"), "-m", "pytest", "-q", "-o", f"cache_dir={folder}/.pytest_cache"]
        done = subprocess.run(
            [*command, *self._arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip
        log.write_text(done.stdout)
        if done.returncode:
            self._console.print(done.stdout[-6000:], markup=False, highlight=False)
        result = "failed" if done.returncode else "passed"
        words = summary(done.stdout) + (f"; all of it in {log.relative_to(ROOT)}" if done.returncode else "")
        return Outcome(str(python), result, words)

    def _install(self, python: Interpreter, folder: Path) -> str:
        """Exactly what is locked, from wheels, then Muster itself. Returns why that did not work, "" if it did."""
        env = {**os.environ, "UV_PROJECT_ENVIRONMENT": str(folder)}
        env.pop("VIRTUAL_ENV", None)
        command = [self._uv, "sync", "--frozen", "--quiet", "--python", python.path]
        for more in (["--no-build", "--no-install-project"], []):
            done = subprocess.run([*command, *more], cwd=ROOT, capture_output=True, text=True, check=False, env=env)
            if done.returncode:
                return why_not_installed(done.stderr)
        return ""


def minor(text: str) -> Minor:
    """ "3.13" as numbers. Raises ArgumentTypeError."""
    match = re.fullmatch(r"(\d+)\.(\d+)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a version such as 3.13")
    return int(match[1]), int(match[2])


def is_failure(outcomes: Mapping[Minor, Outcome], needed: Sequence[Minor], wanted: Sequence[Minor]) -> bool:
    """Whether something failed, did not run where it is supported, or is not there although it was asked for."""
    failed = any(outcome.result == "failed" for outcome in outcomes.values())
    unrun = any(outcome.result == "not run" for version, outcome in outcomes.items() if version in needed)
    return failed or unrun or not outcomes or any(version not in outcomes for version in wanted)


def table(outcomes: Iterable[Outcome], missing: Iterable[Minor]) -> Table:
    """A line for each Python, and for each that was asked for or is supported and is not here."""
    drawn = Table("Python", "Result", "Tests", title="make test-py")
    for one in outcomes:
        drawn.add_row(one.python, one.result, one.words)
    for version in missing:
        drawn.add_row(f"{version[0]}.{version[1]}", "not here", "not on this machine")
    return drawn


def main() -> int:
    """Test on each Python; 1 if something was wrong."""
    parser = argparse.ArgumentParser(prog="pythons", description="unit and contract tests on every CPython there is")
    parser.add_argument("--uv", default=shutil.which("uv") or "uv", help="the program uv")
    parser.add_argument("--python", action="append", type=minor, default=[], help="only this version, such as 3.13")
    options, arguments = parser.parse_known_args()
    wanted: list[Minor] = options.python
    console = Console()
    found = (asked(path) for path in candidates(options.uv, os.environ))
    pythons = chosen((one for one in found if one is not None), wanted)
    runs = Runs(options.uv, arguments, console)
    outcomes = {python.minor: runs.run(python) for python in pythons}
    missing = [version for version in wanted or supported() if version not in outcomes]
    console.print(table(outcomes.values(), missing))
    return int(is_failure(outcomes, [*supported(), *wanted], wanted))


if __name__ == "__main__":
    raise SystemExit(main())
