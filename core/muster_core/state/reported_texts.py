"""The reported reasons of waiting requests, and which of them are out of date (docs/internals/semantics.md, rule 33).

`scheduling.refresh` sends new texts, slowly enough that changing nodes never cause a storm of writes.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from muster_core.model.decisions import UnschedulableReason
from muster_core.model.ids import AllocationKey, ApplicationId
from muster_core.state.request_classes import AskClass

#: Shares one text: the members of a gang that are placed together, with and without pods.
ALL_MEMBERS: Final = "all members"

#: What shares one text: the requests of a class, or ALL_MEMBERS.
TextKey = AskClass | str

_AMOUNT: Final = re.compile(r"(?<= )\d+(?:m|[KMGTPE]i?)?(?=[ ,.;:]|$)")


@dataclass(slots=True, eq=False)
class ReportedText:
    """The reason that was reported last. `newer`: the reason to be sent instead; None = it is up to date.

    `left`: requests that still get `why`, next one last. `sent_ns`: when it was sent first.
    """

    why: UnschedulableReason
    sent_ns: int
    newer: UnschedulableReason | None = None
    left: list[AllocationKey] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class ReportedTexts:
    """Texts of a partition that are out of date, and the search for them after nodes have changed."""

    #: `facts_epoch` of the nodes at the last search, the applications and then classes that it has not reached yet,
    #: reasons of classes, and when the next search may start.
    searched_epoch: int = 0
    applications: deque[ApplicationId] = field(default_factory=deque)
    to_search: deque[tuple[ApplicationId, AskClass]] = field(default_factory=deque)
    reasons: dict[AskClass, UnschedulableReason] = field(default_factory=dict)
    search_at_ns: int = 0
    #: Applications with reasons, so that a search does not look at those that have not been tried.
    refused: dict[ApplicationId, None] = field(default_factory=dict)
    #: Those to send, longest waiting first.
    stale: dict[tuple[ApplicationId, TextKey], None] = field(default_factory=dict)
    #: When the next step may be done, and when the next message may be sent.
    step_at_ns: int = 0
    send_at_ns: int = 0
    #: Number of the running timer; 0 = none.
    timer: int = 0

    @property
    def is_searching(self) -> bool:
        """Whether the last search has not reached everything yet."""
        return bool(self.applications or self.to_search)

    def is_any(self, facts_epoch: int) -> bool:
        """Whether there is work. `facts_epoch`: of the nodes now."""
        return bool(self.stale) or self.is_searching or self.searched_epoch != facts_epoch


def is_alike(one: UnschedulableReason, other: UnschedulableReason) -> bool:
    """Whether two reasons of one kind tell users the same: nodes, reasons and details. Other amounts may differ."""
    return one is other or _essence(one) == _essence(other)


def _essence(why: UnschedulableReason) -> tuple[int, tuple[str, ...], str, str]:
    names = tuple(sorted(name for name, _ in why.counts))
    message = why.message if why.counts else _AMOUNT.sub("#", why.message)
    return why.nodes, names, message, why.detail
