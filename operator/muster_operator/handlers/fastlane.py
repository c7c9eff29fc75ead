"""The fast lane: hot resources skip kopf's queue and worker per object.

kopf's machinery handles about 1,000 pod events a second and core; a straight loop over kopf's own watch stream, with
orjson, handles 18,000 and more (architecture 4). `install` puts that loop where kopf starts its watchers, for the
resources in `HOT`; everything else goes kopf's way. The handlers are the ones registered with `@kopf.on.event`, called
with the same `event`; they get no body, patch or logger here, and must not ask for them.

Each iteration of the loop is one list and one watch. A list that is complete is told as a whole (`Listener.listed`),
because after `410 Gone` kopf lists anew and nothing says what vanished in between; every `RELIST_S` the stream is
started over for the same reason. List and watch come through one ordered stream, so a list is never older than what
was told before.

All names of kopf that this relies on are in `missing()`; a guard test pins them, and where one is missing kopf does
the work alone and `handlers.relist` makes the lists.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final, Protocol, cast

import aiohttp
import kopf
import orjson
import structlog
from kopf._cogs.clients import api, errors, watching
from kopf._core.reactor import orchestration, queueing

log = structlog.get_logger("muster.fastlane")

#: (group, plural) of the resources that take the fast lane.
HOT: Final = frozenset(
    {
        ("", "pods"),
        ("", "nodes"),
        ("", "namespaces"),
        ("", "configmaps"),
        ("scheduling.k8s.io", "priorityclasses"),
    }
)
#: Seconds between lists while nothing goes wrong. Every list costs the API server a full read; a missed deletion
#: costs its room until the next one.
RELIST_S: Final = 300.0
#: Seconds to wait after a failed stream; the last one repeats for as long as the process lives.
BACKOFF_S: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
#: A handler may keep the loop this many events before others get a turn (a listed chunk comes without a pause).
TURN: Final = 200

_WATCHER_PARAMETERS: Final = (
    "namespace",
    "settings",
    "resource",
    "processor",
    "operator_paused",
    "operator_indexed",
    "resource_indexed",
)
_WATCH_PARAMETERS: Final = ("settings", "resource", "namespace", "operator_paused", "_iterations")

Handler = Callable[..., Awaitable[None]]


class Listener(Protocol):
    """What the lane tells beside the events."""

    async def list_begun(self, plural: str) -> None:
        """Take note that a list is about to be asked for."""

    async def listed(self, plural: str, keys: frozenset[str]) -> None:
        """Take a complete list: uids of pods, names of cluster-wide objects."""

    def stream_broke(self, plural: str, reason: str) -> None:
        """Count that a stream had to be started over."""


@dataclass(frozen=True, slots=True)
class Lane:
    """What the straight loop needs: the handlers, their memo, and who is told of complete lists."""

    registries: tuple[kopf.OperatorRegistry, ...]
    memo: object
    listener: Listener
    relist_s: float = RELIST_S


def missing() -> list[str]:
    """Names and signatures of kopf that the lane relies on and that are not as expected; empty = all there."""
    wrong: list[str] = []
    for owner, name in (
        (orchestration, "queueing"),
        (queueing, "watcher"),
        (watching, "infinite_watch"),
        (watching, "WatchingError"),
        (api, "json"),
        (errors, "APIError"),
    ):
        if not hasattr(owner, name):
            wrong.append(f"{owner.__name__}.{name}")
    if not wrong and getattr(orchestration, "queueing") is not queueing:  # noqa: B009 - checked, not assumed
        wrong.append("orchestration.queueing is another module")
    if not hasattr(getattr(watching, "Bookmark", None), "LISTED"):
        wrong.append("watching.Bookmark.LISTED")
    if not hasattr(getattr(kopf.OperatorRegistry(), "_watching", None), "get_all_handlers"):
        wrong.append("OperatorRegistry._watching.get_all_handlers")
    if not wrong:
        wrong += _unknown_parameters(queueing.watcher, _WATCHER_PARAMETERS)
        wrong += _unknown_parameters(watching.infinite_watch, _WATCH_PARAMETERS)
        wrong += [] if "json.loads(" in inspect.getsource(api.stream) else ["api.stream decodes with json.loads"]
    return wrong


def _unknown_parameters(function: Callable[..., object], expected: tuple[str, ...]) -> list[str]:
    """Differences between the parameters a function has and the ones the lane passes or takes."""
    actual = tuple(inspect.signature(function).parameters)
    return [] if set(actual) == set(expected) else [f"{function.__name__}{actual}"]


def install(lane: Lane) -> Callable[[], None] | None:
    """Put the straight loop in place of kopf's watcher; returns what takes it out again, None = not possible here."""
    wrong = missing()
    if wrong:
        log.warning("kopf changed: no fast lane, pods and nodes go kopf's slow way", missing=wrong)
        return None
    slow, plain_json = queueing.watcher, getattr(api, "json")  # noqa: B009 - kopf's import, not its export

    async def watcher(*, resource: Any, **kwargs: Any) -> None:
        if (resource.group, resource.plural) in HOT:
            await run(lane, resource, kwargs["namespace"], kwargs["settings"])
        else:
            await slow(resource=resource, **kwargs)

    # kopf decodes every line of every stream with `json.loads`: orjson does it in half the time.
    setattr(api, "json", SimpleNamespace(loads=orjson.loads, dumps=plain_json.dumps))  # noqa: B010
    setattr(queueing, "watcher", watcher)  # noqa: B010 - mypy sees a function there, and so it stays

    def uninstall() -> None:
        setattr(api, "json", plain_json)  # noqa: B010
        setattr(queueing, "watcher", slow)  # noqa: B010

    return uninstall


def handlers_for(registries: Iterable[kopf.OperatorRegistry], resource: Any) -> list[Handler]:
    """The functions registered with `@kopf.on.event` for a resource, in the order of registration."""
    return [
        cast("Handler", handler.fn)
        for registry in registries
        for handler in registry._watching.get_all_handlers()  # noqa: SLF001 - pinned by `missing`
        if handler.selector is not None and handler.selector.check(resource)
    ]


async def run(lane: Lane, resource: Any, namespace: Any, settings: kopf.OperatorSettings) -> None:
    """Feed the handlers from list and watch, for ever. A stream that fails is started over after a pause."""
    handlers = handlers_for(lane.registries, resource)
    failures = 0
    while True:
        listed = _Listing()
        reason = ""
        try:
            await lane.listener.list_begun(resource.plural)
            stream = watching.infinite_watch(settings=settings, resource=resource, namespace=namespace, _iterations=1)
            async with asyncio.timeout(lane.relist_s), contextlib.aclosing(cast("Any", stream)):
                await _feed(lane, resource, handlers, listed, stream)
        except TimeoutError:
            reason = ""  # time for a new list: not a failure
        except (errors.APIError, watching.WatchingError, aiohttp.ClientError) as error:
            reason = f"{type(error).__name__}: {error}"
        if listed.complete:
            failures = 0
        if reason or not listed.complete:
            delay = BACKOFF_S[min(failures, len(BACKOFF_S) - 1)]
            failures += 1
            lane.listener.stream_broke(resource.plural, reason or "the list was cut off")
            log.warning("stream started over", resource=resource.plural, reason=reason, in_seconds=delay)
            await asyncio.sleep(delay)


@dataclass(slots=True)
class _Listing:
    """How far the list at the head of a stream has come."""

    complete: bool = False


async def _feed(lane: Lane, resource: Any, handlers: list[Handler], listing: _Listing, stream: Any) -> None:
    """Hand every event of one list and one watch to every handler, and the finished list to the listener."""
    keys: set[str] = set()
    turn = 0
    async for raw in stream:
        if raw is watching.Bookmark.LISTED:
            listing.complete = True
            await lane.listener.listed(resource.plural, frozenset(keys))
            keys.clear()
            continue
        if raw["type"] == "BOOKMARK":
            continue
        if not listing.complete:
            metadata = raw["object"]["metadata"]
            keys.add(metadata["uid"] if resource.namespaced else metadata["name"])
        for handler in handlers:
            await handler(event=raw, resource=resource, memo=lane.memo)
        turn += 1
        if turn >= TURN:
            turn = 0
            await asyncio.sleep(0)
