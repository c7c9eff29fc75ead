"""The fast lane: hot resources skip kopf's queue and worker per object.

kopf's machinery handles about 1,000 pod events a second and core; a straight loop over a watch that kopf asked for
handles 18,000 and more (architecture 4). `install` puts that loop (`handlers.stream`) where kopf starts its
watchers, for the resources in `HOT`; everything else goes kopf's way. The handlers are the ones registered with
`@kopf.on.event`, called with the same `event`; they get no body, patch or logger here, and must not ask for them.

All names of kopf that this relies on are in `missing()`; a guard test pins them, and where one is missing kopf does
the work alone and `handlers.relist` makes the lists.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, cast

import kopf
import structlog
from kopf._cogs.clients import api, errors
from kopf._core.reactor import orchestration, queueing

from muster_operator.handlers.stream import RELIST_S, Handler, Listener, Stream, Topic
from muster_operator.link.api.session import KubeSession

log = structlog.get_logger("muster.fastlane")

#: (group, plural) of the resources that take the fast lane.
HOT: Final = frozenset(
    {
        ("", "pods"),
        ("", "nodes"),
        ("", "namespaces"),
        ("", "configmaps"),
        ("scheduling.k8s.io", "priorityclasses"),
        ("", "persistentvolumes"),
        ("", "persistentvolumeclaims"),
        ("storage.k8s.io", "storageclasses"),
        ("storage.k8s.io", "csinodes"),
        ("storage.k8s.io", "csidrivers"),
        ("storage.k8s.io", "csistoragecapacities"),
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
class Lane:
    """What the straight loop needs: the handlers, their memo, and who is told of complete lists."""

    registries: tuple[kopf.OperatorRegistry, ...]
    memo: object
    listener: Listener
    session: KubeSession
    relist_s: float = RELIST_S


def missing() -> list[str]:
    """Names and signatures of kopf that the lane relies on and that are not as expected; empty = all there."""
    wrong: list[str] = []
    for owner, name in (
        (orchestration, "queueing"),
        (queueing, "watcher"),
        (api, "request"),
        (errors, "APIError"),
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
    """Differences between the parameters a function has and the ones the lane passes or takes."""
    actual = tuple(inspect.signature(function).parameters)
    return [] if set(actual) == set(expected) else [f"{function.__name__}{actual}"]


def install(lane: Lane) -> Callable[[], None] | None:
    """Put the straight loop in place of kopf's watcher; returns what takes it out again, None = not possible here."""
    wrong = missing()
    if wrong:
        log.warning("kopf changed: no fast lane, pods and nodes go kopf's slow way", missing=wrong)
        return None
    slow = queueing.watcher

    async def watcher(*, resource: Any, **kwargs: Any) -> None:
        if (resource.group, resource.plural) in HOT:
            handlers = tuple(handlers_for(lane.registries, resource))
            topic = Topic(resource, kwargs["namespace"], lane.session, handlers, lane.memo, lane.listener)
            await Stream(topic, kwargs["settings"], lane.relist_s).run()
        else:
            await slow(resource=resource, **kwargs)

    setattr(queueing, "watcher", watcher)  # noqa: B010 - mypy sees a function there, and so it stays

    def uninstall() -> None:
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
