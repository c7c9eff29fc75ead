"""Runs the unit and contract tests on every installed CPython from version 3.11 (`make test-py`).

    python -m tools.pythons --uv uv [--python 3.13] [pytest's arguments]

Each minor version has its own environment in .cache/pythons, with the versions of uv.lock. Nothing is compiled: the
tool names a locked dependency without a wheel. It prints a table. The exit code is 1 if tests failed, or could not run
on a requested version or one that pyproject.toml lists.
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

#: Prints facts about the interpreter. Free-threaded ones need their own wheels, which uv.lock may not have.
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
    """One installed Python. `final` is False for alphas, betas and release candidates."""

    version: tuple[int, int, int]
    path: str
    final: bool = True

    @property
    def minor(self) -> Minor:
        """The minor version, which wheels and the table use."""
        return self.version[:2]

    def __str__(self) -> str:
        return ".".join(map(str, self.version))


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one Python: "passed", "failed" or "not run", with the reason."""

    python: str
    result: str
    words: str


def candidates(uv: str, env: Mapping[str, str]) -> list[str]:
    """Return possible Python programs: those that uv finds, those of pyenv, and those on PATH."""
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
        return []  # another version of uv; the other two sources remain
    return entries


def interpreter_of(path: str) -> Interpreter | None:
    """Run a program and return its interpreter; None if it is not a Python or not one to test on."""
    try:
        done = subprocess.run([path, "-I", "-c", QUESTION], capture_output=True, text=True, check=True, timeout=30)
        version, level, implementation, is_free_threaded, executable = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None  # a shim of a version that is not selected, or another program of that name
    if implementation != "CPython" or is_free_threaded:
        return None
    return Interpreter((version[0], version[1], version[2]), executable, level == "final")


def chosen(interpreters: Iterable[Interpreter], wanted: Sequence[Minor] = ()) -> list[Interpreter]:
    """Return the newest Python of each minor version from 3.11 up, in ascending order. Final releases are preferred."""
    best: dict[Minor, Interpreter] = {}
    for one in sorted(interpreters, key=lambda one: (one.final, one.version, one.path)):
        if one.minor >= OLDEST and (not wanted or one.minor in wanted):
            best[one.minor] = one
    return [best[minor] for minor in sorted(best)]


def supported() -> list[Minor]:
    """Return the versions in the classifiers of pyproject.toml."""
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    found = [re.fullmatch(r"Programming Language :: Python :: (\d+)\.(\d+)", line) for line in classifiers]
    return sorted((int(match[1]), int(match[2])) for match in found if match)


def why_not_installed(output: str) -> str:
    """Return uv's error in one line. Names the dependency without a wheel."""
    found = NO_WHEEL.search(output)
    if found:
        return f"uv.lock has {found['name']} {found['version']}, which has no wheel for this Python"
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[0].removeprefix("error: ") if lines else "uv failed without output"


def summary(output: str) -> str:
    """Return the counts of pytest's last line."""
    found = SUMMARY.findall(output)
    return found[-1] if found else "pytest ended without a summary"


class Runs:
    """Creates the environments and runs the tests in them."""

    def __init__(self, uv: str, arguments: Sequence[str], console: Console) -> None:
        self._uv = uv
        self._arguments = list(arguments) or ["tests/unit"]
        self._console = console

    def run(self, python: Interpreter) -> Outcome:
        """Create the environment of this Python and run the tests. The log is written next to the environment."""
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
        words = summary(done.stdout) + (f"; log: {log.relative_to(ROOT)}" if done.returncode else "")
        return Outcome(str(python), result, words)

    def _install(self, python: Interpreter, folder: Path) -> str:
        """Install the locked versions from wheels, then Muster. Returns the error, or "" on success."""
        env = {**os.environ, "UV_PROJECT_ENVIRONMENT": str(folder)}
        env.pop("VIRTUAL_ENV", None)
        command = [self._uv, "sync", "--frozen", "--quiet", "--extra", "tracing", "--python", python.path]
        for more in (["--no-build", "--no-install-project"], []):
            done = subprocess.run([*command, *more], cwd=ROOT, capture_output=True, text=True, check=False, env=env)
            if done.returncode:
                return why_not_installed(done.stderr)
        return ""


def minor(text: str) -> Minor:
    """Parse a version such as "3.13". Raises ArgumentTypeError."""
    match = re.fullmatch(r"(\d+)\.(\d+)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a version such as 3.13")
    return int(match[1]), int(match[2])


def is_failure(outcomes: Mapping[Minor, Outcome], needed: Sequence[Minor], wanted: Sequence[Minor]) -> bool:
    """Whether tests failed, did not run on a supported version, or a requested version is missing."""
    failed = any(outcome.result == "failed" for outcome in outcomes.values())
    unrun = any(outcome.result == "not run" for version, outcome in outcomes.items() if version in needed)
    return failed or unrun or not outcomes or any(version not in outcomes for version in wanted)


def table(outcomes: Iterable[Outcome], missing: Iterable[Minor]) -> Table:
    """Return one row per Python, and one per missing version that was requested or is supported."""
    listed = Table("Python", "Result", "Tests", title="make test-py")
    for one in outcomes:
        listed.add_row(one.python, one.result, one.words)
    for version in missing:
        listed.add_row(f"{version[0]}.{version[1]}", "missing", "not installed")
    return listed


def main() -> int:
    """Test on each Python. Returns 1 after a failure."""
    parser = argparse.ArgumentParser(prog="pythons", description="unit and contract tests on every installed CPython")
    parser.add_argument("--uv", default=shutil.which("uv") or "uv", help="path of uv")
    parser.add_argument("--python", action="append", type=minor, default=[], help="only this version, such as 3.13")
    options, arguments = parser.parse_known_args()
    wanted: list[Minor] = options.python
    console = Console()
    found = (interpreter_of(path) for path in candidates(options.uv, os.environ))
    pythons = chosen((one for one in found if one is not None), wanted)
    runs = Runs(options.uv, arguments, console)
    outcomes = {python.minor: runs.run(python) for python in pythons}
    missing = [version for version in wanted or supported() if version not in outcomes]
    console.print(table(outcomes.values(), missing))
    return int(is_failure(outcomes, [*supported(), *wanted], wanted))


if __name__ == "__main__":
    raise SystemExit(main())
