"""Lints .github: zizmor for what is unsafe, actionlint for what does not work. Called by ``make check``.

zizmor comes with the environment. actionlint is one of the Go programs that ``make test`` builds: used where it is
built already, so that ``make check`` compiles nothing and needs no Go; a test runs it in any case.
"""

import subprocess
import sys
from pathlib import Path

from devcluster.programs import ACTIONLINT, cached_path

ROOT = Path(__file__).resolve().parent.parent
ZIZMOR = (str(Path(sys.executable).with_name("zizmor")), "--offline", "--quiet", "--no-progress", ".github")
#: Only its own rules: what shellcheck and pyflakes would say depends on whether a machine has them.
FLAGS = ("-shellcheck=", "-pyflakes=")


def main() -> int:
    """What the linters say goes to their own outputs; 1 if one of them found something."""
    commands: list[tuple[str, ...]] = [ZIZMOR]
    actionlint = cached_path(ACTIONLINT)
    if actionlint.exists():
        commands.append((str(actionlint), *FLAGS))
    codes = [subprocess.run(command, cwd=ROOT, check=False).returncode for command in commands]
    return int(any(codes))


if __name__ == "__main__":
    raise SystemExit(main())
