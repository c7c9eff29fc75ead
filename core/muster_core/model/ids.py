"""Identifiers of resource managers, partitions, queues, applications, allocations and nodes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NewType, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """`dataclass(frozen=True, slots=True)`, but that nothing hashes it and nothing but the type checker keeps it."""
    return dataclass(slots=True)(cls)


RmId = NewType("RmId", str)

#: A partition of one resource manager, built by `partition_id`.
PartitionId = NewType("PartitionId", str)

#: Full path, lower case, from `root` (contract 2.3): `root.team.dev`.
QueuePath = NewType("QueuePath", str)
ApplicationId = NewType("ApplicationId", str)

#: Of an ask and of what becomes of it; Kubernetes: the pod's uid.
AllocationKey = NewType("AllocationKey", str)

#: Of one allocation: several may share a key (semantics 3).
AllocationId = NewType("AllocationId", str)
NodeId = NewType("NodeId", str)

#: Unique within its application; empty = of no task group.
TaskGroup = NewType("TaskGroup", str)
NO_GROUP: Final = TaskGroup("")
NO_NODE: Final = NodeId("")
ROOT: Final = QueuePath("root")

#: Where applications go that ran before and have no other queue (contract 2.10); no rule may name it.
RECOVERY: Final = QueuePath("root.@recovery@")


def partition_id(rm: RmId, name: str) -> PartitionId:
    """The partition `name` of resource manager `rm`; the empty name is `default`."""
    return PartitionId(f"[{rm}]{name.lower() or 'default'}")


def is_partition_of(rm: RmId, partition: PartitionId) -> bool:
    """Whether the partition is one of this resource manager."""
    return partition.startswith(f"[{rm}]")


def allocation_id(key: AllocationKey, ordinal: int) -> AllocationId:
    """The id of the `ordinal`-th allocation (from 0) made for the ask `key`."""
    return AllocationId(f"{key}-{ordinal}")


def virtual_placeholder_key(application: ApplicationId, group: TaskGroup) -> AllocationKey:
    """The key of the core's own ask for the places of a task group (semantics 16, Direct); no pod's uid has a slash."""
    return AllocationKey(f"{application}/{group}")


def virtual_slot_key(key: AllocationKey, ordinal: int) -> AllocationKey:
    """The key of an ask for one of these places alone."""
    return AllocationKey(f"{key}/{ordinal}")


def is_virtual_key(application: ApplicationId, key: AllocationKey) -> bool:
    """Whether the key is one of the core's own for this application."""
    return key.startswith(f"{application}/")


def child_path(parent: QueuePath, name: str) -> QueuePath:
    """The path of the queue `name` below `parent`."""
    return QueuePath(f"{parent}.{name.lower()}")


def parent_path(path: QueuePath) -> QueuePath:
    """The path of the queue above; empty above root."""
    return QueuePath(path.rpartition(".")[0])


def queue_name(path: QueuePath) -> str:
    """The queue's own name, without those above it."""
    return path.rpartition(".")[2]


class Termination(StrEnum):
    """STOPPED_BY_RM is the resource manager's word, the others are the core's.

    The receiver confirms with the same type; a confirmation of the core's own
    word is never echoed (semantics 4).
    """

    STOPPED_BY_RM = "STOPPED_BY_RM"
    TIMEOUT = "TIMEOUT"
    PREEMPTED_BY_SCHEDULER = "PREEMPTED_BY_SCHEDULER"
    PLACEHOLDER_REPLACED = "PLACEHOLDER_REPLACED"
