"""kopf's settings, its login, its handler of ConfigMaps, and how it runs beside the other parts of the operator.

kopf is used through its public interface only. It reads the ConfigMaps of Muster; `kube/watch` reads all other
resources (docs/internals/adr, number 0004). kopf may end at any time, for example after an unexpected response to its
watch. It is then started again, and lists the ConfigMaps. It may also run without a watch, because it takes status 404
in its discovery for "no such resource": it is also started again if it has not reported any of the existing ConfigMaps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final, cast

import kopf
import structlog

from muster_operator.config.settings import CONFIG_MAP_NAMES
from muster_operator.kube.lists import pages
from muster_operator.kube.session import KubeSession
from muster_operator.kube.watch import BACKOFF_S, FAILURES, SILENT_S
from muster_si.kubeconfig import Access

log = structlog.get_logger("muster.kopf")

#: Seconds that kopf has to close its streams. Less than `serving.END_S`.
STOP_S: Final = 4.0

#: Seconds in which kopf has to report the ConfigMaps of the namespace.
LISTED_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class HandlerMemo:
    """Objects that handlers use. `reconfigure` is called with the name of a changed ConfigMap in `namespace`.

    `listed`: kopf has reported a ConfigMap since its start. `logins`: its sessions since then, which it closes itself.
    """

    session: KubeSession
    namespace: str
    reconfigure: Callable[[str], Awaitable[None]]
    listed: asyncio.Event = field(default_factory=asyncio.Event)
    logins: dict[Access, kopf.AiohttpSession] = field(default_factory=dict)


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
async def log_in(memo: HandlerMemo, **_: Any) -> kopf.AiohttpSession:
    """Returns a session with the operator's credentials. kopf requests it at its start and after a rejection.

    The session of rejected credentials is returned again: kopf recognizes it and ends, instead of requesting another.
    """
    access = await memo.session.access(rejected=next(reversed(memo.logins), None))
    if access not in memo.logins:
        session = memo.session.separate(access)
        memo.logins[access] = kopf.AiohttpSession(server=access.server, aiohttp_session=session)
    return memo.logins[access]


@kopf.on.event("", "v1", "configmaps", registry=REGISTRY)
async def observe_configmap(event: Any, memo: HandlerMemo, **_: Any) -> None:
    """Reports a changed ConfigMap of Muster."""
    memo.listed.set()
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

    memo.listed.clear()
    memo.logins.clear()
    spawning = asyncio.create_task(spawn())
    reason = ""
    try:
        tasks = await asyncio.shield(spawning)
        while not (await asyncio.wait(tasks, timeout=LISTED_S, return_when=asyncio.FIRST_COMPLETED))[0]:
            if not memo.listed.is_set() and await _has_config_maps(memo) and not memo.listed.is_set():
                reason = "it does not watch the ConfigMaps"
                break
        while not await _stop(tasks):
            log.warning("kopf has not ended, waiting until it can start again", in_seconds=STOP_S)
    finally:
        # Tasks that are left running are cancelled when the event loop closes, and some of them then wait forever.
        await asyncio.wait({spawning})
        tasks = spawning.result()
        await _stop(tasks)
    errors = [task.exception() for task in tasks if not task.cancelled()]
    return reason or "; ".join(sorted({str(error) or type(error).__name__ for error in errors if error is not None}))


async def _stop(tasks: Collection[asyncio.Task[None]]) -> bool:
    """Cancels the tasks of kopf and waits for their end. Returns whether all have ended."""
    for task in tasks:
        if not task.cancelling():  # a second cancellation would end a task before its streams
            task.cancel()
    _, remaining = await asyncio.wait(tasks, timeout=STOP_S)
    return not remaining


async def _has_config_maps(memo: HandlerMemo) -> bool:
    """Whether the namespace has ConfigMaps. False if they cannot be read."""
    try:
        async with aclosing(pages(memo.session, f"/api/v1/namespaces/{memo.namespace}/configmaps")) as stream:
            return bool((await anext(stream)).items)
    except FAILURES:
        return False
