"""The names that travel: one NewType per kind, so that one is never taken for another.

A key built from parts has its one builder here (style 10).
"""

from __future__ import annotations

from typing import Final, NewType

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


def podless_key(application: ApplicationId, group: TaskGroup) -> AllocationKey:
    """The key of the core's own ask for the places of a task group (semantics 16, Direct); no pod's uid has a slash."""
    return AllocationKey(f"{application}/{group}")


def podless_place_key(key: AllocationKey, ordinal: int) -> AllocationKey:
    """The key of an ask for one of these places alone."""
    return AllocationKey(f"{key}/{ordinal}")


def is_podless_key(application: ApplicationId, key: AllocationKey) -> bool:
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
