"""Which answers of the API server are worth another try, how often, and after how long: one value per kind of command.

Every policy ends. A pause grows by `factor` up to `longest_s`, and is longer by a part that luck decides, so that what
failed together does not come again together. A `Retry-After` of the server (429, 503) lengthens it, never shortens it,
and holds back everything of that kind (`link.api.brakes`). What an answer *means* (404 on a delete is success) is said
in `link.api.kube`, before this is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

UNAVAILABLE: Final = 503
#: Statuses that say "not now": throttled, or the server or its store in trouble.
PASSING: Final = frozenset({429, 500, 502, UNAVAILABLE, 504})
#: Statuses whose Retry-After is meant for us: too many requests of ours, or of everybody's.
THROTTLED: Final = frozenset({429, UNAVAILABLE})
#: A pause is longer by up to this share.
JITTER: Final = 0.25
#: A server that asks for more patience than this gets another try anyway.
RETRY_AFTER_LIMIT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Retry:
    """How a kind of command is tried again.

    `attempts` counts the first one too. `statuses` are worth another try; so is no answer at all, if `unanswered`.
    """

    attempts: int
    first_s: float
    factor: float = 2.0
    longest_s: float = 5.0
    statuses: frozenset[int] = PASSING
    unanswered: bool = True

    def pause_s(self, attempt: int, status: int, retry_after_s: float | None = None, luck: float = 0.0) -> float | None:
        """Seconds to wait after attempt number `attempt` (from 1) ended so; None = give up.

        `status` 0 means that no answer came. `luck`: any number from 0 to 1.
        """
        worth_it = self.unanswered if status == 0 else status in self.statuses
        if not worth_it or attempt >= self.attempts:
            return None
        grown = min(self.longest_s, self.first_s * self.factor ** (attempt - 1))
        return max(grown, min(retry_after_s or 0.0, RETRY_AFTER_LIMIT_S)) * (1 + JITTER * luck)


@dataclass(frozen=True, slots=True)
class Policies:
    """One policy for each kind of request."""

    bind: Retry = Retry(attempts=8, first_s=0.1)
    """About 20 s in all: long enough for an API server's restart, short enough to give the node back to others."""

    delete: Retry = Retry(attempts=16, first_s=0.1)
    """A placeholder that stays costs room: about a minute, then the agent sends the order again."""

    create: Retry = Retry(attempts=8, first_s=0.1, statuses=PASSING | {409})
    """409 that is not AlreadyExists is a quota object that two creates updated at once."""

    patch: Retry = Retry(attempts=8, first_s=0.2, statuses=PASSING | {409})
    """Conditions and phases: about a quarter of a minute, then the agent comes back to them. 409 is a pod that others
    write at the same moment; a patch says nothing of its version, so it is sent again as it is."""

    event: Retry = Retry(attempts=3, first_s=0.5)
    """An event is worth three tries."""

    read: Retry = Retry(attempts=6, first_s=0.1)
    """Reading a pod to settle what is unknown."""


def told_pause_s(header: str | None, now: float) -> float | None:
    """Seconds of a Retry-After header, which says a number or a date (RFC 9110, 10.2.3); nonsense counts as absent.

    `now`: epoch seconds.
    """
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        date = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    return max(0.0, (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now)
