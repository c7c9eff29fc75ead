"""The fast path: resources whose number grows with pods and nodes skip kopf's queue and worker per object.

kopf's machinery handles about 1,000 pod events a second and core; a straight loop over a watch that kopf asked for
handles 18,000 and more (ADR 0004). `install` replaces `queueing.watcher`, the one function by which kopf starts its
watchers. For the resources in `FAST` the replacement runs `handlers.stream`, for all others kopf's own watcher, which
it starts again where kopf would end the process. The handlers are the ones registered with `@kopf.on.event`, called
with the same `event`; on the fast path they get no body, patch or logger, and must not ask for them.

With `MUSTER_FAST_PATH` off, all resources go kopf's way. All names of kopf that this relies on are in `missing()`; a
guard test pins them. Where one is missing, kopf does the work alone, slower, and what kopf cannot handle ends it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import kopf
import structlog
from kopf._cogs.clients import api, errors, watching
from kopf._core.reactor import orchestration, queueing

from muster_operator.handlers.stream import BACKOFF_S, COMPARE_S, FAILURES, Handler, Listener, Stream, Topic
from muster_operator.link.api.session import KubeSession

log = structlog.get_logger("muster.fast_path")

#: (group, plural) of the resources that take the fast path: there are as many as nodes, pods or volumes, or more.
FAST: Final = frozenset(
    {
        ("", "pods"),
        ("", "nodes"),
        ("", "persistentvolumes"),
        ("", "persistentvolumeclaims"),
        ("storage.k8s.io", "csinodes"),
        ("storage.k8s.io", "volumeattachments"),
    }
)
_WATCHER_PARAMETERS: Final = (
    "namespace",
    "settings",
    "resource",
    "processor",
    "operator_paused",
    "operator_indexed",
    "resource_indexed",
)
_REQUEST_PARAMETERS: Final = (
    *("method", "url", "settings", "payload", "headers", "timeout", "backoffs", "context", "logger"),
)


@dataclass(frozen=True, slots=True)
class FastPath:
    """What the straight loop needs: the handlers, their memo, and the listener for complete lists."""

    registries: tuple[kopf.OperatorRegistry, ...]
    memo: object
    listener: Listener
    session: KubeSession
    compare_s: float = COMPARE_S


def missing() -> list[str]:
    """Names and signatures of kopf that the fast path relies on and that are not as expected; empty = all there."""
    wrong: list[str] = []
    for owner, name in (
        (orchestration, "queueing"),
        (queueing, "watcher"),
        (api, "request"),
        (errors, "APIError"),
        (watching, "WatchingError"),
    ):
        if not hasattr(owner, name):
            wrong.append(f"{owner.__name__}.{name}")
    if not wrong and getattr(orchestration, "queueing") is not queueing:  # noqa: B009 - checked, not assumed
        wrong.append("orchestration.queueing is another module")
    if not hasattr(getattr(kopf.OperatorRegistry(), "_watching", None), "get_all_handlers"):
        wrong.append("OperatorRegistry._watching.get_all_handlers")
    if not wrong:
        wrong += _unknown_parameters(queueing.watcher, _WATCHER_PARAMETERS)
        wrong += _unknown_parameters(api.request, _REQUEST_PARAMETERS)
    return wrong


def _unknown_parameters(function: Callable[..., object], expected: tuple[str, ...]) -> list[str]:
    """Differences between the parameters a function has and the ones the fast path passes or takes."""
    actual = tuple(inspect.signature(function).parameters)
    return [] if set(actual) == set(expected) else [f"{function.__name__}{actual}"]


def install(path: FastPath, fast: Container[tuple[str, str]] = FAST) -> Callable[[], None] | None:
    """Replace kopf's watcher, for the resources in `fast` by the straight loop; returns what takes it out again.

    None = not possible with this kopf.
    """
    wrong = missing()
    if wrong:
        log.warning("unsupported kopf version: fast watch path disabled, using the standard handlers", missing=wrong)
        return None
    slow = queueing.watcher

    async def watcher(*, resource: Any, **kwargs: Any) -> None:
        if (resource.group, resource.plural) in fast:
            handlers = tuple(handlers_for(path.registries, resource))
            topic = Topic(resource, kwargs["namespace"], path.session, handlers, path.memo, path.listener)
            await Stream(topic, kwargs["settings"], path.compare_s).run()
        else:
            await _restarted(slow, path.listener, resource, kwargs)

    setattr(queueing, "watcher", watcher)  # noqa: B010 - mypy sees a function there, and so it stays

    def uninstall() -> None:
        setattr(queueing, "watcher", slow)  # noqa: B010

    return uninstall


async def _restarted(
    slow: Callable[..., Awaitable[None]], listener: Listener, resource: Any, kwargs: Mapping[str, Any]
) -> None:
    """Run kopf's own watcher; an answer that kopf does not expect ends one stream and not the process."""
    failures = 0
    while True:
        try:
            await slow(resource=resource, **kwargs)
        except (*FAILURES, watching.WatchingError, RuntimeError) as error:
            delay_s = BACKOFF_S[min(failures, len(BACKOFF_S) - 1)]
            failures += 1
            listener.stream_broke(resource.plural, str(error))
            log.warning("stream started over", resource=resource.plural, reason=str(error), in_seconds=delay_s)
            await asyncio.sleep(delay_s)


def handlers_for(registries: Iterable[kopf.OperatorRegistry], resource: Any) -> list[Handler]:
    """The functions registered with `@kopf.on.event` for a resource, in the order of registration."""
    return [
        cast("Handler", handler.fn)
        for registry in registries
        for handler in registry._watching.get_all_handlers()  # noqa: SLF001 - pinned by `missing`
        if handler.selector is not None and handler.selector.check(resource)
    ]
