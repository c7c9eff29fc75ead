"""Views of an earlier state, which is made again from a journal: what `?at=TIME` asks for.

It runs in the process of `answers`, not in the core.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import orjson

from muster_core.rest.http import RequestContext, RestContext, RestFailure
from muster_core.rest.routes import ROUTES
from muster_core.runtime.replay import JournalReader
from muster_core.runtime.service import Scheduler

_VIEWS = {route.path: route.view for route in ROUTES if route.view is not None}


class EarlierStates:
    """The states of a journal. A later time than the last one needs only the lines since then."""

    def __init__(self, journal: str) -> None:
        self._path = Path(journal)
        self._reader: JournalReader | None = None

    def answer(
        self, at_ns: int, route: str, path: Mapping[str, str], query: Mapping[str, str], may_go_on: Callable[[], bool]
    ) -> tuple[int, object]:
        """Status and JSON of a view at this time, or an error message."""
        if self._reader is None or at_ns < self._reader.reached_ns:
            self._reader = JournalReader(self._path.open("rb"))
        state = self._reader.state_at(at_ns, may_go_on)
        if state is None:
            return 503, "the journal until this time is too long for one answer: ask again, and it continues"
        view = _VIEWS[route]
        core = Scheduler()
        core.loop.scheduler_state = state
        try:
            pieces = view(RequestContext(RestContext(core), path, query, at_ns))
            return 200, orjson.Fragment(b"".join(pieces))
        except RestFailure as failure:
            return failure.status, failure.message
