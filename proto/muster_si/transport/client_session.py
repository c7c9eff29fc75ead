"""A session of the resource manager, for both transports.

It wraps the callback of the operator: it passes messages on during the session, calls `session_lost` once, and nothing
after that.
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
    """A ResourceManagerCallback that wraps the operator's."""

    def __init__(self, rm_id: str, callback: ResourceManagerCallback) -> None:
        self.rm_id = rm_id
        self.callback = callback
        #: Set to the reason when the session has ended.
        self.over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._is_leaving = False

    @property
    def is_over(self) -> bool:
        """Whether the session has ended."""
        return self.over.done()

    def update_allocation(self, response: si_pb2.AllocationResponse) -> None:
        """Passes the message on, unless the session has ended."""
        if not self.is_over:
            self.callback.update_allocation(response)

    def update_application(self, response: si_pb2.ApplicationResponse) -> None:
        """Passes the message on, unless the session has ended."""
        if not self.is_over:
            self.callback.update_application(response)

    def update_node(self, response: si_pb2.NodeResponse) -> None:
        """Passes the message on, unless the session has ended."""
        if not self.is_over:
            self.callback.update_node(response)

    def call_back(self, callback: muster_pb2.Callback) -> None:
        """Passes the message on, unless the session has ended."""
        if not self.is_over:
            self.callback.call_back(callback)

    def session_lost(self, reason: str) -> None:
        """Ends the session and calls the operator, unless the operator is ending it. Later ends are ignored."""
        if self.is_over:
            return
        self.over.set_result(reason)
        if not self._is_leaving:
            self.callback.session_lost(reason)

    def start_leaving(self) -> None:
        """The operator is ending the session: its callback does not get the end any more."""
        self._is_leaving = True

    def leave(self, reason: str) -> None:
        """Ends the session on request of the operator."""
        self.start_leaving()
        self.session_lost(reason)

    def require_open(self) -> None:
        """Raises SessionLost with the reason if the session has ended."""
        if self.is_over:
            raise SessionLost(self.over.result())

    async def unless_over(self, call: Awaitable[T]) -> T:
        """Returns the result of the call. Cancels it and raises SessionLost when the session ends."""
        return await unless_over(call, self.over, self.over.result)
