"""One registration as the resource manager sees it, the same for both transports.

It stands before the operator's callback: forwards what the scheduler says while the session lasts, says
`session_lost` once, and nothing after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from muster_si import muster_pb2, si_pb2
from muster_si.api import ResourceManagerCallback
from muster_si.errors import SessionLost
from muster_si.transport.interruption import unless_over

T = TypeVar("T")


class ClientSession:
    """A ResourceManagerCallback around the operator's own."""

    def __init__(self, rm_id: str, callback: ResourceManagerCallback) -> None:
        self.rm_id = rm_id
        self.callback = callback
        #: Done with the reason when the session ended.
        self.over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._is_leaving = False

    @property
    def is_over(self) -> bool:
        """Whether the session ended, for whatever reason."""
        return self.over.done()

    def update_allocation(self, response: si_pb2.AllocationResponse) -> None:
        """Forwards, unless the session is over."""
        if not self.is_over:
            self.callback.update_allocation(response)

    def update_application(self, response: si_pb2.ApplicationResponse) -> None:
        """Forwards, unless the session is over."""
        if not self.is_over:
            self.callback.update_application(response)

    def update_node(self, response: si_pb2.NodeResponse) -> None:
        """Forwards, unless the session is over."""
        if not self.is_over:
            self.callback.update_node(response)

    def call_back(self, callback: muster_pb2.Callback) -> None:
        """Forwards, unless the session is over."""
        if not self.is_over:
            self.callback.call_back(callback)

    def session_lost(self, reason: str) -> None:
        """Ends the session and tells the operator, unless it is leaving; only the first end counts."""
        if self.is_over:
            return
        self.over.set_result(reason)
        if not self._is_leaving:
            self.callback.session_lost(reason)

    def start_leaving(self) -> None:
        """The operator says goodbye: however the session ends from here on, the operator is not told."""
        self._is_leaving = True

    def leave(self, reason: str) -> None:
        """Ends the session by the operator's own wish."""
        self.start_leaving()
        self.session_lost(reason)

    def require_open(self) -> None:
        """Raises SessionLost with the reason once the session is over."""
        if self.is_over:
            raise SessionLost(self.over.result())

    async def unless_over(self, call: Awaitable[T]) -> T:
        """The result of the call. Raises SessionLost, and cancels the call, as soon as the session ends."""
        return await unless_over(call, self.over, self.over.result)
