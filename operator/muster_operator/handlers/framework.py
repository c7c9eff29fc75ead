"""Runs kopf inside our process: stand-alone, no peering, nothing written on any object (semantics 27).

kopf drives: it logs in, runs the startup handlers (which make its settings), discovers resources, and watches them.
Two kopf operators, because kopf watches either the cluster or some namespaces: ConfigMaps in our namespace only, all
else everywhere. `watch` runs both until it is cancelled. Only their own tasks are stopped; kopf's own end would
cancel every task of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final, cast

import kopf

from muster_operator.handlers import cluster, comparison, config, fast_path
from muster_operator.handlers.memo import Memo
from muster_operator.link.api.session import KubeSession
from muster_operator.link.errors import PartEnded
from muster_operator.link.si.current import NEEDED

#: Seconds kopf gets to close its streams.
STOP_S: Final = 5.0

Tasks = Collection[asyncio.Task[None]]


@dataclass(frozen=True, slots=True)
class Watching:
    """What to watch with. `spawned`: called when kopf has started, and with that has taken the process's signals."""

    memo: Memo
    session: KubeSession
    namespace: str
    is_fast: bool = True
    spawned: Callable[[], None] = lambda: None


async def watch(watching: Watching) -> None:
    """Watch until cancelled.

    Raises:
        PartEnded: kopf ended by itself, as it does where it cannot discover resources for two minutes.
    """
    memo, session, inbox = watching.memo, watching.session, watching.memo.inbox
    path = fast_path.FastPath((cluster.REGISTRY, config.REGISTRY), memo, inbox, session)
    fast = fast_path.FAST if watching.is_fast else frozenset[tuple[str, str]]()
    remove = fast_path.install(path, fast)
    compared = NEEDED - {plural for _, plural in fast if remove is not None}
    tasks = [
        asyncio.create_task(comparison.compare_forever(session, inbox, compared), name="comparison"),
        asyncio.create_task(comparison.note_bytes(session, inbox), name="freshness"),
    ]
    try:
        tasks += await _spawn(cluster.REGISTRY, watching, ())
        tasks += await _spawn(config.REGISTRY, watching, (watching.namespace,))
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


async def _spawn(registry: kopf.OperatorRegistry, watching: Watching, namespaces: tuple[str, ...]) -> Tasks:
    """Start one kopf operator, in a context of its own: kopf keeps its credentials in a context variable."""

    async def spawn() -> Tasks:
        tasks = await kopf.spawn_tasks(
            registry=registry,
            memo=watching.memo,
            standalone=True,
            clusterwide=not namespaces,
            namespaces=namespaces,
            identity=cast("Any", "muster"),  # else kopf looks up our user's name, which a container may not have
        )
        watching.spawned()  # before anything else runs, a signal too
        return tasks

    return await asyncio.create_task(spawn())
