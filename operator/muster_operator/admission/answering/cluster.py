"""What the operator's own watch shows of namespaces and priority classes, and a direct look where it shows nothing yet.

A namespace and its first pod come within milliseconds, often before the watch has told of the namespace; and before the
first list is complete nothing is known at all. Then one is read by itself, and who waits for it waits.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from muster_operator.admission.known import Known
from muster_operator.link.api.session import KubeSession
from muster_operator.translate.namespaces import read_priority_class
from muster_operator.translate.raw import Raw, mapping, strings, text

NAMESPACES: Final = "namespaces"
PRIORITY_CLASSES: Final = "priorityclasses"
DELETED: Final = "DELETED"
#: Of a namespace's annotations only these are kept.
_PREFIX: Final = "yunikorn.apache.org/"
#: Lists of one: a right to list is needed for the watch anyway, a right to get would be one more.
_PATHS: Final = {
    NAMESPACES: "/api/v1/namespaces?fieldSelector=metadata.name%3D",
    PRIORITY_CLASSES: "/apis/scheduling.k8s.io/v1/priorityclasses?fieldSelector=metadata.name%3D",
}
#: Seconds for which a missing name is not looked up again, because every pod can send requests to the webhook.
UNKNOWN_S: Final = 1.0
MAX_UNKNOWN_NAMES: Final = 1024
#: Look-ups at once.
LOOK_UPS: Final = 4


class ClusterView:
    """Fed by the watch (`watched`, `listed`), asked by the server. `account`: who we are, to the API server."""

    def __init__(
        self,
        session: KubeSession,
        home: str,
        scheduler_names: frozenset[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.account = ""
        self._session, self._home, self._scheduler_names = session, home, scheduler_names
        self._namespaces: dict[str, dict[str, str]] = {}
        self._classes: dict[str, bool] = {}
        self._listed: set[str] = set()
        self._clock, self._looking = clock, asyncio.Semaphore(LOOK_UPS)
        #: (plural, name) that was not found, until when that holds; the oldest first.
        self._unknown: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._reads: dict[tuple[str, str], asyncio.Task[None]] = {}

    @property
    def known(self) -> Known:
        """All of it; it goes on changing."""
        return Known(self.account, self._home, self._scheduler_names, self._namespaces, self._classes)

    @property
    def missing(self) -> str:
        """What was never listed; empty = nothing."""
        return ", ".join(sorted(set(_PATHS) - self._listed))

    def watched(self, plural: str, kind: str | None, raw: Raw) -> None:
        """Take an object as the watch shows it; other kinds than ours are nothing to us."""
        name = text(mapping(raw.get("metadata")).get("name"))
        known = self._known(plural)
        if known is None:
            return
        if kind == DELETED:
            known.pop(name, None)
        else:
            self._take(plural, name, raw)

    def listed(self, plural: str) -> None:
        """A list is complete; what it shows and what is gone came one by one."""
        if self._known(plural) is not None:
            self._listed.add(plural)

    def lacks(self, namespace: str, priority_class: str) -> bool:
        """Whether one of them (empty = none) has to be looked up."""
        return namespace not in self._namespaces or bool(priority_class and priority_class not in self._classes)

    async def look_up(self, namespace: str, priority_class: str) -> None:
        """Have both known, by a look of our own where the watch has not told of them.

        Raises:
            ApiRefused, Unreachable: one cannot be read.
        """
        if namespace not in self._namespaces:
            await self._read_once(NAMESPACES, namespace)
        if priority_class and priority_class not in self._classes:
            await self._read_once(PRIORITY_CLASSES, priority_class)

    async def _read_once(self, plural: str, name: str) -> None:
        """Read an object once for all concurrent requests; a missing object is not read again immediately."""
        key = (plural, name)
        if self._unknown.get(key, 0.0) > self._clock():
            return
        reading = self._reads.get(key)
        if reading is None:
            reading = self._reads[key] = asyncio.create_task(self._read(plural, name))
            reading.add_done_callback(lambda _: self._reads.pop(key, None))
        await asyncio.shield(reading)

    async def _read(self, plural: str, name: str) -> None:
        """One that is not there stays unknown: the API server refuses what names it by itself."""
        async with self._looking:
            found = await self._session.get(_PATHS[plural] + quote(name, safe=""))
        items = found.get("items") or []
        for raw in items:
            self._take(plural, name, raw)
        if not items:
            self.not_found(plural, name)

    def not_found(self, plural: str, name: str) -> None:
        """Remember for a moment that the API server has no object of that name."""
        self._unknown[plural, name] = self._clock() + UNKNOWN_S
        self._unknown.move_to_end((plural, name))
        if len(self._unknown) > MAX_UNKNOWN_NAMES:
            self._unknown.popitem(last=False)

    @property
    def unknown_names(self) -> int:
        """How many names are remembered as not found."""
        return len(self._unknown)

    def _take(self, plural: str, name: str, raw: Raw) -> None:
        if plural == NAMESPACES:
            written = strings(mapping(raw.get("metadata")).get("annotations"))
            self._namespaces[name] = {key: value for key, value in written.items() if key.startswith(_PREFIX)}
        elif (seen := read_priority_class(raw)) is not None:
            self._classes[name] = seen.allow_preemption

    def _known(self, plural: str) -> dict[str, dict[str, str]] | dict[str, bool] | None:
        match plural:
            case "namespaces":
                return self._namespaces
            case "priorityclasses":
                return self._classes
            case _:
                return None
