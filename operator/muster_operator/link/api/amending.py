"""Changes a volume or a claim as it was read, and reads it again where others write it at the same moment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import orjson

from muster_operator.link.api import storage_requests
from muster_operator.link.api.retry import Policies, Retry
from muster_operator.link.api.session import Reply, Request
from muster_operator.model.commands import StorageCommand

Send = Callable[[StorageCommand, Request, Retry], Awaitable[Reply]]

#: How often an object is looked at that others write, too: its controller, a provisioner.
_MOST_LOOKS: Final = 8
_CONFLICT: Final = 409


async def amend(command: StorageCommand, send: Send, policies: Policies) -> Reply:
    """The last answer; what is so already was done, and what cannot be done any more is a conflict that says why."""
    reply = Reply(0, b"")
    for _ in range(_MOST_LOOKS):
        reply = await send(command, storage_requests.read(command), policies.read)
        if not reply.ok:
            break
        try:
            request = storage_requests.change(command, reply.json())
        except storage_requests.Contested as contested:
            return Reply(_CONFLICT, orjson.dumps({"reason": "Contested", "message": str(contested)}))
        if request is None:
            break
        reply = await send(command, request, policies.delete)
        if reply.status != _CONFLICT:
            break
    return reply
