"""Errors of commands, and their exit codes.

    CommandError        one line on standard error
      NotThere      1   no such queue, application, node, pod
      BadUsage      2   invalid options or arguments, or an unusable file
      Unreachable   3   core or cluster do not respond, or deny access
        Forbidden       the API server requires a right that the user has not

0 = success. `status`, `doctor` and `validate` also exit with 1 if they find a problem.
"""

from __future__ import annotations

from typing import ClassVar, Final

PROBLEM: Final = 1
#: Exit code after Ctrl-C.
INTERRUPTED: Final = 130


class CommandError(Exception):
    """Each message is one line for the user."""

    code: ClassVar[int]

    def __init__(self, *messages: str) -> None:
        super().__init__("; ".join(messages))
        self.messages = messages


class NotThere(CommandError):
    """The object does not exist."""

    code = 1


class BadUsage(CommandError):
    """An invalid option or argument, or a file that cannot be used."""

    code = 2


class Unreachable(CommandError):
    """No server responds, or it denies the request."""

    code = 3

    def __init__(self, where: str, why: object) -> None:
        super().__init__(f"request to {where} failed: {' '.join(str(why).split()) or type(why).__name__}")
        self.where = where


class Forbidden(Unreachable):
    """The API server knows the user, and its authorization denies the request (403)."""
