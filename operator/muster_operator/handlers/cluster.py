"""What kopf calls for pods, nodes, namespaces, priority classes, storage: each hands the object to the agent's inbox.

`on.event` only, no return value, no patch, no body. kopf feeds them through its queues; those in `fast_path.FAST` are
fed past the queues unless `MUSTER_FAST_PATH` is off.
"""

from __future__ import annotations

from typing import Any, Final

import kopf

from muster_operator.handlers import lifecycle
from muster_operator.handlers.memo import Memo

REGISTRY: Final = kopf.OperatorRegistry()
lifecycle.register(REGISTRY)


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
async def observe(event: Any, resource: kopf.Resource, memo: Memo, **_: Any) -> None:
    """Something exists, changed or is gone."""
    await memo.inbox.watched(resource.plural, event["type"], event["object"])
