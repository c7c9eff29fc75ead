"""Runs kopf inside our process: stand-alone, no peering, nothing written on any object (semantics 27).

Two kopf operators, because kopf watches either the cluster or some namespaces: pods, nodes, namespaces and priority
classes everywhere, ConfigMaps in our namespace only. `watching_cluster` is a context: kopf's tasks live in it and are
stopped at its end, and only they; kopf's own end would cancel every task of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any, cast

import kopf

from muster_operator.handlers import cluster, config, fastlane
from muster_operator.handlers.memo import Memo
from muster_operator.handlers.relist import relist_forever
from muster_operator.handlers.served import tell_unserved
from muster_operator.link.api.session import KubeSession

#: Seconds kopf gets to close its streams.
STOP_S = 5.0

Tasks = Collection[asyncio.Task[None]]


def framework_settings() -> kopf.OperatorSettings:
    """How we want kopf: silent towards the cluster, patient with it."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.peering.standalone = True
    # No look-out for new kinds: ours are built in, and watching CRDs would need more rights.
    settings.scanning.disabled = True
    settings.watching.chunk_size = 500
    settings.process.ultimate_exiting_timeout = None
    settings.networking.request_timeout = 60
    # An API server that restarts is back in seconds, one that is upgraded in a minute or two. After these a stream is
    # started over, for ever; but what kopf asks at its start (which kinds there are) ends the process.
    settings.networking.error_backoffs = (0.2, 0.5, 1, 2, 2, *[5] * 24)
    settings.execution.default_backoff = 5
    return settings


@asynccontextmanager
async def watching_cluster(memo: Memo, session: KubeSession, namespace: str) -> AsyncIterator[Tasks]:
    """Watch until the block ends; yields the tasks of which none may end before."""
    remove = fastlane.install(fastlane.Lane((cluster.REGISTRY, config.REGISTRY), memo, memo.inbox, session))
    tasks: list[asyncio.Task[None]] = []
    try:
        await tell_unserved(session, memo.inbox)
        if remove is None:
            tasks.append(asyncio.create_task(relist_forever(session, memo.inbox), name="relist"))
        tasks += await _spawn(cluster.REGISTRY, memo, ())
        tasks += await _spawn(config.REGISTRY, memo, (namespace,))
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_S)
        if remove is not None:
            remove()


async def _spawn(registry: kopf.OperatorRegistry, memo: Memo, namespaces: tuple[str, ...]) -> Tasks:
    """Start one kopf operator, in a context of its own: kopf keeps its credentials in a context variable."""
    coroutine = kopf.spawn_tasks(
        registry=registry,
        settings=framework_settings(),
        memo=memo,
        standalone=True,
        clusterwide=not namespaces,
        namespaces=namespaces,
        identity=cast("Any", "muster"),  # else kopf looks up our user's name, which a container may not have
    )
    return await asyncio.create_task(coroutine)
