"""Whom the API server is told to trust, and when a new certificate may be served: no moment in which they disagree.

A new authority is told first and serves only after `SETTLE`, when every API server has heard of it. One that is not
wanted any more stays told for `RETIRE`, because another replica may serve with it until it has looked at the Secret
again. Pure: what is told is read from the registration each time, so that a restart in between loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from muster_operator.admission.certifying.certificates import Leaf

#: API servers hear of a registration through their own watch: milliseconds, and seconds where they are in trouble.
SETTLE: Final = timedelta(seconds=5)
#: Replicas look at the Secret every few seconds; one that was cut off gets this long.
RETIRE: Final = timedelta(minutes=10)


class Trust:
    """Follows one change of certificates after the other. Authorities are PEM texts."""

    def __init__(self) -> None:
        self.serving: Leaf | None = None
        self._wanted: Leaf | None = None
        self._known_since: dict[bytes, datetime] = {}
        self._unwanted_since: dict[bytes, datetime] = {}

    def want(self, leaf: Leaf) -> None:
        """This is what should be served from now on, as soon as that is possible."""
        self._wanted = leaf

    def to_tell(self, standing: Iterable[Iterable[bytes]], now: datetime) -> tuple[bytes, ...]:
        """The authorities to register, given those that stand in each registration: the wanted ones, and what retires.

        None where the wanted leaf names none: then they are somebody else's to tell.
        """
        wanted = self._wanted.authorities if self._wanted is not None else ()
        if not wanted:
            return ()
        unwanted = dict.fromkeys(one for bundle in standing for one in bundle if one not in wanted)
        self._unwanted_since = {one: self._unwanted_since.get(one, now) for one in unwanted}
        return (*wanted, *(one for one in unwanted if now - self._unwanted_since[one] < RETIRE))

    def told(self, standing: Iterable[Iterable[bytes]], now: datetime) -> None:
        """These stand in each registration; known is what stands in all."""
        known = set.intersection(*map(set, standing))
        self._known_since = {one: self._known_since.get(one, now) for one in known}

    def to_serve(self, now: datetime) -> Leaf | None:
        """What to serve with from now on, None = go on as it is. The first one does not wait: nothing is served yet."""
        wanted = self._wanted
        if wanted is None or wanted is self.serving:
            return None
        is_known = all(now - self._known_since.get(one, now) >= SETTLE for one in wanted.authorities)
        if self.serving is not None and not is_known:
            return None
        self.serving = wanted
        return wanted
