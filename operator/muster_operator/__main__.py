"""`python -m muster_operator`: the operator as a process of its own."""

import sys


def load_kopf() -> None:
    """Load kopf without the official Kubernetes client, which it asks only for the classes of objects to expect.

    This program never passes such objects, and the client takes two fifths of the start time to load. Code that
    needs it, for credentials from a plug-in, loads it then.
    """
    client = "kubernetes"
    sys.modules[client] = None  # type: ignore[assignment] # so Python is told that there is no such module
    try:
        import kopf  # noqa: F401, PLC0415 - for its sake
    finally:
        del sys.modules[client]


load_kopf()

from muster_operator.main import app  # noqa: E402 - everything below it imports kopf

app(prog_name="python -m muster_operator")
