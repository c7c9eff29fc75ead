"""The kopf handlers and settings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from muster_operator.config.settings import CONFIG_MAP_NAMES
from muster_operator.kube.kopf_modules import kopf
from muster_operator.kube.session import KubeSession
from muster_operator.kube.watch import SILENT_S
from muster_operator.runtime.loop import Inbox


@dataclass(frozen=True, slots=True)
class HandlerMemo:
    """Objects that handlers use. kopf copies the memo per object, but not what it refers to.

    `reconfigure` is called with the name of a changed ConfigMap.
    """

    inbox: Inbox
    session: KubeSession
    reconfigure: Callable[[str], Awaitable[None]]


def register(registry: kopf.OperatorRegistry) -> None:
    """Registers the startup and login handlers."""
    kopf.on.startup(registry=registry)(configure)
    kopf.on.login(registry=registry)(log_in)


async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    """Configure kopf to write nothing to the cluster, and to retry failed requests."""
    settings.posting.enabled = False
    settings.peering.standalone = True
    # The watched kinds are built in. Watching CustomResourceDefinitions would need more permissions.
    settings.scanning.disabled = True
    settings.watching.chunk_size = 500
    settings.watching.inactivity_timeout = SILENT_S
    settings.process.ultimate_exiting_timeout = None
    settings.networking.request_timeout = 60
    # An API server restarts in seconds and is upgraded in one or two minutes. After these attempts a stream, or the
    # discovery of resources at the start, begins again.
    settings.networking.error_backoffs = (0.2, 0.5, 1, 2, 2, *[5] * 24)
    settings.execution.default_backoff = 5


async def log_in(memo: HandlerMemo, **_: Any) -> kopf.AiohttpSession:
    """Returns a session with the operator's connections and credentials."""
    return await memo.session.for_streams()


REGISTRY: Final = kopf.OperatorRegistry()


register(REGISTRY)


@kopf.on.event("", "v1", "pods", registry=REGISTRY)
@kopf.on.event("", "v1", "nodes", registry=REGISTRY)
@kopf.on.event("", "v1", "namespaces", registry=REGISTRY)
@kopf.on.event("scheduling.k8s.io", "v1", "priorityclasses", registry=REGISTRY)
@kopf.on.event("", "v1", "persistentvolumes", registry=REGISTRY)
@kopf.on.event("", "v1", "persistentvolumeclaims", registry=REGISTRY)
@kopf.on.event("storage.k8s.io", "v1", "storageclasses", registry=REGISTRY)
@kopf.on.event("storage.k8s.io", "v1", "csinodes", registry=REGISTRY)
@kopf.on.event("storage.k8s.io", "v1", "csidrivers", registry=REGISTRY)
@kopf.on.event("storage.k8s.io", "v1", "csistoragecapacities", registry=REGISTRY)
@kopf.on.event("storage.k8s.io", "v1", "volumeattachments", registry=REGISTRY)
async def observe(event: Any, resource: kopf.Resource, memo: HandlerMemo, **_: Any) -> None:
    """Passes a watch event to the inbox."""
    await memo.inbox.watched(resource.plural, event["type"], event["object"])


CONFIGMAP_REGISTRY: Final = kopf.OperatorRegistry()


register(CONFIGMAP_REGISTRY)


@kopf.on.event("", "v1", "configmaps", registry=CONFIGMAP_REGISTRY)
async def observe_configmap(event: Any, memo: HandlerMemo, **_: Any) -> None:
    """Reports a changed ConfigMap of Muster."""
    name = event["object"]["metadata"]["name"]
    if name in CONFIG_MAP_NAMES:
        await memo.reconfigure(name)
