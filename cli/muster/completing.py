"""`kubectl_complete-muster`: kubectl runs it with the words after `kubectl muster` to complete the last one.

kubectl reads one answer per line, a tab, its description, and a final line with a colon and a directive
(https://github.com/kubernetes/kubernetes/pull/105867). The lines are those that the fish shell reads.
"""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import redirect_stdout, suppress
from io import StringIO
from typing import Final

from muster.main import app

#: The shell also completes file names, because some arguments are files; kubectl's default directive.
_COMPLETE_FILES: Final = ":0"


def main() -> None:
    """Print the answers."""
    os.environ |= {
        "_MUSTER_COMPLETE": "complete_fish",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_ARGS": shlex.join(["muster", *sys.argv[1:]]),
    }
    answers = StringIO()
    with redirect_stdout(answers), suppress(SystemExit):
        app(prog_name="muster")
    print(*filter(None, answers.getvalue().splitlines()), _COMPLETE_FILES, sep="\n")
