"""Runs kopf with the fast watch path for large resources, and compares the other resources with lists."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Final, cast

import structlog

from muster_operator.handlers import registry
from muster_operator.handlers.registry import HandlerMemo
from muster_operator.kube.kopf_modules import api, errors, kopf, orchestration, queueing, watching
from muster_operator.kube.session import KubeSession
from muster_operator.kube.watch import (
    BACKOFF_S,
    EVENTS_PER_PASS,
    FAILURES,
    Topic,
    WatchListener,
    WatchStream,
    decoded_object,
    decoded_pod,
    pages,
)
from muster_operator.kube.watch import COMPARE_S as WATCH_COMPARE_S
from muster_operator.model.errors import ApiRefused, PartEnded, Unreachable
from muster_operator.runtime.loop import Inbox
from muster_operator.runtime.session import NEEDED

comparison_log = structlog.get_logger("muster.comparison")

log = structlog.get_logger("muster.fast_path")

#: (group, plural) of the resources on the fast path: those with as many objects as nodes, pods or volumes, or more.
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
    """What the fast watch path needs."""

    listener: WatchListener
    session: KubeSession
    compare_s: float = WATCH_COMPARE_S


def missing() -> list[str]:
    """Internals of kopf that the fast path uses and that differ from the expected ones; empty = all as expected."""
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
    if not wrong:
        wrong += _unknown_parameters(queueing.watcher, _WATCHER_PARAMETERS)
        wrong += _unknown_parameters(api.request, _REQUEST_PARAMETERS)
    return wrong


def _unknown_parameters(function: Callable[..., object], expected: tuple[str, ...]) -> list[str]:
    """The function's signature, if its parameters are not the expected ones."""
    actual = tuple(inspect.signature(function).parameters)
    return [] if set(actual) == set(expected) else [f"{function.__name__}{actual}"]


def install(path: FastPath, fast: Container[tuple[str, str]] = FAST) -> Callable[[], None] | None:
    """Replaces kopf's watcher for the resources in `fast` by the fast path. Returns a function that undoes it.

    Returns None if this version of kopf is not supported.
    """
    wrong = missing()
    if wrong:
        log.warning("unsupported kopf version: fast watch path disabled, using the standard handlers", missing=wrong)
        return None
    slow = queueing.watcher

    async def watcher(*, resource: Any, **kwargs: Any) -> None:
        if (resource.group, resource.plural) in fast:
            topic = Topic(resource, kwargs["namespace"], path.session, path.listener)
            await WatchStream(topic, kwargs["settings"], path.compare_s).run()
        else:
            await _restarted(slow, path.listener, resource, kwargs)

    setattr(queueing, "watcher", watcher)  # noqa: B010 - mypy does not allow assigning to a function

    def uninstall() -> None:
        setattr(queueing, "watcher", slow)  # noqa: B010

    return uninstall


async def _restarted(
    slow: Callable[..., Awaitable[None]], listener: WatchListener, resource: Any, kwargs: Mapping[str, Any]
) -> None:
    """Runs kopf's own watcher, and restarts it after an unexpected response, which would otherwise end the process."""
    failures = 0
    while True:
        try:
            await slow(resource=resource, **kwargs)
        except (*FAILURES, watching.WatchingError, RuntimeError) as error:
            delay_s = BACKOFF_S[min(failures, len(BACKOFF_S) - 1)]
            failures += 1
            listener.stream_broke(resource.plural, str(error))
            log.warning("watch stream restarted", resource=resource.plural, reason=str(error), in_seconds=delay_s)
            await asyncio.sleep(delay_s)


#: Seconds between comparisons. These resources are small, except in a cluster without the fast path.
COMPARE_S: Final = 300.0

#: Seconds between checks of the bytes that watches have received.
CHECK_INTERVAL_S: Final = 10.0

#: Paths of the lists. Resources that pods depend on precede pods.
PATHS: Final = {
    "namespaces": "/api/v1/namespaces",
    "priorityclasses": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "storageclasses": "/apis/storage.k8s.io/v1/storageclasses",
    "csidrivers": "/apis/storage.k8s.io/v1/csidrivers",
    "csistoragecapacities": "/apis/storage.k8s.io/v1/csistoragecapacities",
    "csinodes": "/apis/storage.k8s.io/v1/csinodes",
    "persistentvolumes": "/api/v1/persistentvolumes",
    "persistentvolumeclaims": "/api/v1/persistentvolumeclaims",
    "volumeattachments": "/apis/storage.k8s.io/v1/volumeattachments",
    "nodes": "/api/v1/nodes",
    "pods": "/api/v1/pods",
}

#: The cluster does not have this resource, so that there are no objects.
_NOT_SERVED: Final = 404


async def compare_forever(session: KubeSession, inbox: Inbox, plurals: Iterable[str]) -> None:
    """Lists and compares these resources periodically. A failed list is repeated."""
    due = [plural for plural in PATHS if plural in set(plurals)]
    failures, waiting = 0, list(due)
    while True:
        try:
            while waiting:
                await _compare(session, inbox, waiting[0])
                del waiting[0]
        except (ApiRefused, Unreachable, ValueError) as error:
            delay = BACKOFF_S[min(failures, len(BACKOFF_S) - 1)]
            failures += 1
            comparison_log.warning("a list failed", resource=waiting[0], reason=str(error), in_seconds=delay)
            await asyncio.sleep(delay)
            continue
        failures, waiting = 0, list(due)
        await asyncio.sleep(COMPARE_S)


async def _compare(session: KubeSession, inbox: Inbox, plural: str) -> None:
    inbox.list_begun(plural)
    version, count = "", 0
    decode = decoded_pod if plural == "pods" else decoded_object
    try:
        async with aclosing(pages(session, PATHS[plural])) as stream:
            async for page in stream:
                version = page.version
                for item in page.items:
                    await inbox.watched(plural, None, decode(item))
                    count += 1
                    if not count % EVENTS_PER_PASS:
                        await asyncio.sleep(0)
    except ApiRefused as refused:
        if refused.status != _NOT_SERVED:
            raise
    await inbox.listed(plural, version)


async def note_bytes(session: KubeSession, inbox: Inbox) -> None:
    """Reports watches that received data. kopf does not report bookmarks, which are the only data of idle resources."""
    before: dict[str, int] = {}
    while True:
        for plural, count in session.watched_bytes().items():
            if before.get(plural) != count:
                before[plural] = count
                inbox.record_activity(plural)
        await asyncio.sleep(CHECK_INTERVAL_S)


#: Seconds that kopf has to close its streams.
STOP_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Watching:
    """Parameters of `watch`. `spawned` is called after kopf has started and installed its signal handlers."""

    memo: HandlerMemo
    session: KubeSession
    namespace: str
    is_fast: bool = True
    spawned: Callable[[], None] = lambda: None


async def watch(watching: Watching) -> None:
    """Watches all resources until cancelled.

    Raises:
        PartEnded: kopf ended, for example because it could not discover resources for two minutes.
    """
    session, inbox = watching.session, watching.memo.inbox
    path = FastPath(inbox, session)
    fast = FAST if watching.is_fast else frozenset[tuple[str, str]]()
    remove = install(path, fast)
    compared = NEEDED - {plural for _, plural in fast if remove is not None}
    tasks = [
        asyncio.create_task(compare_forever(session, inbox, compared), name="comparison"),
        asyncio.create_task(note_bytes(session, inbox), name="freshness"),
    ]
    try:
        await _spawn(registry.REGISTRY, watching, (), tasks)
        await _spawn(registry.CONFIGMAP_REGISTRY, watching, (watching.namespace,), tasks)
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            error = None if task.cancelled() else task.exception()
            raise PartEnded(task.get_name(), str(error or "without a reason")) from error
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=STOP_S)
        if remove is not None:
            remove()


async def _spawn(
    registry: kopf.OperatorRegistry, watching: Watching, namespaces: tuple[str, ...], tasks: list[asyncio.Task[None]]
) -> None:
    """Starts a kopf operator in its own context, because kopf stores its credentials in a context variable.

    Adds its tasks to `tasks`, also when cancelled, so that the caller can end them. Tasks that are left running are
    cancelled all at once when the event loop closes, and some of them then wait forever.
    """

    async def spawn() -> None:
        tasks.extend(
            await kopf.spawn_tasks(
                registry=registry,
                memo=watching.memo,
                standalone=True,
                clusterwide=not namespaces,
                namespaces=namespaces,
                identity=cast("Any", "muster"),  # otherwise kopf needs a user name, which a container may not have
            )
        )
        watching.spawned()  # before a signal can be handled

    spawning = asyncio.create_task(spawn())
    try:
        await asyncio.shield(spawning)
    finally:
        while not spawning.done():  # also if cancelled again
            with suppress(asyncio.CancelledError):
                await asyncio.wait({spawning})
