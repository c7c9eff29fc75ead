"""The kopf handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import kopf

from muster_operator.config.configmaps import NAMES
from muster_operator.kube.session import KubeSession
from muster_operator.kube.watch import SILENT_S
from muster_operator.runtime.inbox import Inbox


@dataclass(frozen=True, slots=True)
class HandlerMemo:
    """kopf copies it per object; what it refers to is shared.

    `reconfigure` takes note that a ConfigMap of that name changed.
    """

    inbox: Inbox
    session: KubeSession
    reconfigure: Callable[[str], Awaitable[None]]


def register(registry: kopf.OperatorRegistry) -> None:
    """Have kopf call these, for the resources of that registry."""
    kopf.on.startup(registry=registry)(configure)
    kopf.on.login(registry=registry)(log_in)


async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    """Configure kopf to write nothing to the cluster, and to retry failed requests."""
    settings.posting.enabled = False
    settings.peering.standalone = True
    # No watch for new kinds: ours are built in, and watching CRDs would need more rights.
    settings.scanning.disabled = True
    settings.watching.chunk_size = 500
    settings.watching.inactivity_timeout = SILENT_S
    settings.process.ultimate_exiting_timeout = None
    settings.networking.request_timeout = 60
    # An API server that restarts is back in seconds, one that is upgraded in a minute or two. After these a stream, or
    # the discovery of resources at the start, is begun again.
    settings.networking.error_backoffs = (0.2, 0.5, 1, 2, 2, *[5] * 24)
    settings.execution.default_backoff = 5


async def log_in(memo: HandlerMemo, **_: Any) -> kopf.AiohttpSession:
    """Our own session: one set of connections and credentials for kopf and for all that the operator asks itself."""
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
    """Something exists, changed or is gone."""
    await memo.inbox.watched(resource.plural, event["type"], event["object"])


CONFIGMAP_REGISTRY: Final = kopf.OperatorRegistry()


register(CONFIGMAP_REGISTRY)


@kopf.on.event("", "v1", "configmaps", registry=CONFIGMAP_REGISTRY)
async def observe_configmap(event: Any, memo: HandlerMemo, **_: Any) -> None:
    """A ConfigMap exists, changed or is gone."""
    name = event["object"]["metadata"]["name"]
    if name in NAMES:
        await memo.reconfigure(name)
