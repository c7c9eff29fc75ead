"""kopf, imported without the official Kubernetes client.

kopf imports the client only to recognize its classes, which the operator never passes to kopf. The client takes two
fifths of the time of all imports. Code that needs it, for credentials of a plug-in, imports it then.

Import kopf from here only: a direct import that runs first loads the client.
"""

from __future__ import annotations

import sys

__all__ = ["kopf"]

_CLIENT = "kubernetes"
_loaded = sys.modules.get(_CLIENT)
if _loaded is None:
    sys.modules[_CLIENT] = None  # type: ignore[assignment]  # an import of it raises ModuleNotFoundError
try:
    import kopf
finally:
    if _loaded is None:
        del sys.modules[_CLIENT]
