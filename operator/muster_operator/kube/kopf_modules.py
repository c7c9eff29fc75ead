"""The parts of kopf that the operator uses, imported without the official Kubernetes client.

kopf imports the client only to recognize its classes, which the operator never passes to kopf. The client takes two
fifths of the time of all imports. Code that needs it, for credentials of a plug-in, imports it then.

Import kopf from here only: a direct import that runs first loads the client.
"""

from __future__ import annotations

import sys

__all__ = ["api", "errors", "kopf", "orchestration", "queueing", "watching"]

_CLIENT = "kubernetes"
_loaded = sys.modules.get(_CLIENT)
if _loaded is None:
    sys.modules[_CLIENT] = None  # type: ignore[assignment]  # an import of it raises ModuleNotFoundError
try:
    import kopf
    from kopf._cogs.clients import api, errors, watching
    from kopf._core.reactor import orchestration, queueing
finally:
    if _loaded is None:
        del sys.modules[_CLIENT]
