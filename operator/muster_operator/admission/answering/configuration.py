"""Whether a changed ConfigMap may be stored: what would be in force with it, judged by our parser and by the core.

Fails open where the core does not answer (contract 7): a configuration may be just what repairs it. What slips through
so is refused when it is loaded, with an event on the ConfigMap, and the one in force stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from muster_operator.admission.review import Answer, Review
from muster_operator.link.api.session import KubeSession
from muster_operator.link.config import catalogue
from muster_operator.link.config.configmaps import NAMES, merged, read_config_maps
from muster_operator.link.config.settings import Configuration, parse
from muster_operator.link.errors import BadSetting
from muster_operator.translate.raw import Raw, mapping, text
from muster_si import muster_pb2
from muster_si.api import AdministrationAPI
from muster_si.errors import SchedulerInterfaceError

#: Seconds that the core gets; the answer has to be there before the API server stops waiting.
CORE_S: Final = 2.5
#: The API server cuts longer ones, and drops many.
WARNING_LIMIT: Final = 250
MOST_WARNINGS: Final = 20


@dataclass(frozen=True, slots=True)
class ConfigurationCheck:
    """Reads the other ConfigMaps of our namespace, and asks the core, which gets `core_s` seconds.

    `present`: the configuration in force.
    """

    session: KubeSession
    namespace: str
    core: AdministrationAPI
    present: Callable[[], Configuration]
    core_s: float = CORE_S

    async def answer(self, review: Review) -> Answer:
        """Refused are values that mean nothing, and queues that the core would not take, in its words.

        Raises:
            ApiRefused, Unreachable: the other ConfigMaps cannot be read.
        """
        if review.kind != "ConfigMap" or review.namespace != self.namespace or review.name not in NAMES:
            return Answer()
        config_maps = await read_config_maps(self.session, self.namespace, review.object)
        if review.name not in {text(mapping(one.get("metadata")).get("name")) for one in config_maps}:
            return Answer(warnings=(f"{review.name} is not in force: there is a ConfigMap of muster- that is",))
        try:
            return await self._judged(config_maps)
        except BadSetting as error:
            return Answer(str(error))

    async def _judged(self, config_maps: tuple[Raw, ...]) -> Answer:
        entries, present = merged(config_maps), self.present()
        found = parse(entries, present.policy_group)
        if unfit := catalogue.unfit(entries):
            return Answer("; ".join(one.line for one in unfit))
        found_odd = [*catalogue.doubts(entries), *catalogue.awaiting_restart(present.extra, entries)]
        doubts = [one.line for one in found_odd]
        request = muster_pb2.ValidateConfigurationRequest(config=found.queues, extraConfig=found.extra)
        try:
            async with asyncio.timeout(self.core_s):
                said = await self.core.validate_configuration(request)
        except (SchedulerInterfaceError, TimeoutError) as error:
            reason = str(error) or f"no answer in {self.core_s:g} s"
            return Answer(warnings=_cut([f"the core did not check {present.policy_group}.yaml: {reason}", *doubts]))
        if said.findings:
            return Answer("; ".join(said.findings))
        return Answer(warnings=_cut([*said.warnings, *doubts]))


def _cut(warnings: list[str]) -> tuple[str, ...]:
    short = [one if len(one) <= WARNING_LIMIT else one[: WARNING_LIMIT - 3] + "..." for one in warnings]
    return tuple(dict.fromkeys(short))[:MOST_WARNINGS]
