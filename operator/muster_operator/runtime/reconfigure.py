"""Applies changed ConfigMaps and reports findings as events.

A configuration that is invalid is not applied, and a Warning event on the ConfigMap gives the reason. Warnings about
unknown keys and about values that need a restart are reported once per version.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import structlog
from msgspec.structs import replace as structs_replace

from muster_operator.config import catalog
from muster_operator.config.settings import ConfigSource, Configuration, merged, parse, read_config_maps, source
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
from muster_si.errors import RefusalCode, Refused, SchedulerInterfaceError

log = structlog.get_logger("muster.config")


def refusal(namespace: str, where: ConfigSource, reason: str) -> PostEvent:
    """The event of a ConfigMap that was rejected."""
    return messages.configuration_rejected(reason).about(namespace, where.name, where.uid)


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

    async def changed(self, name: str) -> None:
        """Handles a ConfigMap that was created, changed or deleted."""
        async with self._one_at_a_time:
            if not self._core.configuration.hot_refresh:
                log.info("a ConfigMap changed; hot refresh is disabled, so a restart is required", configmap=name)
                return
            try:
                config_maps = await read_config_maps(self._session, self._namespace)
            except (ApiRefused, Unreachable) as error:
                log.warning("the changed ConfigMap could not be read, the old configuration stays", reason=str(error))
                return
            await self._take(config_maps)

    async def _take(self, config_maps: tuple[Raw, ...]) -> None:
        """Applies the ConfigMaps, or rejects them and reports the reason."""
        queues = f"{self._core.configuration.policy_group}{catalog.QUEUES}"
        try:
            entries = merged(config_maps)
            warnings = await self._replace(parse(entries, self._core.configuration.policy_group))
        except BadSetting as error:
            self._refuse(source(config_maps, error.key), str(error))
        except Refused as error:
            self._refuse(source(config_maps, queues), error.reason)
        else:
            of_core = [catalog.Finding(_key_of(warning, entries) or queues, warning) for warning in warnings]
            self._report_warnings(config_maps, entries, of_core)

    async def _replace(self, new: Configuration) -> Sequence[str]:
        """Applies a configuration unless it is unchanged. Returns the warnings of the core.

        Raises:
            Refused: the core rejects it.
        """
        old = self._core.configuration
        # These settings are read at the start only. With another cluster ID the core would not recognize the operator.
        settings = replace(old.settings, gang_placement=new.settings.gang_placement)
        new = replace(new, cluster_id=old.cluster_id, limits=old.limits, settings=settings)
        warnings = await self._validated(new)
        if new == old:
            return warnings
        try:
            await self._core.reconfigure(new)
        except Refused:
            raise
        except SchedulerInterfaceError as error:
            log.info("the next session begins with the new configuration", reason=str(error))
        logs.follow(new.log_levels)
        self._receivers.controller(PlacementChosen(new.settings.gang_placement))
        log.info("configuration replaced")
        return warnings

    async def _validated(self, new: Configuration) -> Sequence[str]:
        """The core's warnings. Empty if the core does not answer, because it validates again at the next session."""
        request = muster_pb2.ValidateConfigurationRequest(config=new.queues, extraConfig=new.extra)
        try:
            result = await self._administration.validate_configuration(request)
        except SchedulerInterfaceError as error:
            log.info("the core did not check the configuration", reason=str(error))
            return ()
        if result.findings:
            raise Refused(RefusalCode.INVALID_ARGUMENT, "; ".join(result.findings))
        return result.warnings

    def _refuse(self, where: ConfigSource | None, reason: str) -> None:
        log.warning("configuration rejected, the previous configuration remains active", configmap=where, reason=reason)
        if where is not None:
            self._receivers.users(refusal(self._namespace, where, reason))

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
