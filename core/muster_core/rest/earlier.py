"""Views of an earlier state, which is made again from a journal: what `?at=TIME` asks for.

It runs in the process of `answers`, not in the core.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import orjson

from muster_core.rest.http import RequestContext, RestContext, RestFailure
from muster_core.rest.routes import ROUTES
from muster_core.runtime.replay import BrokenJournal, JournalReader
from muster_core.runtime.service import Scheduler

_VIEWS = {route.path: route.view for route in ROUTES if route.view is not None}


class EarlierStates:
    """The states of a journal. A later time than that of a reader needs only the lines since then.

    There are two readers, of which the one that is farther always stays: questions about other times do not keep a time
    from being reached that needs several answers.
    """

    def __init__(self, journal: str) -> None:
        self._path = Path(journal)
        self._readers: list[JournalReader] = []

    def answer(
        self, at_ns: int, route: str, path: Mapping[str, str], query: Mapping[str, str], may_go_on: Callable[[], bool]
    ) -> tuple[int, object]:
        """Status and JSON of a view at this time, or an error message. Raises MemoryError if one state is too large."""
        try:
            state = self._reader(at_ns).state_at(at_ns, may_go_on)
        except (BrokenJournal, OSError) as error:
            return 503, f"there is no state of this time: {error}"
        except MemoryError:
            if len(self._readers) < 2:
                raise
            self._readers.clear()
            return self.answer(at_ns, route, path, query, may_go_on)
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

    def _reader(self, at_ns: int) -> JournalReader:
        """The reader that needs the fewest lines until this time. Raises OSError."""
        self._readers.sort(key=lambda reader: reader.reached_ns)
        if fitting := [reader for reader in self._readers if reader.reached_ns <= at_ns]:
            return fitting[-1]
        if not self._path.is_file():
            raise FileNotFoundError("the journal is not a regular file")
        self._readers = [JournalReader(self._path.open("rb")), *self._readers[-1:]]
        return self._readers[0]
