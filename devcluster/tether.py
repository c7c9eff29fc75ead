"""Runs a command that ends with its parent process: ``python tether.py PARENT_PID COMMAND...``.

It is a separate program because code between fork and exec is unsafe in a forked Python. Linux keeps the setting across
exec. Other systems have no such setting; there the parent's own cleanup must suffice.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
"""``prctl(2)``: the signal that this process receives when its parent ends."""


def main() -> None:
    """Request the signal, then replace this process by the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # the parent ended before the request
            sys.exit(1)
    os.execvp(command[0], command)  # noqa: S606  # becoming the command is the purpose


if __name__ == "__main__":
    main()
