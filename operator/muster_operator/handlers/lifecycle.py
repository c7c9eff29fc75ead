"""What kopf calls around all resources: its settings at the start, and the login. Registered with every registry."""

from __future__ import annotations

from typing import Any

import kopf

from muster_operator.handlers.memo import Memo
from muster_operator.handlers.stream import SILENT_S


def register(registry: kopf.OperatorRegistry) -> None:
    """Have kopf call these, for the resources of that registry."""
    kopf.on.startup(registry=registry)(configure)
    kopf.on.login(registry=registry)(log_in)


async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    """Configure kopf to write nothing to the cluster, and to retry failed requests."""
    settings.posting.enabled = False
    settings.peering.standalone = True
    # No watch for new kinds: ours are built in, and watching CRDs would need more rights.
    settings.scanning.disabled = True
    settings.watching.chunk_size = 500
    settings.watching.inactivity_timeout = SILENT_S
    settings.process.ultimate_exiting_timeout = None
    settings.networking.request_timeout = 60
    # An API server that restarts is back in seconds, one that is upgraded in a minute or two. After these a stream, or
    # the discovery of resources at the start, is begun again.
    settings.networking.error_backoffs = (0.2, 0.5, 1, 2, 2, *[5] * 24)
    settings.execution.default_backoff = 5


async def log_in(memo: Memo, **_: Any) -> kopf.AiohttpSession:
    """Our own session: one set of connections and credentials for kopf and for all that the operator asks itself."""
    return await memo.session.for_streams()
