"""Runs the parts of the operator until they are stopped, then drains them."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import structlog

from muster_operator.handlers import kopf_operator
from muster_operator.handlers.kopf_operator import HandlerMemo
from muster_operator.kube.leadership import LeaderElection, LeaderLabel
from muster_operator.kube.secrets import SigningSecret
from muster_operator.kube.watch import WatchFreshness, streams
from muster_operator.kube.write_queue import Pool
from muster_operator.model import messages
from muster_operator.model.errors import LinkError, PartEnded
from muster_operator.runtime.conflicts import ConflictDetector, NameLeases
from muster_operator.runtime.loop import Inbox, Loop
from muster_operator.runtime.reconfigure import Reconfigurer
from muster_operator.si.session import CoreLink
from muster_operator.webhook.service import Admission

log = structlog.get_logger("muster")

#: Seconds for writes in flight at the end. The kubelet kills the process 30 s after SIGTERM.
DRAIN_S: Final = 10.0

#: Seconds for the parts to end after their cancellation.
END_S: Final = 5.0

#: Seconds for unregistering from the core.
UNREGISTER_TIMEOUT_S: Final = 2.0

#: Seconds until a part that failed starts again.
RESTART_S: Final = 60.0

#: Seconds for releasing the Leases of the leader and of the scheduler names. They also expire.
RELEASE_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the operator. The optional ones are None if they are disabled."""

    loop: Loop
    inbox: Inbox
    pool: Pool
    core: CoreLink
    memo: HandlerMemo
    configuration: Reconfigurer
    admission: Admission | None = None
    names: NameLeases | None = None
    has_devices: bool = False
    conflict_detector: ConflictDetector | None = None
    mark: LeaderLabel | None = None
    signing: SigningSecret | None = None
    end_tracing: Callable[[], Awaitable[None]] | None = None


async def serve(parts: Parts, leading: LeaderElection, stop: asyncio.Event) -> None:
    """Runs all parts until `stop`, then handles no more events, finishes writes, unregisters and releases the Lease.

    A standby watches and keeps its state, so that it can take over with a registration and a recovery. It also answers
    admission requests.
    """
    own = [
        asyncio.create_task(parts.loop.run(), name="agent"),
        asyncio.create_task(leading.run(), name="leadership"),
        asyncio.create_task(_write(parts.pool, leading), name="writers"),
        asyncio.create_task(
            run_sessions(parts.core, parts.inbox.freshness, leading, parts.names, parts.signing), name="session"
        ),
        asyncio.create_task(hold_while_stale(parts.inbox.freshness, parts.pool, leading), name="freshness"),
    ]
    own.append(asyncio.create_task(parts.configuration.run(leading.begun), name="configuration"))
    if parts.names is not None:
        own.append(asyncio.create_task(_leading(leading, parts.names.run), name="scheduler names"))
    if parts.conflict_detector is not None:
        own.append(asyncio.create_task(_leading(leading, parts.conflict_detector.run), name="conflict detection"))
    if parts.signing is not None:
        own.append(asyncio.create_task(parts.signing.run(), name="signing"))
    if parts.mark is not None:
        mark = partial(restarted, "mark", parts.mark.run)
        own.append(asyncio.create_task(_leading(leading, mark), name="mark"))
    if parts.admission is not None:
        own.append(asyncio.create_task(parts.admission.run(), name="admission"))
    stopped = asyncio.create_task(stop.wait(), name="stop")
    watches = [
        asyncio.create_task(stream.run(), name=f"watch of {stream.plural}")
        for stream in streams(parts.memo.session, parts.inbox, has_devices=parts.has_devices)
    ]
    kopf = asyncio.create_task(kopf_operator.run(parts.memo, lambda: stop_on_signals(stop)), name="kopf")
    tasks, done = {stopped, kopf, *watches, *own}, set[asyncio.Task[Any]]()
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        await _end({kopf, *watches})
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
        await _end(tasks)
        _log_errors(tasks - done)
        with suppress(TimeoutError):
            await asyncio.wait_for(leading.release(), RELEASE_S)
        if parts.names is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(parts.names.give_back(), RELEASE_S)
        if parts.end_tracing is not None:  # last, because it waits for the collector
            await _end_tracing(parts.end_tracing)


async def _end_tracing(end: Callable[[], Awaitable[None]]) -> None:
    """Sends the last spans. An error must not hide why the operator stops."""
    try:
        await end()
    except Exception:
        log.exception("the last traces were not exported")


async def _end(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancels the tasks and waits for their end, but not longer than END_S, because a standby waits for the Lease."""
    for task in tasks:
        if not task.cancelling():  # a second cancellation would interrupt its end
            task.cancel()
    _, remaining = await asyncio.wait(tasks, timeout=END_S)
    if remaining:
        log.warning("parts of the operator did not end in time", parts=sorted(task.get_name() for task in remaining))


def _log_errors(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Logs why parts have failed while the operator stopped."""
    for task in tasks:
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            log.error("a part of the operator failed while it stopped", part=task.get_name(), exc_info=error)


async def _write(pool: Pool, leading: LeaderElection) -> None:
    """Starts the writers when this replica leads, first with the events about the election."""
    await leading.begun.wait()
    await pool.run(leading.announcements())


async def run_sessions(
    core: CoreLink,
    freshness: WatchFreshness,
    leading: LeaderElection,
    names: NameLeases | None = None,
    signing: SigningSecret | None = None,
) -> None:
    """Connects to the core once this replica leads, holds its names, and has complete lists and signing keys."""
    await leading.begun.wait()
    if names is not None:
        await names.held.wait()
    await freshness.all_fresh()
    if signing is not None:
        await signing.ready()
    await core.run()


async def hold_while_stale(freshness: WatchFreshness, pool: Pool, leading: LeaderElection) -> None:
    """Reports, while this replica leads, that decisions pause because watches are stale, and that they resume."""
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


async def restarted(part: str, work: Callable[[], Awaitable[None]], pause_s: float = RESTART_S) -> None:
    """Runs a part that scheduling continues without, again after an exception. A LinkError ends the operator."""
    while True:
        try:
            return await work()
        except LinkError:
            raise
        except Exception:
            log.exception("a part of the operator failed, starting it again", part=part, in_seconds=pause_s)
        await asyncio.sleep(pause_s)


async def _leading(leading: LeaderElection, work: Callable[[], Awaitable[None]]) -> None:
    """Runs the work once this replica leads."""
    await leading.begun.wait()
    await work()


def _raise_ends(done: Iterable[asyncio.Task[object]]) -> None:
    """Ends the operator with the error of a part that has ended.

    Raises:
        LinkError: a part has ended.
    """
    for task in done:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, LinkError):
            raise error
        raise PartEnded(task.get_name(), str(error or "without a reason")) from error


def stop_on_signals(stop: asyncio.Event) -> None:
    """Lets SIGTERM and SIGINT set `stop`. Does nothing outside the main thread, where signals cannot be handled."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
