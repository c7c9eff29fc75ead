"""Starts the operator: reads the configuration, creates the parts and runs them until it is stopped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import structlog

from muster_operator.assembly import Options, Ways, assembled, with_admission
from muster_operator.config.configmaps import is_yunikorns, merged, read_config_maps
from muster_operator.config.settings import SCHEDULER_NAMES, Configuration, name_for_pods, parse
from muster_operator.handlers.framework import Watching
from muster_operator.kube.http import PASSING
from muster_operator.kube.leadership import LeaderElection, LeaderLabel, Leadership, NoElection
from muster_operator.kube.provisioning import served_class
from muster_operator.kube.session import Credentials, KubeSession, LeadershipGuard
from muster_operator.model.errors import ApiRefused, ConfigurationRejected, StartupRefused, Uncertain, Unreachable
from muster_operator.runtime import logs
from muster_operator.runtime.conflicts import ConflictDetector, NameLeases, allowed_names
from muster_operator.runtime.health import health_server
from muster_operator.runtime.loop import Loop
from muster_operator.runtime.metrics import Metrics
from muster_operator.runtime.reconfigure import report_end
from muster_operator.serving import serve, stop_on_signals
from muster_si.api import AdministrationAPI, SchedulerAPI

log = structlog.get_logger("muster")


@dataclass(frozen=True, slots=True)
class LeaderReadiness:
    """The readiness of an operator whose parts run. It is computed for each request."""

    leading: LeaderElection
    loop: Loop
    names: NameLeases | None = None

    @property
    def missing(self) -> str:
        """Why the operator is not ready; empty = it is. A standby is ready when it could take over immediately."""
        if self.leading.problem:
            return f"the Lease cannot be read or renewed: {self.leading.problem}"
        if not self.leading.begun.is_set():
            return self.loop.unlisted
        if self.names is not None and not self.names.held.is_set():
            return f"the Leases of scheduler names are not held yet: {self.names.missing}"
        return self.loop.missing

    @property
    def role(self) -> str:
        """The leader if it is another replica, else the reason why decisions wait; empty = they do not.

        Waiting decisions do not make the process unready: its webhook and the core's REST API still respond.
        """
        if self.leading.begun.is_set():
            if self.names is not None and self.names.are_lost:
                return f"not binding, the Leases of scheduler names are not held: {self.names.missing}"
            return self.loop.held
        return f"standing by, {self.leading.holder or 'no replica'} leads"


T = TypeVar("T")
Connect = Callable[[], SchedulerAPI]
Administer = Callable[[], AdministrationAPI]

#: Seconds to wait for an API server that does not answer at start. Then the operator exits with the reason.
API_SERVER_S: Final = 60.0

#: Status codes that a starting API server returns for any request: overloaded, or its authorization is not ready.
MAY_PASS: Final = PASSING | {401, 403}


class Readiness:
    """The readiness for probes. `leader_readiness` is set when the parts run."""

    def __init__(self) -> None:
        self.leader_readiness: LeaderReadiness | None = None

    def missing(self) -> str:
        """Returns why the operator is not ready; empty = it is."""
        return "starting" if self.leader_readiness is None else self.leader_readiness.missing

    def role(self) -> str:
        """Returns the role of this replica as a text; empty = it leads and decides."""
        return "" if self.leader_readiness is None else self.leader_readiness.role


async def run(options: Options, connect: Connect, administer: Administer) -> None:
    """Runs the operator until SIGTERM or SIGINT, then drains and returns.

    Raises:
        LinkError: the configuration does not allow it to run, or a part has ended. The message is one line.
    """
    options.webhook.check()
    stop, readiness, metrics = asyncio.Event(), Readiness(), Metrics()
    stop_on_signals(stop)
    guard = LeadershipGuard(refused=metrics.blocked.inc)
    instance = options.candidacy.identity if options.candidacy else ""
    session = KubeSession(Credentials(), guard, instance=instance, measure=metrics.requested)
    metrics.leader.set_function(lambda: guard.left_s > 0)
    try:
        async with health_server(options.health_port, readiness.missing, metrics, readiness.role):
            configuration = await _unless(stop, configured(session, options.namespace))
            if configuration is None:
                return
            ways = Ways(connect(), administer())
            parts = assembled(configuration, session, metrics, ways, options)
            if options.webhook.is_on:
                parts = with_admission(parts, options, session, ways.administration, metrics)
            leading: LeaderElection = NoElection(guard)
            if options.candidacy is not None:
                candidacy = replace(options.candidacy, serves=configuration.settings.scheduler_names)
                if parts.names is not None and await _unless(stop, _done(parts.names.until_free())) is None:
                    return
                conflict_detector = ConflictDetector(session, candidacy.serves, configuration.withheld)
                parts, leading = (
                    replace(parts, conflict_detector=conflict_detector),
                    Leadership(session, candidacy, guard),
                )
            if options.pod:
                parts = replace(parts, mark=LeaderLabel(session, options.namespace, options.pod, parts.loop.recovered))
            metrics.transitions.set_function(lambda: leading.transitions)
            readiness.leader_readiness = LeaderReadiness(leading, parts.loop, parts.names)
            watching = Watching(parts.memo, session, options.namespace, options.is_fast)
            await serve(parts, leading, watching, stop)
    except ConfigurationRejected as refused:
        await report_end(session, options.namespace, refused)
        raise
    finally:
        await session.close()


async def configured(session: KubeSession, namespace: str) -> Configuration:
    """Reads the configuration. Waits for the API server.

    Raises:
        LinkError: the ConfigMaps are invalid or cannot be read, YuniKorn also runs, or the API server does not answer.
    """
    deadline, wait_s = time.monotonic() + API_SERVER_S, 0.2
    while True:
        try:
            config_maps = await read_config_maps(session, namespace)
            entries = merged(config_maps)
            configuration = parse(entries)
            wanted = configuration.settings.scheduler_names
            names = await allowed_names(session, wanted, are_chosen=SCHEDULER_NAMES in entries)
            provisioning_class = await served_class(session, configuration.settings.provisioning_class)
        except (Unreachable, ApiRefused, Uncertain) as error:
            late = time.monotonic() > deadline
            if isinstance(error, ApiRefused) and (late or error.status not in MAY_PASS):
                raise StartupRefused(f"the configuration cannot be read: {error} (see deploy/rbac.yaml)") from error
            if late and isinstance(error, Uncertain):
                raise StartupRefused(f"cannot determine whether YuniKorn runs: {error}") from error
            if late:
                raise StartupRefused(f"the API server does not answer: {error}") from error
            log.warning("the API server is unavailable, retrying", reason=str(error), in_seconds=wait_s)
            await asyncio.sleep(wait_s)
            wait_s = min(5.0, wait_s * 2)
        else:
            logs.follow(configuration.log_levels)
            name = name_for_pods(entries, names, is_yunikorns=is_yunikorns(config_maps))
            settings = replace(
                configuration.settings,
                scheduler_names=names,
                scheduler_name=name,
                provisioning_class=provisioning_class,
            )
            return replace(configuration, settings=settings, withheld=wanted - names)


async def _done(work: Coroutine[None, None, None]) -> bool:
    """Awaits the work and returns True."""
    await work
    return True


async def _unless(stop: asyncio.Event, work: Coroutine[None, None, T]) -> T | None:
    """Returns the result of the work, or None if the operator is stopped before."""
    working, stopped = asyncio.create_task(work), asyncio.create_task(stop.wait())
    await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if working.done():
        return working.result()
    working.cancel()
    with suppress(asyncio.CancelledError):
        await working
    return None
