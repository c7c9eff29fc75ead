"""Runs the parts of the operator until they are stopped."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import structlog

from muster_operator.handlers.framework import Watching, watch
from muster_operator.handlers.registry import HandlerMemo
from muster_operator.kube.leadership import LeaderLabel, Leading
from muster_operator.kube.secrets import SigningSecret
from muster_operator.kube.watch import WatchFreshness
from muster_operator.kube.write_queue import Pool
from muster_operator.model import messages
from muster_operator.model.errors import LinkError, PartEnded
from muster_operator.runtime.conflicts import ConflictDetector, NameLeases
from muster_operator.runtime.loop import Loop
from muster_operator.si.session import CoreLink
from muster_operator.webhook.service import Admission

log = structlog.get_logger("muster")

#: Seconds that writes in flight get at the end; the kubelet kills 30 s after SIGTERM.
DRAIN_S: Final = 10.0

#: Seconds a goodbye to the core may take.
UNREGISTER_TIMEOUT_S: Final = 2.0

#: Seconds that giving back the lease may take, and those of the scheduler names; they run out anyway.
RELEASE_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Parts:
    """What runs next to kopf's tasks. `admission`, `names`, `conflict_detector`, `mark`, `signing`: None = off."""

    loop: Loop
    pool: Pool
    core: CoreLink
    memo: HandlerMemo
    admission: Admission | None = None
    names: NameLeases | None = None
    conflict_detector: ConflictDetector | None = None
    mark: LeaderLabel | None = None
    signing: SigningSecret | None = None


async def serve(parts: Parts, leading: Leading, watching: Watching, stop: asyncio.Event) -> None:
    """Run all parts until `stop`, then drain: no more events, writes finished, unregistered, the Lease released.

    Who stands by watches and keeps its ledger, so that taking over is a registration and a replay; it answers the API
    server's questions too.
    """
    own = [
        asyncio.create_task(parts.loop.run(), name="agent"),
        asyncio.create_task(leading.run(), name="leadership"),
        asyncio.create_task(_write(parts.pool, leading), name="writers"),
        asyncio.create_task(
            run_sessions(parts.core, parts.memo.inbox.freshness, leading, parts.names, parts.signing), name="session"
        ),
        asyncio.create_task(hold_while_stale(parts.memo.inbox.freshness, parts.pool, leading), name="freshness"),
    ]
    if parts.names is not None:
        own.append(asyncio.create_task(_leading(leading, parts.names.run), name="scheduler names"))
    if parts.conflict_detector is not None:
        own.append(asyncio.create_task(_leading(leading, parts.conflict_detector.run), name="conflict detection"))
    if parts.signing is not None:
        own.append(asyncio.create_task(parts.signing.run(), name="signing"))
    if parts.mark is not None:
        own.append(asyncio.create_task(_leading(leading, parts.mark.run), name="mark"))
    if parts.admission is not None:
        own.append(asyncio.create_task(parts.admission.run(), name="admission"))
    stopped = asyncio.create_task(stop.wait(), name="stop")
    watches = asyncio.create_task(watch(replace(watching, spawned=lambda: stop_on_signals(stop))), name="watches")
    try:
        done, _ = await asyncio.wait({stopped, watches, *own}, return_when=asyncio.FIRST_COMPLETED)
        await _ended(watches)
        _raise_ends(done - {stopped})
        parts.loop.drain()
        if leading.begun.is_set():
            log.info("stopping: finishing the writes in flight", **parts.pool.depths())
            with suppress(TimeoutError):
                await asyncio.wait_for(parts.pool.drained(), DRAIN_S)
    finally:
        if leading.begun.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(parts.core.leave(), UNREGISTER_TIMEOUT_S)
        for task in (stopped, watches, *own):
            task.cancel()
        await asyncio.wait({stopped, watches, *own})
        with suppress(TimeoutError):
            await asyncio.wait_for(leading.release(), RELEASE_S)
        if parts.names is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(parts.names.give_back(), RELEASE_S)


async def _ended(task: asyncio.Task[None]) -> None:
    """Cancel it, and wait until it has ended."""
    task.cancel()
    await asyncio.wait({task})


async def _write(pool: Pool, leading: Leading) -> None:
    """Write from when we lead on, first that we do."""
    await leading.begun.wait()
    for event in leading.announcements():
        pool.submit(event)
    await pool.run()


async def run_sessions(
    core: CoreLink,
    freshness: WatchFreshness,
    leading: Leading,
    names: NameLeases | None = None,
    signing: SigningSecret | None = None,
) -> None:
    """Serve the core once we lead, hold our scheduler names, know the cluster and have the keys to verify pods with."""
    await leading.begun.wait()
    if names is not None:
        await names.held.wait()
    await freshness.all_fresh()
    if signing is not None:
        await signing.ready()
    await core.run()


async def hold_while_stale(freshness: WatchFreshness, pool: Pool, leading: Leading) -> None:
    """While leading, pause decisions when watches are stale, report it, and resume when they deliver again."""
    await leading.begun.wait()
    while True:
        await freshness.until_stale()
        note = messages.watches_stale(freshness.stale)
        log.warning("decisions paused", reason=note.text)
        for event in leading.events(note):
            pool.submit(event)
        await freshness.until_fresh()
        pool.wake()
        log.info("decisions resumed")
        for event in leading.events(messages.watches_fresh()):
            pool.submit(event)


async def _leading(leading: Leading, work: Callable[[], Awaitable[None]]) -> None:
    """Do it from when we lead on."""
    await leading.begun.wait()
    await work()


def _raise_ends(done: Iterable[asyncio.Task[object]]) -> None:
    """A part that ended by itself ends the operator, with its own words if it has any.

    Raises:
        LinkError: one ended.
    """
    for task in done:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, LinkError):
            raise error
        raise PartEnded(task.get_name(), str(error or "without a reason")) from error


def stop_on_signals(stop: asyncio.Event) -> None:
    """SIGTERM and SIGINT set `stop`; elsewhere than in the main thread there are no signals."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
