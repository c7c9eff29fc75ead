"""Why a command ends without having done what it was asked, and the code that it ends with.

    CommandError        one line on standard error
      NotThere      1   no such queue, application, node, pod
      BadUsage      2   what was asked makes no sense
      Unreachable   3   core or cluster do not answer, or do not let us in

0 = fine; 1 is also a problem that was found, which is no error: `status`, `doctor` and `validate` look for some.
"""

from __future__ import annotations

from typing import ClassVar, Final

FINE: Final = 0
PROBLEM: Final = 1


class CommandError(Exception):
    """The message is for people, and one line."""

    code: ClassVar[int]


class NotThere(CommandError):
    """What is asked about does not exist."""

    code = 1


class BadUsage(CommandError):
    """Options that do not go together."""

    code = 2


class Unreachable(CommandError):
    """No server answers, or it refuses the request."""

    code = 3

    def __init__(self, where: str, why: object) -> None:
        super().__init__(f"{where} cannot be asked: {' '.join(str(why).split()) or type(why).__name__}")
        self.where = where
