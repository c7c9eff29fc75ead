"""A changed ConfigMap becomes the configuration in force, or a Warning event on it that says why not (contract 3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import structlog

from muster_operator.link import logs
from muster_operator.link.api.session import KubeSession
from muster_operator.link.config.configmaps import read_entries
from muster_operator.link.config.settings import Configuration, parse
from muster_operator.link.errors import ApiRefused, BadSetting, Unreachable
from muster_operator.link.si.core import CoreLink
from muster_operator.model.commands import Command, EventType, Importance, PostEvent, Subject
from muster_si.errors import Refused, SchedulerInterfaceError

log = structlog.get_logger("muster.config")

REASON = "ConfigurationRefused"


class Reconfigurer:
    """Reads the ConfigMaps again when one changed. What needs a restart stays as it was (contract 3)."""

    def __init__(self, session: KubeSession, namespace: str, core: CoreLink, submit: Callable[[Command], None]) -> None:
        self._session, self._namespace, self._core, self._submit = session, namespace, core, submit
        self._one_at_a_time = asyncio.Lock()

    async def changed(self, name: str) -> None:
        """A ConfigMap of that name changed, appeared or went."""
        async with self._one_at_a_time:
            if not self._core.configuration.hot_refresh:
                log.info("a ConfigMap changed; hot refresh is off, so it takes a restart", configmap=name)
                return
            try:
                entries = await read_entries(self._session, self._namespace)
                await self._take(parse(entries, self._core.configuration.policy_group))
            except BadSetting as error:
                self._refuse(name, str(error))
            except Refused as error:
                self._refuse(name, error.reason)
            except SchedulerInterfaceError as error:
                log.info("the next session begins with the new configuration", reason=str(error))
            except (ApiRefused, Unreachable) as error:
                log.warning("the changed ConfigMap could not be read, the old configuration stays", reason=str(error))

    async def _take(self, new: Configuration) -> None:
        old = self._core.configuration
        # These are read once, at the start: the core would not know us under another name.
        new = replace(new, cluster_id=old.cluster_id, limits=old.limits, settings=old.settings)
        if new == old:
            return
        await self._core.reconfigure(new)
        if new.log_level != old.log_level:
            logs.set_level(new.log_level)
        log.info("configuration replaced")

    def _refuse(self, name: str, reason: str) -> None:
        log.warning("the new configuration is refused, the old one stays in force", configmap=name, reason=reason)
        note = f"refused, the old configuration stays in force: {reason}"
        self._submit(
            PostEvent(
                subject=Subject.CONFIG_MAP,
                namespace=self._namespace,
                name=name,
                uid="",
                type=EventType.WARNING,
                reason=REASON,
                action=REASON,
                note=note,
                importance=Importance.PROBLEM,
            )
        )
