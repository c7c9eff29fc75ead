"""kopf's settings, its login, its handler of ConfigMaps, and how it runs beside the other parts of the operator.

kopf is used through its public interface only. It reads the ConfigMaps of Muster; `kube/watch` reads all other
resources (docs/internals/adr, number 0004). kopf may end at any time, for example after an unexpected response to its
watch. It is then started again, and lists the ConfigMaps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any, Final, cast

import structlog

from muster_operator.config.settings import CONFIG_MAP_NAMES
from muster_operator.kube.kopf_modules import kopf
from muster_operator.kube.session import KubeSession
from muster_operator.kube.watch import BACKOFF_S, SILENT_S

log = structlog.get_logger("muster.kopf")

#: Seconds that kopf has to close its streams.
STOP_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class HandlerMemo:
    """Objects that handlers use. `reconfigure` is called with the name of a changed ConfigMap in `namespace`."""

    session: KubeSession
    namespace: str
    reconfigure: Callable[[str], Awaitable[None]]


REGISTRY: Final = kopf.OperatorRegistry()


@kopf.on.startup(registry=REGISTRY)
async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    """Configures kopf to write nothing to the cluster."""
    settings.posting.enabled = False
    settings.peering.standalone = True
    # ConfigMaps are built in. Watching CustomResourceDefinitions would need more permissions.
    settings.scanning.disabled = True
    settings.watching.inactivity_timeout = SILENT_S
    settings.process.ultimate_exiting_timeout = None
    settings.networking.request_timeout = 60
    settings.networking.error_backoffs = BACKOFF_S


@kopf.on.login(registry=REGISTRY)
async def log_in(memo: HandlerMemo, **_: Any) -> kopf.ConnectionInfo:
    """Returns the operator's credentials. kopf requests them at its start and after a rejection."""
    return memo.session.credentials()


@kopf.on.event("", "v1", "configmaps", registry=REGISTRY)
async def observe_configmap(event: Any, memo: HandlerMemo, **_: Any) -> None:
    """Reports a changed ConfigMap of Muster."""
    name = event["object"]["metadata"]["name"]
    if name in CONFIG_MAP_NAMES:
        await memo.reconfigure(name)


async def run(memo: HandlerMemo, started: Callable[[], None] = lambda: None) -> None:
    """Runs kopf until cancelled, and starts it again after it has ended.

    `started` is called after each start, when kopf has installed its signal handlers.
    """
    failures = 0
    while True:
        reason = await _run_once(memo, started)
        delay_s = BACKOFF_S[min(failures, len(BACKOFF_S) - 1)]
        failures += 1
        log.warning("kopf ended, starting it again", reason=reason, in_seconds=delay_s)
        await asyncio.sleep(delay_s)


async def _run_once(memo: HandlerMemo, started: Callable[[], None]) -> str:
    """Runs kopf until one of its tasks ends, and returns the reason."""

    async def spawn() -> Collection[asyncio.Task[None]]:
        tasks = await kopf.spawn_tasks(
            registry=REGISTRY,
            memo=memo,
            standalone=True,
            namespaces=(memo.namespace,),
            identity=cast("Any", "muster"),  # otherwise kopf needs a user name, which a container may not have
        )
        started()  # before a signal can be handled
        return tasks

    spawning = asyncio.create_task(spawn())
    try:
        await asyncio.wait(await asyncio.shield(spawning), return_when=asyncio.FIRST_COMPLETED)
    finally:
        # Tasks that are left running are cancelled when the event loop closes, and some of them then wait forever.
        await asyncio.wait({spawning})
        tasks = spawning.result()
        for task in tasks:
            task.cancel()
        done, _ = await asyncio.wait(tasks, timeout=STOP_S)
        errors = [task.exception() for task in done if not task.cancelled()]
    return "; ".join(sorted({str(error) or type(error).__name__ for error in errors if error is not None}))
