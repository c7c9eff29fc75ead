"""Applies changed ConfigMaps and reports findings as events.

Queues and settings are independent: the one that is invalid is not applied, and a Warning event on the ConfigMap gives
the reason, once per content. Warnings about unknown keys and about values that need a restart are reported once per
version.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

import structlog
from msgspec.structs import replace as structs_replace

from muster_operator.config import catalog
from muster_operator.config.settings import ConfigSource, Configuration, merge, parse, read_config_maps, source
from muster_operator.kube import commands
from muster_operator.kube.commands import Series
from muster_operator.kube.session import KubeSession
from muster_operator.model import messages
from muster_operator.model.cluster_events import ClusterEvent, PlacementChosen
from muster_operator.model.commands import Command, PostEvent
from muster_operator.model.errors import ApiRefused, BadSetting, ConfigurationRejected, Unreachable
from muster_operator.runtime import logs
from muster_operator.si.session import CoreLink
from muster_operator.translate.values import Raw
from muster_si import muster_pb2
from muster_si.api import AdministrationAPI
from muster_si.errors import Refused, SchedulerInterfaceError, SessionLost

log = structlog.get_logger("muster.config")

#: Seconds between attempts to read and validate a change; doubled after each.
_FIRST_WAIT_S: Final = 0.2
_LONGEST_WAIT_S: Final = 5.0

#: Seconds between two comparisons with the ConfigMaps.
COMPARE_S: Final = 3600.0


def warning_event(namespace: str, where: ConfigSource, findings: Iterable[str]) -> PostEvent:
    """The event of a ConfigMap that was applied with warnings."""
    return messages.configuration_warning("; ".join(findings)).about(namespace, where.name, where.uid)


async def report_end(session: KubeSession, namespace: str, error: ConfigurationRejected) -> None:
    """Posts the reason why the operator cannot start on the ConfigMap, if there is one."""
    try:
        where = source(await read_config_maps(session, namespace), error.key)
        if where is not None:
            event = messages.cannot_start(str(error)).about(namespace, where.name, where.uid)
            series, now = Series(), datetime.now(tz=UTC)
            request = commands.event(event, series.start(event, now), series.instance, now)
            # Every replica posts it, because a replica that cannot start never becomes leader.
            await session.send(structs_replace(request, needs_leadership=False))
    except (ApiRefused, Unreachable) as untold:
        log.warning("the rejection could not be reported on the ConfigMap", reason=str(untold))


@dataclass(frozen=True, slots=True)
class ChangeReceivers:
    """Receivers of a change: users (by events) and the controller."""

    users: Callable[[Command], None]
    controller: Callable[[ClusterEvent], None]


class Reconfigurer:
    """Reads the ConfigMaps again after a change. Settings that need a restart stay unchanged, as in YuniKorn."""

    def __init__(
        self,
        session: KubeSession,
        namespace: str,
        core: CoreLink,
        administration: AdministrationAPI,
        receivers: ChangeReceivers,
    ) -> None:
        self._session, self._namespace, self._core, self._receivers = session, namespace, core, receivers
        self._administration = administration
        self._at_start = core.configuration.extra
        self._one_at_a_time = asyncio.Lock()
        self._reported: dict[ConfigSource, list[str]] = {}
        #: Why each part is rejected, of this content.
        self._rejected: dict[tuple[str, ConfigSource], str] = {}
        self._content: Sequence[object] = ()

    async def run(self, leads: asyncio.Event) -> None:
        """Compares the configuration with the ConfigMaps every hour, because a watch event can be lost.

        A new leader compares too, because the events of a standby are not posted.
        """
        await asyncio.gather(self._begin_leading(leads), self._compare_hourly())

    async def _begin_leading(self, leads: asyncio.Event) -> None:
        await leads.wait()
        self._reported.clear()
        self._rejected.clear()
        await self._compare()

    async def _compare_hourly(self) -> None:
        while True:
            await asyncio.sleep(COMPARE_S)
            await self._compare()

    async def _compare(self) -> None:
        if self._core.configuration.hot_refresh:
            await self.changed("")

    async def changed(self, name: str) -> None:
        """Handles a ConfigMap that was created, changed or deleted."""
        async with self._one_at_a_time:
            if not self._core.configuration.hot_refresh:
                log.info("a ConfigMap changed; hot refresh is disabled, so a restart is required", configmap=name)
                return
            wait_s, known = _FIRST_WAIT_S, ""
            while (problem := await self._problem(known)) is not None:
                log.warning("a change was not read or not applied, retrying", reason=problem, in_seconds=wait_s)
                await asyncio.sleep(wait_s)
                wait_s, known = min(_LONGEST_WAIT_S, 2 * wait_s), problem

    async def _problem(self, known: str) -> str | None:
        """Reads and applies the ConfigMaps. Returns why this failed. An internal error must not end the operator.

        `known`: why the last attempt failed.
        """
        try:
            await self._take(await read_config_maps(self._session, self._namespace))
        except (ApiRefused, Unreachable, SessionLost) as error:
            return str(error)
        except Exception as error:
            problem = f"internal error: {error!r}"
            if problem != known:
                log.exception("the configuration was not applied")
            return problem
        return None

    async def _take(self, config_maps: tuple[Raw, ...]) -> None:
        """Applies the queues and the settings of the ConfigMaps. Reports what is rejected.

        Raises:
            SessionLost: the core did not validate them. Nothing has changed.
        """
        old = self._core.configuration
        file = f"{old.policy_group}{catalog.QUEUES}"
        entries, problems = merge(config_maps)
        rejected = [catalog.Finding(problem.key, str(problem)) for problem in problems]
        try:
            new = parse(entries, old.policy_group)
        except BadSetting as error:
            rejected.append(catalog.Finding(error.key, str(error)))
            new = replace(old, queues=entries.get(file, ""))
        findings, warnings = (
            [catalog.Finding(_key_of(line, entries) or file, line) for line in lines]
            for lines in await self._validated(new)
        )
        rejected += findings
        if file not in entries and not catalog.is_empty(old.queues):
            warnings.append(catalog.Finding(file, f"{file} is missing: the active queues stay until a restart"))
        try:
            await self._replace(_valid_parts(new, old, rejected))
        except Refused as error:
            rejected.append(catalog.Finding(file, error.reason))
        await self._core.report_rejected([finding.line for finding in rejected])
        self._report_rejected(config_maps, rejected)
        self._report_warnings(config_maps, entries, warnings)

    async def _replace(self, new: Configuration) -> None:
        """Applies a configuration unless it is unchanged.

        Raises:
            Refused: the core rejects it.
        """
        if new == self._core.configuration:
            return
        try:
            await self._core.reconfigure(new)
        except Refused:
            raise
        except SchedulerInterfaceError as error:
            log.info("the next session begins with the new configuration", reason=str(error))
        logs.follow(new.log_levels)
        self._receivers.controller(PlacementChosen(new.settings.gang_placement))
        log.info("configuration replaced")

    async def _validated(self, new: Configuration) -> tuple[Sequence[str], Sequence[str]]:
        """The core's errors and warnings.

        Raises:
            SessionLost: the core does not answer.
        """
        request = muster_pb2.ValidateConfigurationRequest(config=new.queues, extraConfig=new.extra)
        try:
            result = await self._administration.validate_configuration(request)
        except Refused as refused:
            log.info("the core does not validate configurations", reason=refused.reason)
            return (), ()
        return result.findings, result.warnings

    def _report_rejected(self, config_maps: tuple[Raw, ...], rejected: Sequence[catalog.Finding]) -> None:
        """Reports why parts are rejected, unless this was reported for the same content."""
        content = [(config_map.get("data"), config_map.get("binaryData")) for config_map in config_maps]
        before = self._rejected if content == self._content else {}
        self._content, self._rejected = content, {}
        for part in ("queues", "settings"):
            found = [finding for finding in rejected if _is_queues(finding) is (part == "queues")]
            for where, lines in _by_source(config_maps, found).items():
                self._rejected[part, where] = reason = "; ".join(lines)
                if before.get((part, where)) == reason:
                    continue
                log.warning(
                    "configuration rejected, the previous one remains active",
                    part=part,
                    configmap=where.name,
                    reason=reason,
                )
                event = messages.configuration_rejected(part, reason)
                self._receivers.users(event.about(self._namespace, where.name, where.uid))

    def _report_warnings(
        self, config_maps: tuple[Raw, ...], entries: Mapping[str, str], of_core: Iterable[catalog.Finding]
    ) -> None:
        """Reports warnings on each ConfigMap, unless they equal those of the last report."""
        findings = [*of_core, *catalog.setting_warnings(entries), *catalog.awaiting_restart(self._at_start, entries)]
        by_source = _by_source(config_maps, findings)
        for where, warnings in by_source.items():
            if self._reported.get(where) != warnings:
                log.warning("configuration applied with warnings", configmap=where.name, findings=warnings)
                self._receivers.users(warning_event(self._namespace, where, warnings))
        self._reported = by_source


def _valid_parts(new: Configuration, old: Configuration, rejected: Sequence[catalog.Finding]) -> Configuration:
    """The new configuration without the parts that are rejected. Missing or empty queues leave the active ones."""
    if catalog.is_empty(new.queues) or any(_is_queues(finding) for finding in rejected):
        new = replace(new, queues=old.queues)
    if not all(_is_queues(finding) for finding in rejected):
        return replace(old, queues=new.queues)
    # These settings are read at the start only. With another cluster ID the core would not recognize the operator.
    settings = replace(old.settings, gang_placement=new.settings.gang_placement)
    return replace(new, cluster_id=old.cluster_id, limits=old.limits, settings=settings, withheld=old.withheld)


def _is_queues(finding: catalog.Finding) -> bool:
    """Whether it is about a file of queues, not about a setting."""
    return finding.key.removesuffix(".gz").endswith(catalog.QUEUES)


def _key_of(warning: str, entries: Mapping[str, str]) -> str:
    """The setting that a warning of the core is about; empty if it is about the queues."""
    key = warning.partition(":")[0]
    return key if key in entries else ""


def _by_source(config_maps: tuple[Raw, ...], findings: Iterable[catalog.Finding]) -> dict[ConfigSource, list[str]]:
    found: dict[ConfigSource, list[str]] = defaultdict(list)
    for finding in findings:
        where = source(config_maps, finding.key)
        if where is not None:
            found[where].append(finding.line)
    return dict(found)
