"""What a registration, or a new configuration, says: checked, before it becomes an event.

Called by scheduler.py. Raises Refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from muster_core.edge.config.load import Loaded, load
from muster_core.edge.reading import NAME_LIMIT
from muster_core.model.config import GroupResolver
from muster_core.model.errors import ConfigurationError
from muster_core.model.ids import PartitionId, RmId, partition_id
from muster_core.model.notes import EventNoted, Notice
from muster_si.api import SI_VERSION
from muster_si.errors import RefusalCode, Refused

#: policyGroup of a registration that names none (contract 3, service.policyGroup).
_POLICY_GROUP: Final = "queues"


def rm_id(name: str) -> RmId:
    """rmID, which has to be there."""
    if not name:
        raise Refused(RefusalCode.INVALID_ARGUMENT, "rmID is missing")
    if len(name) > NAME_LIMIT:
        raise Refused(RefusalCode.INVALID_ARGUMENT, f"rmID is longer than {NAME_LIMIT} characters")
    return RmId(name)


def require_version(version: str) -> None:
    """Same major number, or Refused with both versions named (semantics 7)."""
    if version.partition(".")[0].removeprefix("v") != SI_VERSION.partition(".")[0]:
        said = f"the resource manager speaks version {version[:32]!r} of the Scheduler Interface"
        raise Refused(RefusalCode.FAILED_PRECONDITION, f"{said}, this scheduler {SI_VERSION!r}")


def text_of(policy_group: str, config: str, extra: Mapping[str, str]) -> str:
    """The queue configuration: carried as such, or among the extra keys under the policy group's name."""
    if len(policy_group) > NAME_LIMIT:
        raise Refused(RefusalCode.INVALID_ARGUMENT, f"policyGroup is longer than {NAME_LIMIT} characters")
    return config or extra.get(_file_of(policy_group), "")


def _file_of(policy_group: str) -> str:
    return f"{policy_group or _POLICY_GROUP}.yaml"


def configuration_of(text: str, extra: Mapping[str, str], policy_group: str) -> Loaded:
    """The configuration that the text and the extra keys make."""
    try:
        return load(text, extra, _file_of(policy_group))
    except ConfigurationError as error:
        raise Refused(RefusalCode.INVALID_ARGUMENT, f"config: {error}") from error


def require_queues(loaded: Loaded, policy_group: str) -> None:
    """Reject an empty configuration, which would remove all active quotas, limits and access lists."""
    if loaded.is_default:
        what = f"{_file_of(policy_group)} is empty or missing"
        fix = "the active configuration stays; restore the file, or restart the core to use the default queues"
        raise Refused(RefusalCode.INVALID_ARGUMENT, f"config: {what}; {fix}")


def partition_names(loaded: Loaded) -> list[str]:
    """Its partitions, as the resource manager names them."""
    return [partition.name for partition in loaded.configuration.partitions]


def resolvers(rm: RmId, loaded: Loaded) -> dict[PartitionId, GroupResolver]:
    """Where the groups of users come from, by partition."""
    return {partition_id(rm, found.name): found.resolver for found in loaded.configuration.partitions}


def warnings(rm: RmId, loaded: Loaded) -> list[EventNoted]:
    """What its writer should know."""
    return [EventNoted(rm, Notice.QUEUE, "root", warning) for warning in loaded.warnings]
