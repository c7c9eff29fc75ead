"""What kopf calls for the ConfigMaps of our namespace: a change of one of ours is a new configuration.

A registry of its own: kopf watches these in one namespace, everything else in the whole cluster, so that the operator
may be forbidden to read other people's ConfigMaps.
"""

from __future__ import annotations

from typing import Any, Final

import kopf

from muster_operator.handlers import lifecycle
from muster_operator.handlers.memo import Memo
from muster_operator.link.config.configmaps import NAMES

REGISTRY: Final = kopf.OperatorRegistry()
lifecycle.register(REGISTRY)


@kopf.on.event("", "v1", "configmaps", registry=REGISTRY)
async def observe(event: Any, memo: Memo, **_: Any) -> None:
    """A ConfigMap exists, changed or is gone."""
    name = event["object"]["metadata"]["name"]
    if name in NAMES:
        await memo.reconfigure(name)
