"""How a command ended, after the link's retries."""

from __future__ import annotations

from msgspec import Struct

from muster_operator.model.commands import Command


class CommandSucceeded(Struct, frozen=True, gc=False):
    """The API server did it, or it was already so."""

    command: Command


class CommandFailed(Struct, frozen=True, gc=False):
    """The API server refused it for good, or the retries ran out.

    ``status`` is the HTTP status, 0 for none; ``reason`` the Status object's (``AlreadyExists``, ``Forbidden``, ...).
    """

    command: Command
    status: int
    reason: str
    message: str

    @property
    def may_pass(self) -> bool:
        """Whether the same may succeed later: others wrote at the same moment, or the server is busy or in trouble."""
        return self.status in {409, 429} or self.status >= 500


class CommandUnanswered(Struct, frozen=True, gc=False):
    """It was sent and nobody knows whether it was done. The link reads the pod and tells that fact first."""

    command: Command


Result = CommandSucceeded | CommandFailed | CommandUnanswered
