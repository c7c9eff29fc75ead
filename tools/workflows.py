"""Lints .github: zizmor for security, actionlint for errors. Called by ``make check``.

zizmor is in the environment. actionlint is one of the Go programs that ``make test`` builds. It is used only if it is
already built, so that ``make check`` compiles nothing and needs no Go. A test always runs it.
"""

import subprocess
import sys
from pathlib import Path

from devcluster.programs import ACTIONLINT, cached_path

ROOT = Path(__file__).resolve().parent.parent
ZIZMOR = (str(Path(sys.executable).with_name("zizmor")), "--offline", "--quiet", "--no-progress", ".github")
#: Only its own rules, because not every machine has shellcheck and pyflakes.
FLAGS = ("-shellcheck=", "-pyflakes=")


def main() -> int:
    """Run the linters with their own output. Returns 1 if one of them found something."""
    commands: list[tuple[str, ...]] = [ZIZMOR]
    actionlint = cached_path(ACTIONLINT)
    if actionlint.exists():
        commands.append((str(actionlint), *FLAGS))
    codes = [subprocess.run(command, cwd=ROOT, check=False).returncode for command in commands]
    return int(any(codes))


if __name__ == "__main__":
    raise SystemExit(main())
