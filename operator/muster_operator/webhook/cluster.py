"""Namespaces and priority classes for admission decisions, and validation of ConfigMaps."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from muster_operator.config import catalog
from muster_operator.config.settings import CONFIG_MAP_NAMES, Configuration, merged, parse, read_config_maps
from muster_operator.kube.session import KubeSession
from muster_operator.model.errors import BadSetting
from muster_operator.translate.nodes import read_priority_class
from muster_operator.translate.values import Raw, mapping, strings, text
from muster_operator.webhook.context import AdmissionAnswer, ClusterSnapshot, Review, shortened
from muster_si import muster_pb2
from muster_si.api import AdministrationAPI
from muster_si.errors import SchedulerInterfaceError

NAMESPACES: Final = "namespaces"
PRIORITY_CLASSES: Final = "priorityclasses"
DELETED: Final = "DELETED"

#: Prefix of the namespace annotations that are kept.
_PREFIX: Final = "yunikorn.apache.org/"

#: Objects are read as lists of one object: the watch needs the permission to list anyway, and get needs another one.
_PATHS: Final = {
    NAMESPACES: "/api/v1/namespaces?fieldSelector=metadata.name%3D",
    PRIORITY_CLASSES: "/apis/scheduling.k8s.io/v1/priorityclasses?fieldSelector=metadata.name%3D",
}

#: Seconds for which a missing name is not looked up again, because every pod can send requests to the webhook.
UNKNOWN_S: Final = 1.0
MAX_UNKNOWN_NAMES: Final = 1024

#: Maximum number of concurrent reads.
LOOK_UPS: Final = 4


class ClusterView:
    """Namespaces and priority classes. Updated by the watch (`watched`, `listed`), read by the server.

    `account` is the user name of the operator at the API server.
    """

    def __init__(
        self,
        session: KubeSession,
        own_namespace: str,
        scheduler_names: frozenset[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.account = ""
        self._session, self._own_namespace, self._scheduler_names = session, own_namespace, scheduler_names
        self._namespaces: dict[str, dict[str, str]] = {}
        self._classes: dict[str, bool] = {}
        self._listed: set[str] = set()
        self._clock, self._looking = clock, asyncio.Semaphore(LOOK_UPS)
        #: (plural, name) that was not found, until when that holds; the oldest first.
        self._unknown: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._reads: dict[tuple[str, str], asyncio.Task[None]] = {}

    @property
    def known(self) -> ClusterSnapshot:
        """A live view of the present state."""
        return ClusterSnapshot(
            self.account, self._own_namespace, self._scheduler_names, self._namespaces, self._classes
        )

    @property
    def missing(self) -> str:
        """Resources without a complete list; empty if there are none."""
        return ", ".join(sorted(set(_PATHS) - self._listed))

    def watched(self, plural: str, kind: str | None, raw: Raw) -> None:
        """Handles a watch event. Other kinds are ignored."""
        name = text(mapping(raw.get("metadata")).get("name"))
        known = self._known(plural)
        if known is None:
            return
        if kind == DELETED:
            known.pop(name, None)
        else:
            self._take(plural, name, raw)

    def listed(self, plural: str) -> None:
        """Records that a list is complete. Its objects were passed to `watched`."""
        if self._known(plural) is not None:
            self._listed.add(plural)

    def is_missing(self, namespace: str, priority_class: str) -> bool:
        """Whether the namespace or the priority class (empty = none) has to be read."""
        return namespace not in self._namespaces or bool(priority_class and priority_class not in self._classes)

    async def look_up(self, namespace: str, priority_class: str) -> None:
        """Reads the namespace and the priority class if the watch has not delivered them.

        Raises:
            ApiRefused, Unreachable: one of them cannot be read.
        """
        if namespace not in self._namespaces:
            await self._read_once(NAMESPACES, namespace)
        if priority_class and priority_class not in self._classes:
            await self._read_once(PRIORITY_CLASSES, priority_class)

    async def _read_once(self, plural: str, name: str) -> None:
        """Read an object once for all concurrent requests; a missing object is not read again immediately."""
        key = (plural, name)
        if self._unknown.get(key, 0.0) > self._clock():
            return
        reading = self._reads.get(key)
        if reading is None:
            reading = self._reads[key] = asyncio.create_task(self._read(plural, name))
            reading.add_done_callback(lambda _: self._reads.pop(key, None))
        await asyncio.shield(reading)

    async def _read(self, plural: str, name: str) -> None:
        """Reads an object. A missing one stays unknown, because the API server rejects objects that refer to it."""
        async with self._looking:
            found = await self._session.get(_PATHS[plural] + quote(name, safe=""))
        items = found.get("items") or []
        for raw in items:
            self._take(plural, name, raw)
        if not items:
            self.not_found(plural, name)

    def not_found(self, plural: str, name: str) -> None:
        """Remembers for UNKNOWN_S that the object does not exist."""
        self._unknown[plural, name] = self._clock() + UNKNOWN_S
        self._unknown.move_to_end((plural, name))
        if len(self._unknown) > MAX_UNKNOWN_NAMES:
            self._unknown.popitem(last=False)

    def _take(self, plural: str, name: str, raw: Raw) -> None:
        if plural == NAMESPACES:
            written = strings(mapping(raw.get("metadata")).get("annotations"))
            self._namespaces[name] = {key: value for key, value in written.items() if key.startswith(_PREFIX)}
        elif (seen := read_priority_class(raw)) is not None:
            self._classes[name] = seen.allow_preemption

    def _known(self, plural: str) -> dict[str, dict[str, str]] | dict[str, bool] | None:
        match plural:
            case "namespaces":
                return self._namespaces
            case "priorityclasses":
                return self._classes
            case _:
                return None


#: Timeout of the core in seconds. It is below the timeout of the API server.
CORE_S: Final = 2.5


@dataclass(frozen=True, slots=True)
class ConfigurationCheck:
    """Validates a ConfigMap of Muster's namespace together with the other ones, by asking the core.

    `present`: the present configuration. `core_s`: timeout of the core in seconds.
    """

    session: KubeSession
    namespace: str
    core: AdministrationAPI
    present: Callable[[], Configuration]
    core_s: float = CORE_S

    async def answer(self, review: Review) -> AdmissionAnswer:
        """Rejects invalid settings, and queue configurations that the core rejects, with the core's message.

        Raises:
            ApiRefused, Unreachable: the other ConfigMaps cannot be read.
        """
        if review.kind != "ConfigMap" or review.namespace != self.namespace or review.name not in CONFIG_MAP_NAMES:
            return AdmissionAnswer()
        config_maps = await read_config_maps(self.session, self.namespace, review.object)
        if review.name not in {text(mapping(one.get("metadata")).get("name")) for one in config_maps}:
            return AdmissionAnswer(
                warnings=(f"{review.name} is not used, because ConfigMap muster-defaults or muster-configs exists",)
            )
        try:
            return await self._validated(config_maps)
        except BadSetting as error:
            return AdmissionAnswer(str(error))

    async def _validated(self, config_maps: tuple[Raw, ...]) -> AdmissionAnswer:
        entries, present = merged(config_maps), self.present()
        found = parse(entries, present.policy_group)
        if unfit := catalog.unfit(entries):
            return AdmissionAnswer("; ".join(one.line for one in unfit))
        findings = [*catalog.setting_warnings(entries), *catalog.awaiting_restart(present.extra, entries)]
        warnings = [one.line for one in findings]
        request = muster_pb2.ValidateConfigurationRequest(config=found.queues, extraConfig=found.extra)
        try:
            async with asyncio.timeout(self.core_s):
                result = await self.core.validate_configuration(request)
        except (SchedulerInterfaceError, TimeoutError) as error:
            reason = str(error) or f"no answer in {self.core_s:g} s"
            return AdmissionAnswer(
                warnings=shortened([f"the core did not check {present.policy_group}.yaml: {reason}", *warnings])
            )
        if result.findings:
            return AdmissionAnswer("; ".join(result.findings))
        return AdmissionAnswer(warnings=shortened([*result.warnings, *warnings]))
