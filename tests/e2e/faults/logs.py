"""Finds unhandled exceptions and errors in the logs of operator and core. Pure."""

import re
from collections.abc import Iterable

UNHANDLED = re.compile(
    r"Traceback \(most recent call last\)"
    r"|the agent failed"
    r"|was never (retrieved|awaited)"
    r'|"exception":'
    r"|Unhandled|unhandled"
    r'|"level": ?"(error|critical)"'
)

OF_LIBRARIES = re.compile(
    r"was never retrieved.*kopf/_cogs/clients/scanning\.py"
    r"|closing of asynchronous generator.*kopf/_cogs/clients/watching\.py"
    r"|Fatal error on SSL protocol.*closed=True.*uvloop/sslproto\.pyx"
)
"""Errors that a library logs although everything is handled.

kopf leaves tasks that look for new resources, and watches, unfinished if the operator ends meanwhile. uvloop finds a
connection closed that was reset while it read; the request fails with an exception, and is repeated.
"""

BEFORE = 2
SHOWN = 600


def unhandled(name: str, lines: Iterable[str]) -> list[str]:
    """Return the lines with an unhandled exception or an error, each with the preceding lines."""
    found: list[str] = []
    last: list[str] = []
    for line in lines:
        if UNHANDLED.search(line) and not OF_LIBRARIES.search(line):
            shown = [part.rstrip()[:SHOWN] for part in (*last[-BEFORE:], line)]
            found.append(f"log of {name}: " + "\n    ".join(shown))
        last = [*last[-BEFORE:], line]
    return found
