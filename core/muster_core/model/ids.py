"""Identifiers of resource managers, partitions, queues, applications, allocations and nodes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NewType, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """`dataclass(slots=True)` that type checkers treat as frozen. Faster to create than `frozen=True`; no hash."""
    return dataclass(slots=True)(cls)


RmId = NewType("RmId", str)

#: Partition of one resource manager, built by `partition_id`.
PartitionId = NewType("PartitionId", str)

#: Full path from `root` in lower case: `root.team.dev`.
QueuePath = NewType("QueuePath", str)
ApplicationId = NewType("ApplicationId", str)

#: Key of a request and of its allocations. In Kubernetes: the UID of the pod.
AllocationKey = NewType("AllocationKey", str)

#: ID of one allocation. Several allocations may have the same key.
AllocationId = NewType("AllocationId", str)
NodeId = NewType("NodeId", str)

#: Name of a task group, unique in its application; empty = none.
TaskGroup = NewType("TaskGroup", str)
NO_GROUP: Final = TaskGroup("")
NO_NODE: Final = NodeId("")
NO_APPLICATION: Final = ApplicationId("")
NO_KEY: Final = AllocationKey("")
ROOT: Final = QueuePath("root")

#: Queue for recovered applications that no rule places. No rule may name it.
RECOVERY: Final = QueuePath("root.@recovery@")


def partition_id(rm: RmId, name: str) -> PartitionId:
    """Returns the ID of partition `name` of resource manager `rm`; an empty name means `default`.

    It is unique, because names of partitions contain no bracket.
    """
    return PartitionId(f"[{rm}]{name.lower() or 'default'}")


def partition_name(partition: PartitionId) -> str:
    """Returns the name of a partition without its resource manager, the inverse of `partition_id`."""
    return partition.rpartition("]")[2]


def is_partition_of(rm: RmId, partition: PartitionId) -> bool:
    """Whether the partition belongs to this resource manager."""
    return partition == partition_id(rm, partition_name(partition))


def allocation_id(key: AllocationKey, ordinal: int) -> AllocationId:
    """Returns the ID of allocation number `ordinal`, from 0, of the request `key`."""
    return AllocationId(f"{key}-{ordinal}")


def virtual_placeholder_key(application: ApplicationId, group: TaskGroup) -> AllocationKey:
    """Returns the key of the core's own request for a task group of a Direct gang. UIDs of pods contain no slash."""
    return AllocationKey(f"{application}/{group}")


def virtual_slot_key(key: AllocationKey, number: int) -> AllocationKey:
    """Returns the key of a request for one member of such a task group. The number is unique in the partition."""
    return AllocationKey(f"{key}/{number}")


def is_virtual_key(application: ApplicationId, key: AllocationKey) -> bool:
    """Whether the key is one of the core's own requests for this application."""
    return key.startswith(f"{application}/")


def child_path(parent: QueuePath, name: str) -> QueuePath:
    """Returns the path of the queue `name` below `parent`."""
    return QueuePath(f"{parent}.{name.lower()}")


def parent_path(path: QueuePath) -> QueuePath:
    """Returns the path of the parent queue; empty for root."""
    return QueuePath(path.rpartition(".")[0])


def queue_name(path: QueuePath) -> str:
    """Returns the name of the queue without its ancestors."""
    return path.rpartition(".")[2]


class Termination(StrEnum):
    """Why an allocation or request is released. The resource manager sends STOPPED_BY_RM, the core sends the others.

    The receiver confirms with the same type. A confirmation is never confirmed again.
    """

    STOPPED_BY_RM = "STOPPED_BY_RM"
    TIMEOUT = "TIMEOUT"
    PREEMPTED_BY_SCHEDULER = "PREEMPTED_BY_SCHEDULER"
    PLACEHOLDER_REPLACED = "PLACEHOLDER_REPLACED"
