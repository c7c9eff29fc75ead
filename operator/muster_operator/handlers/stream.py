"""List, then watch, and go on watching from where a cut stream ended (Kubernetes, API concepts: efficient detection).

A list is told as a whole, because nothing else says what vanished unseen. The watch begins at the list's
resourceVersion; each event and each bookmark moves that on, after the handlers had it, so a stream that is cut or that
its server ends is taken up without a list, which for 20,000 pods is 160 MB. kopf's own watcher lists again after a 410
or an error and cannot be told a version; the request below it (`handlers.watch`) can. A new list is made only

* where the API server says 410 Gone: it no longer knows what came after that version,
* where a bookmark is older than what was seen: the store was restored from a backup,
* where the server refuses that version `REFUSALS` times in a row, for whatever reason,
* and every `RELIST_S`, to compare.

No selectors: pods that have ended are watched too. A selector on `status.phase` would show the end of a pod as DELETED,
with its last state, so that much could be told; but a placeholder that ended has to be deleted, also after a restart,
and only a list that has it can say so. What they cost is little: a fact that is dropped at once.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, Protocol

import aiohttp
import kopf
import structlog
from kopf._cogs.clients import errors

from muster_operator.handlers.watch import lines
from muster_operator.link.api.decoding import decoded_event, decoded_object, decoded_pod, decoded_pod_event
from muster_operator.link.api.listing import pages
from muster_operator.link.api.session import KubeSession
from muster_operator.link.errors import ApiRefused, Unreachable
from muster_operator.translate.sketch import Sketch

log = structlog.get_logger("muster.stream")

#: Seconds between lists while nothing goes wrong. Every list costs the API server a full read; a missed deletion
#: costs its room until the next one.
RELIST_S: Final = 300.0
#: Seconds until a list that failed is asked for again; meanwhile the watch goes on.
RETRY_LIST_S: Final = 30.0
#: Seconds to wait after a stream that brought nothing; the last one repeats for as long as the process lives.
BACKOFF_S: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
#: Pauses and times between lists are longer by up to this share, so that not all streams come at once.
JITTER: Final = 0.2
#: A stream that lasted this long was a good one even if it brought nothing.
GOOD_STREAM_S: Final = 5.0
#: Refusals of a version, one after the other, before it is given up.
REFUSALS: Final = 3
#: A handler may keep the loop this many events before others get a turn (a listed chunk comes without a pause).
TURN: Final = 100

_GONE: Final = 410
#: How an event and an object of a list are read, where not as all others.
_DECODERS: Final = {"pods": (decoded_pod_event, decoded_pod)}

Handler = Callable[..., Awaitable[None]]


class Listener(Protocol):
    """What a stream tells beside the events."""

    async def list_begun(self, plural: str) -> None:
        """Take note that a list is about to be asked for."""

    async def listed(self, plural: str, keys: frozenset[str]) -> None:
        """Take a complete list, by the keys of `key_of`."""

    def stream_broke(self, plural: str, reason: str) -> None:
        """Count that a stream had to be started over."""

    def stream_expired(self, plural: str) -> None:
        """Count that what happened meanwhile is lost, and only a list can tell."""

    def heard(self, plural: str) -> None:
        """Note that the watch lives: it brought something."""

    def bookmark(self, plural: str) -> None:
        """Count a bookmark, which nobody takes."""


@dataclass(frozen=True, slots=True)
class Topic:
    """What is listed and watched, who handles it, and who is told of it."""

    resource: Any
    namespace: Any
    session: KubeSession
    handlers: tuple[Handler, ...]
    memo: object
    listener: Listener


class Refused(Exception):
    """The API server does not serve the stream."""


class Expired(Exception):
    """What came after our version cannot be told any more."""


#: What a stream survives; the last three are an answer that is not what an API server says.
_FAILURES: Final = (
    *(Expired, Refused, ApiRefused, Unreachable, errors.APIError, aiohttp.ClientError, TimeoutError),
    *(ValueError, LookupError, TypeError),
)


class Stream:
    """One resource, listed and watched for ever."""

    def __init__(self, topic: Topic, settings: kopf.OperatorSettings, relist_s: float = RELIST_S) -> None:
        self._topic, self._settings, self._relist_s = topic, settings, relist_s
        self._plural: str = topic.resource.plural
        self._decode_event, self._decode_object = _DECODERS.get(self._plural, (decoded_event, decoded_object))
        self._version = ""  # empty = list first
        self._list_due = 0.0
        self._failures = self._refusals = self._taken = self._handled = 0

    async def run(self) -> None:
        """Feed the handlers until cancelled. Whatever the API server does, the stream is taken up again."""
        while True:
            began, taken, reason = time.monotonic(), self._taken, ""
            try:
                await self._list_or_watch()
            except _FAILURES as error:
                reason = self._failed(error)
            if not reason and (self._taken > taken or time.monotonic() - began > GOOD_STREAM_S):
                self._failures = 0
            else:
                await self._pause(reason)

    async def _list_or_watch(self) -> None:
        """One list, or one watch until it ends or it is time for a list."""
        if not self._version or time.monotonic() >= self._list_due:
            self._list_due = time.monotonic() + RETRY_LIST_S
            await self._list()
            self._list_due = time.monotonic() + _longer(self._relist_s)
            return
        try:
            async with asyncio.timeout(self._list_due - time.monotonic()):
                await self._watch()
        except TimeoutError:
            if time.monotonic() < self._list_due:
                raise
            self._taken += 1  # it served its time

    async def _list(self) -> None:
        """Everything that there is, page by page."""
        topic, keys, version = self._topic, set[str](), ""
        await topic.listener.list_begun(self._plural)
        async with aclosing(pages(topic.session, topic.resource.get_url(namespace=topic.namespace))) as stream:
            async for page in stream:
                version = page.version
                for item in page.items:
                    raw = self._decode_object(item)
                    keys.add(key_of(self._plural, raw))
                    await self._handle({"type": None, "object": raw})
        await topic.listener.listed(self._plural, frozenset(keys))
        self._version, self._refusals = version, 0
        self._taken += 1

    async def _watch(self) -> None:
        """What changed since our version, until the stream ends.

        Raises:
            Expired: that is not known any more.
            Refused: the stream reports an error.
        """
        topic = self._topic
        async with aclosing(lines(topic.resource, topic.namespace, self._version, self._settings)) as stream:
            async for some in stream:
                if some:
                    topic.listener.heard(self._plural)
                for line in some:
                    if line:
                        await self._take(self._decode_event(line))

    async def _take(self, event: Any) -> None:
        kind, raw = event["type"], event["object"]
        if kind == "ERROR":
            if raw.get("code") == _GONE:
                raise Expired(raw.get("message", ""))
            raise Refused(f"the watch reports {raw}")
        version = raw.metadata.resource_version if isinstance(raw, Sketch) else raw["metadata"]["resourceVersion"]
        if kind != "BOOKMARK":
            await self._handle(event)
        elif _is_older(version, self._version):
            raise Expired(f"the server is at {version} and was at {self._version}: its store was set back")
        else:
            self._topic.listener.bookmark(self._plural)
        self._version, self._refusals = version, 0
        self._taken += 1

    async def _handle(self, event: Any) -> None:
        """Give the event to every handler, and others a turn now and then."""
        for handler in self._topic.handlers:
            await handler(event=event, resource=self._topic.resource, memo=self._topic.memo)
        self._handled = (self._handled + 1) % TURN
        if not self._handled:
            await asyncio.sleep(0)

    def _failed(self, error: Exception) -> str:
        """What to say of an error, nothing if it only takes a new list.

        A version that is refused again and again may itself be the reason.
        """
        if isinstance(error, Expired) or getattr(error, "status", None) == _GONE:
            self._topic.listener.stream_expired(self._plural)
            log.info("a watch expired, listing anew", resource=self._plural, reason=str(error))
            self._version = ""
            return ""
        self._refusals += 1
        if self._refusals >= REFUSALS:
            self._version, self._refusals = "", 0
        return f"{type(error).__name__}: {error}"

    async def _pause(self, reason: str) -> None:
        delay_s = _longer(BACKOFF_S[min(self._failures, len(BACKOFF_S) - 1)])
        self._failures += 1
        self._topic.listener.stream_broke(self._plural, reason or "it ended at once")
        log.warning("stream started over", resource=self._plural, reason=reason, in_seconds=round(delay_s, 2))
        await asyncio.sleep(delay_s)


def key_of(plural: str, raw: Any) -> str:
    """What tells an object from others of its kind in a list: a pod's uid, another's name, or namespace and name."""
    if isinstance(raw, Sketch):
        return raw.metadata.uid
    metadata = raw["metadata"]
    if plural == "pods":
        return str(metadata["uid"])
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def _longer(seconds: float) -> float:
    """A time that is not everybody's."""
    return seconds * (1 + JITTER * random.random())  # noqa: S311 - nobody guesses it to harm us


def _is_older(version: str, than: str) -> bool:
    """Compares where both are numbers, as Kubernetes 1.35 promises for its own resources; else nothing is older."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)
