"""`kubectl_complete-muster`: what kubectl runs to complete the words after `kubectl muster`.

kubectl passes the words, the last of which is begun or empty, and reads one answer a line, a tab, what it is, and at
the end a colon and what the shell is to do besides (https://github.com/kubernetes/kubernetes/pull/105867).
"""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import redirect_stdout, suppress
from io import StringIO
from typing import Final

from muster.main import app

#: Besides the answers the shell offers files, for some arguments are files: what kubectl calls the default.
_FILES_TOO: Final = ":0"


def main() -> None:
    """Answer as the fish shell is answered, whose lines are those that kubectl reads."""
    os.environ |= {
        "_MUSTER_COMPLETE": "complete_fish",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_ARGS": shlex.join(["muster", *sys.argv[1:]]),
    }
    said = StringIO()
    with redirect_stdout(said), suppress(SystemExit):
        app(prog_name="muster")
    print(*filter(None, said.getvalue().splitlines()), _FILES_TOO, sep="\n")
